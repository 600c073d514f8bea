//! A fuzz target for the built-in interpreter rules. An input is an object in JSON. Each operation interprets this
//! object. No input may cause a panic.

#![no_main]

use berth_interpreter::Interpreter;
use libfuzzer_sys::{Corpus, fuzz_target};
use serde_json::Value;

fuzz_target!(|input: &[u8]| -> Corpus {
    let Ok(object) = serde_json::from_slice::<Value>(input) else {
        return Corpus::Reject;
    };
    let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let interpreter = Interpreter::default();
    let _ = interpreter.replicas(&api_version, &kind, &object);
    let _ = interpreter.components(&api_version, &kind, &object);
    let _ = interpreter.is_healthy(&object);
    let _ = interpreter.reflect(&object);
    let _ = interpreter.dependencies(&object);
    let _ = interpreter.revise_replicas(&mut object.clone(), 3);
    let _ = interpreter.retain(&mut object.clone(), &object);
    Corpus::Keep
});
