//! Comparison of decisions of Berth's scheduling engine with recorded decisions of Karmada's scheduler.
//!
//! The recorded decisions are in a corpus, which is a pair of files. The first file contains scenarios: a scenario
//! consists of clusters and a binding. The second file contains the decision of Karmada's scheduler about each
//! scenario. Both files have one JSON document per line, and may be compressed with gzip. The first line of the second file
//! may contain the version of Karmada and the date of the recording.

pub mod bench;
mod corpus;
mod verdict;

pub use corpus::{Corpus, CorpusError, Expected, Scenario, read_lines};
pub use verdict::{Mismatch, judge};

use berth_api::BindingKey;
use berth_engine::{Engine, EngineOptions, Fleet, Outcome, Request};

/// Schedules the binding of a scenario as a scheduler with default feature gates does.
///
/// # Errors
/// Returns the message of the error if the binding is invalid.
pub fn decide(scenario: &Scenario) -> Result<Outcome, String> {
    let mut fleet = Fleet::new();
    for cluster in &scenario.clusters {
        fleet.apply(cluster);
    }
    let mut engine = Engine::new(EngineOptions {
        empty_workload_propagation: scenario.empty_workload_propagation,
        ..EngineOptions::default()
    })
    .map_err(|error| error.to_string())?;
    let request = request(scenario).map_err(|error| error.to_string())?;
    Ok(engine.schedule(&fleet.snapshot(), &request))
}

/// Returns the request to the engine for the binding of a scenario.
///
/// # Errors
/// If the binding is invalid.
pub fn request(scenario: &Scenario) -> Result<Request, berth_engine::RequestError> {
    let binding = &scenario.binding;
    Request::new(
        &BindingKey::of(&binding.metadata),
        &binding.spec,
        &binding.status.clone().unwrap_or_default(),
    )
}
