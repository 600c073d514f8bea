//! Options of a simulation, and the changes of the fleet that they describe.

use berth_api::feature_gates::FeatureGates;
use berth_component_base::kube_client::Target;
use berth_scheduler::estimator::EstimatorOptions;

use super::error::SimulateError;
use crate::control_plane_state::ControlPlaneState;
use crate::what_if::FleetChange;

/// Options of a simulation.
#[derive(Clone, Debug, Default)]
pub struct SimulateOptions {
    /// Namespace for manifests that name no namespace. `None` for `default`, or the namespace of the context.
    pub namespace: Option<String>,
    /// True if manifests that a control plane would refuse are errors. Defaults are filled in in any case.
    pub validates: bool,
    /// Changes of the fleet, each with the flag that asks for it.
    pub changes: Vec<(&'static str, FleetChange)>,
    /// True if decisions contain explanations.
    pub explains: bool,
    /// Feature gates of the detector.
    pub gates: FeatureGates,
    /// The control plane whose clusters and bindings are read. `None` if the manifests describe all objects.
    pub live: Option<LiveOptions>,
}

/// The live control plane of a simulation.
#[derive(Clone, Debug, Default)]
pub struct LiveOptions {
    /// Address and credentials.
    pub target: Target,
    /// Options of the members' estimators. `None` if they are not queried.
    pub estimators: Option<EstimatorOptions>,
}

impl SimulateOptions {
    /// Applies the changes.
    ///
    /// # Errors
    /// Fails if a change names a cluster that does not exist.
    pub(crate) fn apply_changes(&self, state: &mut ControlPlaneState) -> Result<(), SimulateError> {
        for (flag, change) in &self.changes {
            if change.apply(state).is_err() {
                return Err(SimulateError::NoSuchCluster {
                    flag,
                    cluster: change.cluster().to_owned(),
                    clusters: state.clusters.keys().cloned().collect(),
                });
            }
        }
        Ok(())
    }
}
