//! The flag `--controllers`, which selects the controllers to run, with Karmada's names and syntax.

use std::str::FromStr;

/// A controller that the flag can turn off. As in Karmada, the flag cannot turn off the detector and the dependencies
/// distributor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Controller {
    /// Evicts unhealthy applications.
    ApplicationFailover,
    /// Writes the Works of scheduled bindings.
    Binding,
    /// Aggregates the status of bindings and templates from their Works.
    BindingStatus,
    /// Creates execution namespaces, sets taints, evicts bindings because of taints, and cleans up deleted Clusters.
    Cluster,
    /// Collects the status of Push clusters.
    ClusterStatus,
    /// Sets the taints of ClusterTaintPolicies.
    ClusterTaintPolicy,
    /// Sets the replicas of templates from the autoscalers in members.
    DeploymentReplicasSyncer,
    /// Applies objects to the members, and writes the status of these objects into the Works.
    Execution,
    /// Recalculates the usage of FederatedResourceQuotas from the bindings.
    FederatedResourceQuotaEnforcement,
    /// Aggregates the usage of FederatedResourceQuotas in members.
    FederatedResourceQuotaStatus,
    /// Creates the ResourceQuotas of FederatedResourceQuotas in members.
    FederatedResourceQuotaSync,
    /// Ends graceful evictions.
    GracefulEviction,
    /// Labels workloads that have an autoscaler.
    HpaScaleTargetMarker,
    /// Creates namespaces in members.
    Namespace,
    /// Grants the right to impersonate the users of `clusters/proxy` in members.
    UnifiedAuth,
    /// Requests the rescheduling of bindings for WorkloadRebalancers.
    WorkloadRebalancer,
}

impl Controller {
    const ALL: [Self; 16] = [
        Self::ApplicationFailover,
        Self::Binding,
        Self::BindingStatus,
        Self::Cluster,
        Self::ClusterStatus,
        Self::ClusterTaintPolicy,
        Self::DeploymentReplicasSyncer,
        Self::Execution,
        Self::FederatedResourceQuotaEnforcement,
        Self::FederatedResourceQuotaStatus,
        Self::FederatedResourceQuotaSync,
        Self::GracefulEviction,
        Self::HpaScaleTargetMarker,
        Self::Namespace,
        Self::UnifiedAuth,
        Self::WorkloadRebalancer,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::ApplicationFailover => "applicationFailover",
            Self::Binding => "binding",
            Self::BindingStatus => "bindingStatus",
            Self::Cluster => "cluster",
            Self::ClusterStatus => "clusterStatus",
            Self::ClusterTaintPolicy => "clustertaintpolicy",
            Self::DeploymentReplicasSyncer => "deploymentReplicasSyncer",
            Self::Execution => "execution",
            Self::FederatedResourceQuotaEnforcement => "federatedResourceQuotaEnforcement",
            Self::FederatedResourceQuotaStatus => "federatedResourceQuotaStatus",
            Self::FederatedResourceQuotaSync => "federatedResourceQuotaSync",
            Self::GracefulEviction => "gracefulEviction",
            Self::HpaScaleTargetMarker => "hpaScaleTargetMarker",
            Self::Namespace => "namespace",
            Self::UnifiedAuth => "unifiedAuth",
            Self::WorkloadRebalancer => "workloadRebalancer",
        }
    }

    /// Reports whether `*` selects the controller. The result is the same as in Karmada.
    fn is_on_by_default(self) -> bool {
        !matches!(
            self,
            Self::DeploymentReplicasSyncer | Self::HpaScaleTargetMarker
        )
    }
}

/// Karmada's controllers that Berth does not have, and `workStatus`, which is a part of Berth's `execution`.
const WITHOUT_EFFECT: [&str; 11] = [
    "agentcsrapproving",
    "cronFederatedHorizontalPodAutoscaler",
    "endpointSlice",
    "endpointsliceCollect",
    "endpointsliceDispatch",
    "federatedHorizontalPodAutoscaler",
    "multiclusterservice",
    "remedy",
    "serviceExport",
    "serviceImport",
    "workStatus",
];

