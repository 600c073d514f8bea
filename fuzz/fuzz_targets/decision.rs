//! A fuzz target for scheduling decisions. An input is a JSON array of a list of Clusters, the spec of a binding, and
//! the status of a binding.
//!
//! No input may cause a panic. A result contains each cluster at most once, and no negative number of replicas.

#![no_main]

use std::collections::BTreeSet;

use berth_api::binding::{BindingSpec, BindingStatus};
use berth_api::{BindingKey, Cluster};
use berth_engine::{Engine, EngineOptions, Fleet, Request};
use libfuzzer_sys::{Corpus, fuzz_target};

fuzz_target!(|input: &[u8]| -> Corpus {
    type Input = (Vec<Cluster>, BindingSpec, BindingStatus);
    let Ok((clusters, spec, status)) = serde_json::from_slice::<Input>(input) else {
        return Corpus::Reject;
    };
    let mut fleet = Fleet::new();
    for cluster in &clusters {
        fleet.apply(cluster);
    }
    let key = BindingKey::new("default", "web");
    let Ok(request) = Request::new(&key, &spec, &status) else {
        return Corpus::Keep;
    };
    let mut engine = Engine::new(EngineOptions::default()).expect("an engine");
    if let Ok(placement) = engine.schedule(&fleet.snapshot(), &request).result {
        let names: BTreeSet<_> = placement
            .targets
            .iter()
            .map(|target| &target.name)
            .collect();
        assert_eq!(names.len(), placement.targets.len());
        assert!(placement.targets.iter().all(|target| target.replicas >= 0));
    }
    Corpus::Keep
});
