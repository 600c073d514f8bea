//! Overriders of users. An input is JSON with the fields `resource` and `overriders`.

#![no_main]

use berth_api::override_policy::Overriders;
use berth_controllers::fuzzing::apply_overriders;
use libfuzzer_sys::{Corpus, fuzz_target};
use serde_json::Value;

fuzz_target!(|input: &[u8]| -> Corpus {
    let Ok(mut input) = serde_json::from_slice::<Value>(input) else {
        return Corpus::Reject;
    };
    let Ok(overriders) = serde_json::from_value::<Overriders>(input["overriders"].take()) else {
        return Corpus::Reject;
    };
    apply_overriders(&mut input["resource"], &overriders);
    Corpus::Keep
});