/// The value of the flag: the selected controllers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    selected: [bool; Controller::ALL.len()],
    /// Names from [`WITHOUT_EFFECT`] that the flag contains.
    without_effect: Vec<&'static str>,
}

impl Default for Selection {
    /// Selects the controllers that are on by default.
    fn default() -> Self {
        Self {
            selected: Controller::ALL.map(Controller::is_on_by_default),
            without_effect: Vec::new(),
        }
    }
}

impl Selection {
    fn none() -> Self {
        Self {
            selected: [false; Controller::ALL.len()],
            without_effect: Vec::new(),
        }
    }

    /// Returns the default selection without some controllers.
    pub fn without(controllers: &[Controller]) -> Self {
        let mut selection = Self::default();
        for controller in controllers {
            selection.selected[*controller as usize] = false;
        }
        selection
    }

    /// Reports whether a controller is selected.
    pub(super) fn has(&self, controller: Controller) -> bool {
        self.selected[controller as usize]
    }

    /// Logs the names in the flag that have no effect.
    pub(super) fn log_names_without_effect(&self) {
        if let [name] = self.without_effect[..] {
            tracing::warn!(
                "--controllers: {name} has no effect in Berth; see docs/compatibility.md"
            );
        } else if !self.without_effect.is_empty() {
            let names = self.without_effect.join(", ");
            tracing::warn!(
                "--controllers: {names} have no effect in Berth; see docs/compatibility.md"
            );
        }
    }
}

impl FromStr for Selection {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words: Vec<&str> = text.split(',').map(str::trim).collect();
        let mut selection = if words.contains(&"*") {
            Self::default()
        } else {
            Self::none()
        };
        for word in words {
            let (name, is_enabled) = match word.strip_prefix('-') {
                Some(name) => (name, false),
                None => (word, true),
            };
            if matches!(name, "*" | "") {
                continue;
            }
            let mut all = Controller::ALL.into_iter();
            if let Some(controller) = all.find(|known| known.name() == name) {
                selection.selected[controller as usize] = is_enabled;
            } else if let Some(known) = WITHOUT_EFFECT.into_iter().find(|known| *known == name) {
                selection.without_effect.push(known);
            } else {
                let names = Controller::ALL.map(Controller::name).join(", ");
                return Err(format!(
                    "there is no controller {name:?}; the controllers are {names}"
                ));
            }
        }
        Ok(selection)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selected(text: &str) -> Vec<&'static str> {
        let selection: Selection = text.parse().unwrap();
        let all = Controller::ALL.into_iter();
        all.filter(|controller| selection.has(*controller))
            .map(Controller::name)
            .collect()
    }

    #[test]
    fn the_flag_selects_the_same_controllers_as_in_karmada() {
        let on = Controller::ALL.into_iter();
        let on = on.filter(|controller| controller.is_on_by_default());
        let all: Vec<_> = on.map(Controller::name).collect();
        let everything = Controller::ALL.map(Controller::name).to_vec();
        let without = all.iter().copied();
        let without: Vec<_> = without.filter(|name| *name != "clusterStatus").collect();
        for (text, expected) in [
            ("*", all),
            (
                "*,hpaScaleTargetMarker,deploymentReplicasSyncer",
                everything,
            ),
            ("*,-clusterStatus", without.clone()),
            ("-clusterStatus,*", without),
            ("clusterStatus, binding", vec!["binding", "clusterStatus"]),
            ("", vec![]),
            ("-cluster", vec![]),
            ("remedy", vec![]),
        ] {
            assert_eq!(selected(text), expected, "{text}");
        }
    }

    #[test]
    fn other_controllers_of_karmada_are_accepted_and_unknown_controllers_are_refused() {
        let selection: Selection = "*,-remedy,serviceExport".parse().unwrap();
        assert_eq!(selection.without_effect, ["remedy", "serviceExport"]);
        let refused = "*,nothing".parse::<Selection>().unwrap_err();
        assert!(refused.contains("\"nothing\""), "{refused}");
    }
}
