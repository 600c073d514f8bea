//! A fuzz target for the overriders of override policies. An input is a JSON object with the fields `resource` and
//! `overriders`. No input may cause a panic.

#![no_main]

use berth_api::override_policy::Overriders;
use berth_controllers::fuzzing::apply_overriders;
use libfuzzer_sys::{Corpus, fuzz_target};
use serde_json::Value;

fuzz_target!(|input: &[u8]| -> Corpus {
    let Ok(Value::Object(mut fields)) = serde_json::from_slice(input) else {
        return Corpus::Reject;
    };
    let mut take = |name| fields.remove(name).unwrap_or_default();
    let Ok(overriders) = serde_json::from_value::<Overriders>(take("overriders")) else {
        return Corpus::Reject;
    };
    apply_overriders(&mut take("resource"), &overriders);
    Corpus::Keep
});
