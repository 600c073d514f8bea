//! Objects of members and templates of users, as the controllers interpret them. An input is an object in JSON.

#![no_main]

use berth_interpreter::Interpreter;
use libfuzzer_sys::{Corpus, fuzz_target};
use serde_json::Value;

fuzz_target!(|input: &[u8]| -> Corpus {
    let Ok(object) = serde_json::from_slice::<Value>(input) else {
        return Corpus::Reject;
    };
    let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
    let _ = Interpreter::default().replicas(&text("apiVersion"), &text("kind"), &object);
    Corpus::Keep
});
