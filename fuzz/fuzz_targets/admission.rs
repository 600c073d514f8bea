//! A fuzz target for Karmada's admission rules. An input is a JSON array of an object and its older state.
//!
//! No input may cause a panic. A repeated mutation must change nothing more.

#![no_main]

use berth_api::admission::{self, Environment, GuardedKind, Operation};
use libfuzzer_sys::{Corpus, fuzz_target};
use serde_json::Value;

const KINDS: [(&str, &str); 11] = [
    ("cluster.karmada.io", "clusters"),
    ("policy.karmada.io", "propagationpolicies"),
    ("policy.karmada.io", "clusterpropagationpolicies"),
    ("policy.karmada.io", "overridepolicies"),
    ("policy.karmada.io", "clusteroverridepolicies"),
    ("policy.karmada.io", "clustertaintpolicies"),
    ("policy.karmada.io", "federatedresourcequotas"),
    (
        "config.karmada.io",
        "resourceinterpreterwebhookconfigurations",
    ),
    ("work.karmada.io", "resourcebindings"),
    ("work.karmada.io", "clusterresourcebindings"),
    ("work.karmada.io", "works"),
];

/// An environment with a fixed ID and a fixed time, so that each run is reproducible.
struct Fixed;

impl Environment for Fixed {
    fn new_id(&mut self) -> String {
        "id".to_owned()
    }

    fn now(&mut self) -> String {
        "2026-01-01T00:00:00Z".to_owned()
    }
}

fuzz_target!(|input: &[u8]| -> Corpus {
    let Ok((object, old)) = serde_json::from_slice::<(Value, Value)>(input) else {
        return Corpus::Reject;
    };
    for (group, resource) in KINDS {
        let kind = GuardedKind::find(group, resource).expect("a guarded kind");
        for operation in [Operation::Create, Operation::Update] {
            let mut once = object.clone();
            admission::mutate(kind, operation, &mut once, &mut Fixed);
            let mut twice = once.clone();
            admission::mutate(kind, operation, &mut twice, &mut Fixed);
            assert_eq!(once, twice, "{resource}");
            let _ = admission::validate(kind, operation, Some(&old), &once);
            let _ = admission::validate(kind, operation, None, &object);
        }
        let _ = admission::check_deletion(&object);
    }
    Corpus::Keep
});
