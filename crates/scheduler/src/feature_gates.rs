//! The feature gates of all Berth programs: Karmada's gates and Berth's own.

use berth_core::Gates;

use self::Effect::{OtherComponents, Set};
use berth_component_base::go_bool::go_bool;

/// The values of all feature gates that have an effect in this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeatureGates {
    /// PriorityBasedScheduling: bindings of higher priority are scheduled first, and failed bindings wait in separate
    /// queues.
    pub priority_based_scheduling: bool,
    /// Gates of the engine.
    pub engine: Gates,
    /// Gates of the controllers.
    pub controllers: ControllerGates,
}

/// Feature gates of the controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the gates are independent of each other"
)]
pub struct ControllerGates {
    /// Failover: ClusterTaintPolicies and eviction by taints; `None` if not set.
    pub failover: Option<bool>,
    /// GracefulEviction: an evicted workload keeps running until its replacement is healthy or a timeout ends.
    pub graceful_eviction: bool,
    /// PropagateDeps: the dependencies of a resource are propagated with the resource if its policy requires it.
    pub propagate_deps: bool,
    /// PropagationPolicyPreemption: enables `preemption: Always`.
    pub policy_preemption: bool,
    /// StatefulFailoverInjection: a workload that fails over keeps its state.
    pub stateful_failover_injection: bool,
    /// ResourceQuotaEstimate: replica requirements include namespace and priority class.
    pub resource_quota_estimate: bool,
}

impl Default for ControllerGates {
    fn default() -> Self {
        Self {
            failover: None,
            graceful_eviction: true,
            propagate_deps: true,
            policy_preemption: false,
            stateful_failover_injection: false,
            resource_quota_estimate: false,
        }
    }
}

impl Default for FeatureGates {
    fn default() -> Self {
        Self {
            priority_based_scheduling: true,
            engine: Gates::default(),
            controllers: ControllerGates::default(),
        }
    }
}

/// Maturity of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Alpha,
    Beta,
    /// A gate of this project. `AllAlpha` and `AllBeta` do not set it.
    Own,
}

/// Effect of a gate on this program.
#[derive(Clone, Copy, Debug)]
enum Effect {
    /// Changes a setting.
    Set(fn(&mut FeatureGates, bool)),
    /// No effect on this program, because only other components of the control plane use the gate. The gate is accepted
    /// so that all components can share one list of gates.
    OtherComponents,
}

impl Effect {
    fn apply(self, gates: &mut FeatureGates, on: bool) {
        if let Self::Set(set) = self {
            set(gates, on);
        }
    }
}

const GATES: &[(&str, Stage, Effect)] = &[
    (
        "PriorityBasedScheduling",
        Stage::Beta,
        Set(|gates, on| gates.priority_based_scheduling = on),
    ),
    (
        "CustomizedClusterResourceModeling",
        Stage::Beta,
        Set(|gates, on| gates.engine.customized_cluster_resource_modeling = on),
    ),
    (
        "MultiplePodTemplatesScheduling",
        Stage::Alpha,
        Set(|gates, on| gates.engine.multiple_pod_templates_scheduling = on),
    ),
    (
        "WorkloadAffinity",
        Stage::Alpha,
        Set(|gates, on| gates.engine.workload_affinity = on),
    ),
    (
        "SchedulingOvercommitProtection",
        Stage::Alpha,
        Set(|gates, on| gates.engine.scheduling_overcommit_protection = on),
    ),
    // The gates of this project enable fields that Karmada ignores.
    (
        "SpreadByAllFields",
        Stage::Own,
        Set(|gates, on| gates.engine.spread_by_all_fields = on),
    ),
    (
        "SpreadStaticWeights",
        Stage::Own,
        Set(|gates, on| gates.engine.spread_static_weights = on),
    ),
    (
        "Failover",
        Stage::Beta,
        Set(|gates, on| gates.controllers.failover = Some(on)),
    ),
    (
        "GracefulEviction",
        Stage::Beta,
        Set(|gates, on| gates.controllers.graceful_eviction = on),
    ),
    (
        "PropagateDeps",
        Stage::Beta,
        Set(|gates, on| gates.controllers.propagate_deps = on),
    ),
    (
        "PropagationPolicyPreemption",
        Stage::Alpha,
        Set(|gates, on| gates.controllers.policy_preemption = on),
    ),
    ("MultiClusterService", Stage::Alpha, OtherComponents),
    (
        "ResourceQuotaEstimate",
        Stage::Alpha,
        Set(|gates, on| gates.controllers.resource_quota_estimate = on),
    ),
    (
        "StatefulFailoverInjection",
        Stage::Alpha,
        Set(|gates, on| gates.controllers.stateful_failover_injection = on),
    ),
    ("FederatedQuotaEnforcement", Stage::Alpha, OtherComponents),
    ("ControllerPriorityQueue", Stage::Beta, OtherComponents),
    ("LoggingAlphaOptions", Stage::Alpha, OtherComponents),
    ("LoggingBetaOptions", Stage::Beta, OtherComponents),
    ("ContextualLogging", Stage::Beta, OtherComponents),
];

