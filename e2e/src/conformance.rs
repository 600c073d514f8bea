//! Comparison of the engine's decisions with Karmada's.
//!
//! A corpus is a pair of files: scenarios (clusters and a binding, one JSON document per line) and the decisions of
//! Karmada's scheduler. Both may be compressed with gzip.

pub mod bench;
mod corpus;
mod verdict;

pub use corpus::{Corpus, CorpusError, Expected, Scenario, read_lines};
pub use verdict::{Mismatch, judge};

use berth_core::{Engine, EngineOptions, Fleet, Outcome, Request};

/// Decides a scenario as the scheduler with default feature gates does.
///
/// # Errors
/// If the engine rejects the binding: its message.
pub fn decide(scenario: &Scenario) -> Result<Outcome, String> {
    let mut fleet = Fleet::new();
    for cluster in &scenario.clusters {
        fleet.apply(cluster);
    }
    let mut engine = Engine::new(EngineOptions {
        empty_workload_propagation: scenario.empty_propagation,
        ..EngineOptions::default()
    })
    .map_err(|error| error.to_string())?;
    let request = request(scenario).map_err(|error| error.to_string())?;
    Ok(engine.schedule(&fleet.snapshot(), &request))
}

/// Returns the scheduling request for the binding of a scenario.
///
/// # Errors
/// If the binding is invalid.
pub fn request(scenario: &Scenario) -> Result<Request, berth_core::RequestError> {
    let binding = &scenario.binding;
    Request::new(
        binding.metadata.namespace.as_deref(),
        binding.metadata.name.as_deref().unwrap_or_default(),
        &binding.spec,
        &binding.status.clone().unwrap_or_default(),
    )
}
