//! Simulations: decisions about manifests, or the moves that manifests and changes of the fleet would cause. Nothing is
//! written to a control plane.
//!
//! ```text
//! source ──> manifest ──> sandbox ──> detect ──> what_if
//!  files      roles,       refusals,   bindings   decisions,
//!             duplicates   defaults       ^        moves
//!                                         │
//!               live_control_plane ──> live_diff
//!                get and list
//! ```
//!
//! The rules are those of the real components: an API server validates manifests and fills in defaults
//! ([`sandbox`]), and the code of the detector creates the bindings ([`detect`]). [`what_if`] selects the bindings that
//! the scheduler would process, and decides about them with the engine.

mod configuration_note;
mod detect;
mod error;
mod idle_policies;
mod kind_resolution;
mod live_control_plane;
mod live_diff;
mod manifest;
mod merge;
mod notes;
mod offline;
mod options;
mod predicted_state;
mod preview_server;
mod rebalancer;
mod sandbox;
mod skip_validation;
mod source;

pub use error::{Problem, SimulateError, SourceLocation};
pub use notes::Notes;
pub use offline::is_simulated;
pub use options::{LiveOptions, SimulateOptions};
pub use preview_server::{AdmissionRules, PreviewServer, StartPreviewServer};
pub use source::{Document, Input, read};

use crate::scheduler_configuration::DecisionConfiguration;
use crate::what_if::{self, Decision, FleetChange, Moves};

/// Result of a simulation.
#[derive(Debug)]
pub struct Simulation {
    /// Decisions or moves.
    pub outcome: Outcome,
    /// Remarks about ignored objects, objects without effect, and the limits of the simulation.
    pub notes: Notes,
}

/// Decisions about manifests, or the differences between two states.
#[derive(Debug)]
pub enum Outcome {
    /// Decisions about all bindings.
    Decisions(Vec<Decision>),
    /// Bindings that move or become unschedulable.
    Moves(Moves),
}

impl Outcome {
    /// Returns the number of bindings that cannot be placed, or that become unschedulable.
    pub fn unscheduled(&self) -> usize {
        match self {
            Self::Decisions(decisions) => {
                let failed = decisions.iter().filter(|d| d.failure.is_some());
                failed.count()
            }
            Self::Moves(moves) => moves.unschedulable(),
        }
    }
}

/// Simulates the documents that [`read`] has returned, with their problems. `start` starts the API server that validates
/// the manifests.
///
/// # Errors
/// Fails if the manifests cannot be used, if the live control plane cannot be read, or if the scheduler configuration
/// is invalid.
pub async fn simulate(
    documents: Vec<Document>,
    mut problems: Vec<Problem>,
    options: &SimulateOptions,
    configuration: &DecisionConfiguration,
    start: StartPreviewServer,
) -> Result<Simulation, SimulateError> {
    let manifests = manifest::from_documents(documents, &mut problems);
    let mut notes = Notes::default();
    let has_change =
        |of_kind: fn(&FleetChange) -> bool| options.changes.iter().any(|(_, c)| of_kind(c));
    if has_change(|change| matches!(change, FleetChange::Taint { .. })) {
        notes.push(what_if::TAINT_NOTE);
    }
    if has_change(|change| matches!(change, FleetChange::Drain { .. })) {
        notes.push(what_if::DRAIN_NOTE);
    }
    if let Some(origin) = configuration.origin() {
        notes.push(format!("decided with the configuration of {origin}"));
    }
    let outcome = if let Some(live) = &options.live {
        let moves = live_diff::moves(
            live,
            manifests,
            options,
            configuration,
            start,
            problems,
            &mut notes,
        );
        Outcome::Moves(moves.await?)
    } else {
        let state = offline::read_state(manifests, options, start, problems, &mut notes).await?;
        if configuration.origin().is_none() {
            notes.push(configuration_note::note(&state.bindings, &[]));
        }
        if options.changes.is_empty() {
            let decisions = offline::decisions(&state, options, configuration, &mut notes);
            Outcome::Decisions(decisions.await?)
        } else {
            let moves = offline::moves(&state, options, configuration, &mut notes);
            Outcome::Moves(moves.await?)
        }
    };
    Ok(Simulation { outcome, notes })
}