/// Returns the names of all gates.
pub fn names() -> impl Iterator<Item = &'static str> {
    GATES.iter().map(|(name, ..)| *name)
}

/// Parses a list such as `Name=true,Name=false`. If a gate occurs twice, the last entry applies. `AllAlpha` and
/// `AllBeta` set all gates of a stage, except the gates that have their own entry.
///
/// # Errors
/// When an entry is not `Name=BOOL` or names an unknown gate.
pub fn parse(text: &str) -> Result<FeatureGates, String> {
    let mut all = Vec::new();
    let mut named = Vec::new();
    for entry in text
        .split(',')
        .map(str::trim)
        .filter(|entry| !entry.is_empty())
    {
        let (name, value) = entry
            .split_once('=')
            .ok_or_else(|| format!("{entry:?} is not Name=true or Name=false"))?;
        let value = value.trim();
        let on = go_bool(value).map_err(|reason| format!("{name}={value}: {reason}"))?;
        match name.trim() {
            "AllAlpha" => all.push((Stage::Alpha, on)),
            "AllBeta" => all.push((Stage::Beta, on)),
            name => {
                let gate = GATES.iter().find(|(known, ..)| *known == name);
                let (.., effect) =
                    gate.ok_or_else(|| format!("unrecognized feature gate: {name}"))?;
                named.push((*effect, on));
            }
        }
    }
    let mut gates = FeatureGates::default();
    for (stage, on) in all {
        for (_, _, effect) in GATES.iter().filter(|(_, of, _)| *of == stage) {
            effect.apply(&mut gates, on);
        }
    }
    for (effect, on) in named {
        effect.apply(&mut gates, on);
    }
    Ok(gates)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_are_set_by_name_and_by_stage() {
        assert_eq!(parse(""), Ok(FeatureGates::default()));
        let gates = parse("CustomizedClusterResourceModeling=false,WorkloadAffinity=true").unwrap();
        assert!(
            !gates.engine.customized_cluster_resource_modeling && gates.engine.workload_affinity
        );
        let gates = parse("WorkloadAffinity=false,AllAlpha=true,AllBeta=false").unwrap();
        assert!(
            !gates.engine.workload_affinity,
            "a named gate overrides its stage"
        );
        assert!(gates.engine.scheduling_overcommit_protection && !gates.priority_based_scheduling);
        assert!(
            !gates.engine.spread_by_all_fields,
            "AllAlpha does not enable gates of this project"
        );
    }

    #[test]
    fn unknown_gates_are_refused_by_name() {
        assert_eq!(
            parse("Nonsense=true").unwrap_err(),
            "unrecognized feature gate: Nonsense"
        );
        assert!(parse("Failover").unwrap_err().contains("Failover"));
        assert!(parse("Failover=maybe").unwrap_err().contains("maybe"));
    }
}
