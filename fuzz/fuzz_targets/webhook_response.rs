//! A fuzz target for the responses of interpreter webhooks. An input is the body of a response. Each operation on an
//! object gets this response.
//!
//! No input may cause a panic. An object that an operation has changed is still valid JSON.

#![no_main]

use berth_api::ResourceInterpreterWebhookConfiguration;
use berth_interpreter::{Answers, Interpreter};
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};

const API_VERSION: &str = "example.com/v1";
const KIND: &str = "Thing";

fuzz_target!(|input: &[u8]| {
    let rule =
        json!({ "operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "kinds": ["*"] });
    let configuration = json!({ "metadata": { "name": "fuzz" }, "webhooks": [{
        "name": "fuzz.example.com", "clientConfig": { "url": "https://localhost" },
        "rules": [rule], "interpreterContextVersions": ["v1alpha1"] }] });
    let configuration: ResourceInterpreterWebhookConfiguration =
        serde_json::from_value(configuration).expect("the configuration has all fields");
    let rules = Interpreter::default();
    rules.load_webhooks(vec![configuration]);
    let object = json!({
        "apiVersion": API_VERSION, "kind": KIND, "metadata": { "name": "a" },
        "spec": { "replicas": 2, "list": [1, "x", {}] }, "status": { "ready": 1 },
    });
    let answers = Answers::default();
    let interpreter = rules.with_answers(answers.clone());
    // The first run records the requests. The second run uses the responses to them.
    for _ in 0..2 {
        let _ = interpreter.replicas(API_VERSION, KIND, &object);
        let _ = interpreter.components(API_VERSION, KIND, &object);
        let _ = interpreter.is_healthy(&object);
        let _ = interpreter.reflect(&object);
        let _ = interpreter.dependencies(&object);
        let (mut revised, mut retained) = (object.clone(), object.clone());
        let _ = interpreter.revise_replicas(&mut revised, 3);
        let _ = interpreter.retain(&mut retained, &object);
        for changed in [revised, retained] {
            let text = changed.to_string();
            let parsed = serde_json::from_str::<Value>(&text);
            assert!(parsed.is_ok(), "{text}");
        }
        for request in answers.take_open() {
            let answer = request.read("uid", input);
            answers.add(request, answer);
        }
    }
});
