//! Errors of explanations.

use berth_api::Binding;
use berth_controllers::did_you_mean::nearest;
use berth_engine::RequestError;

use crate::control_plane_lists::ListError;
use crate::scheduler_configuration::{ConfigurationError, DecisionConfiguration, Engines};

/// Maximum number of names in a message.
const NAMES: usize = 8;

/// Reason why a binding cannot be explained.
#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    /// The control plane cannot be read.
    #[error(transparent)]
    Read(#[from] ListError),
    /// No binding has the name, and no binding is for a workload with the name.
    #[error("there is no binding or propagated workload {name}{hint}")]
    NotFound {
        /// The name, and the namespace of the search.
        name: String,
        /// Similar names, or advice.
        hint: String,
    },
    /// Several bindings match the name.
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
    /// The binding has no valid placement, so no cluster can be selected.
    #[error("{0}; the detector writes the placement of a policy into each binding")]
    Request(#[from] RequestError),
    /// The configuration cannot be used.
    #[error(transparent)]
    Configuration(#[from] ConfigurationError),
    /// No profile schedules the binding.
    #[error("{binding} belongs to the scheduler {name}, but {origin} has the profiles {}; pass the configuration of {name}", list(.profiles))]
    NoProfile {
        /// Name of the binding.
        binding: String,
        /// Name of its scheduler.
        name: String,
        /// Origin of the configuration.
        origin: String,
        /// Names of the profiles.
        profiles: Vec<String>,
    },
}

impl ExplainError {
    /// Creates the error for a binding whose scheduler has no profile in the configuration.
    pub(crate) fn no_profile(
        binding: &Binding,
        configuration: &DecisionConfiguration,
        engines: &mut Engines,
    ) -> Self {
        let profiles = engines.profiles().map(|scheduler| scheduler.profiles());
        let profiles = profiles.unwrap_or_default();
        Self::NoProfile {
            binding: binding.key.to_string(),
            name: binding.spec.scheduler().to_owned(),
            origin: configuration.origin().unwrap_or("the flags").to_owned(),
            profiles: profiles.iter().map(ToString::to_string).collect(),
        }
    }

    /// Creates the error for an unknown cluster.
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

/// Returns the names as a list for a message: up to eight names, and the number of the others.
pub fn list(names: &[String]) -> String {
    let shown: Vec<&str> = names.iter().take(NAMES).map(String::as_str).collect();
    match names.len().saturating_sub(shown.len()) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
