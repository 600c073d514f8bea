//! Errors of `berth explain`.

use berth_controllers::nearest::nearest;
use berth_core::{EngineError, RequestError};
use berth_scheduler::connect::ConnectError;
use berth_scheduler::estimator::EstimatorOptionsError;

/// Most names in a message.
const NAMES: usize = 8;

/// Reason why a binding is not explained.
#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    /// The control plane cannot be addressed.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The control plane refuses a request.
    #[error("cannot read {what}: {reason}")]
    Read {
        /// Requested resource.
        what: &'static str,
        /// Cause.
        reason: String,
    },
    /// No binding has the name.
    #[error("there is no binding or propagated workload {name}{hint}")]
    NotFound {
        /// Name and place that were searched.
        name: String,
        /// Similar names, or what to check.
        hint: String,
    },
    /// Several bindings have the name.
    #[error("{name} names {}; pass -n NAMESPACE or --kind KIND, or the name of the binding", list(.names))]
    Ambiguous {
        /// Name on the command line.
        name: String,
        /// The matching bindings.
        names: Vec<String>,
    },
    /// There is no such cluster.
    #[error("--cluster {name}: there is no such cluster{hint}")]
    NoCluster {
        /// Name of the cluster.
        name: String,
        /// Similar or existing names.
        hint: String,
    },
    /// The binding cannot be scheduled on any fleet.
    #[error("{0}; the detector writes the placement of a policy into each binding")]
    Request(#[from] RequestError),
    /// The engine refuses its options.
    #[error("cannot start the engine: {0}")]
    Engine(#[from] EngineError),
    /// A flag of the estimators is invalid.
    #[error(transparent)]
    Estimators(#[from] EstimatorOptionsError),
    /// The output cannot be written.
    #[error("cannot write the output: {0}")]
    Output(#[from] std::io::Error),
}

impl ExplainError {
    /// Reports whether the command line has to change.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Estimators(_))
    }

    /// Returns the error for an unknown cluster.
    pub(crate) fn no_cluster<'a>(
        name: &str,
        known: impl Iterator<Item = &'a String> + Clone,
    ) -> Self {
        let hint = if let Some(found) = nearest(name, known.clone().map(String::as_str)) {
            format!("; did you mean {found}?")
        } else {
            let names: Vec<String> = known.cloned().collect();
            if names.is_empty() {
                "; the control plane has no clusters".to_owned()
            } else {
                format!("; there is {}", list(&names))
            }
        };
        Self::NoCluster {
            name: name.to_owned(),
            hint,
        }
    }
}

/// Lists names, shortened.
pub(crate) fn list(names: &[String]) -> String {
    let shown: Vec<&str> = names.iter().take(NAMES).map(String::as_str).collect();
    match names.len().saturating_sub(shown.len()) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
