//! A fuzz target for the Lua scripts of interpreter customizations. An input is a script, which is the rule for several
//! operations on an object. No script may cause a panic.

#![no_main]

use berth_api::interpreter_customization::ResourceInterpreterCustomization;
use berth_interpreter::Interpreter;
use libfuzzer_sys::{Corpus, fuzz_target};
use serde_json::json;

const API_VERSION: &str = "example.com/v1";
const KIND: &str = "Thing";

fuzz_target!(|input: &[u8]| -> Corpus {
    let Ok(script) = std::str::from_utf8(input) else {
        return Corpus::Reject;
    };
    let rule = json!({ "luaScript": script });
    let customization = json!({
        "metadata": { "name": "fuzz" },
        "spec": {
            "target": { "apiVersion": API_VERSION, "kind": KIND },
            "customizations": {
                "retention": rule, "replicaResource": rule, "replicaRevision": rule, "statusReflection": rule,
                "healthInterpretation": rule,
            },
        },
    });
    let customization: ResourceInterpreterCustomization =
        serde_json::from_value(customization).expect("the customization has all fields");
    let interpreter = Interpreter::with(vec![customization]);
    let object = json!({
        "apiVersion": API_VERSION, "kind": KIND, "metadata": { "name": "a" },
        "spec": { "replicas": 2, "list": [1, "x", {}] }, "status": { "ready": 1 },
    });
    let _ = interpreter.replicas(API_VERSION, KIND, &object);
    let _ = interpreter.is_healthy(&object);
    let _ = interpreter.reflect(&object);
    let _ = interpreter.revise_replicas(&mut object.clone(), 3);
    let _ = interpreter.retain(&mut object.clone(), &object);
    Corpus::Keep
});
