//! The flag `--feature-gates`, which sets all gates.

use berth_apimachinery::go_bool::go_bool;

use self::Effect::{Set, Unsupported};
use super::EngineGates;

/// The values of all feature gates that have an effect in this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "gates are independent switches"
)]
pub struct FeatureGates {
    /// PriorityBasedScheduling: bindings of higher priority are scheduled first, and failed bindings wait in separate
    /// queues.
    pub priority_based_scheduling: bool,
    /// FairQueueing: among bindings of equal priority, the namespaces take turns.
    pub fair_queueing: bool,
    /// ClusterQueues (specific to Berth): ClusterQueues limit bindings and take turns.
    pub cluster_queues: bool,
    /// RoutineEvents: each successful step is recorded as an event, as in Karmada.
    pub routine_events: bool,
    /// FederatedQuotaEnforcement: admission refuses bindings that exceed a FederatedResourceQuota of their namespace.
    pub quota_enforcement: bool,
    /// Gates of the engine.
    pub engine: EngineGates,
    /// Gates of the controllers.
    pub controllers: ControllerGates,
    /// The entries that no program can follow, as bits of their positions in the table of gates.
    unsupported: u32,
}

/// The flag for [`CustomizedClusterResourceModeling`](EngineGates::customized_cluster_resource_modeling) turned off.
const NO_MODELS: &str = "feature-gates=CustomizedClusterResourceModeling=false";

impl FeatureGates {
    /// Returns the entries of `--feature-gates` that no program can follow, for a warning.
    pub fn ineffective(&self) -> Vec<&'static str> {
        let gates = GATES.iter().enumerate();
        gates
            .filter(|(index, _)| self.unsupported & (1 << index) != 0)
            .filter_map(|(_, (.., effect))| match effect {
                Unsupported { entry, .. } => Some(*entry),
                Set(_) => None,
            })
            .collect()
    }

    /// Returns the entries of `--feature-gates` that the controllers cannot follow, for a warning. Unlike Karmada's
    /// controllers, they always report the nodes of clusters by resource model.
    pub fn ineffective_for_controllers(&self) -> Vec<&'static str> {
        let mut entries = self.ineffective();
        if !self.engine.customized_cluster_resource_modeling {
            entries.push(NO_MODELS);
        }
        entries
    }
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
    /// GracefulMigration (specific to Berth): a workload that moves to other clusters keeps its old replicas until new ones
    /// are ready or the timeout of graceful evictions ends, and never loses its last healthy copy.
    pub graceful_migration: bool,
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
            graceful_migration: true,
            propagate_deps: true,
            policy_preemption: false,
            stateful_failover_injection: false,
            resource_quota_estimate: false,
        }
    }
}

impl FeatureGates {
    /// Returns the defaults of a control plane without Karmada's scheduler.
    #[must_use]
    pub fn stand_alone() -> Self {
        Self {
            quota_enforcement: true,
            cluster_queues: true,
            engine: EngineGates::stand_alone(),
            ..Self::default()
        }
    }
}

impl Default for FeatureGates {
    fn default() -> Self {
        Self {
            priority_based_scheduling: true,
            fair_queueing: true,
            cluster_queues: false,
            routine_events: false,
            quota_enforcement: false,
            engine: EngineGates::default(),
            controllers: ControllerGates::default(),
            unsupported: 0,
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
    /// No effect. The gate is accepted so that all components can share one list of gates, and an entry with a value
    /// other than the supported one is reported.
    Unsupported {
        /// The value of the gate that describes the behaviour of Berth.
        supported: bool,
        /// The flag with the other value.
        entry: &'static str,
    },
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
    // The next two gates enable fields that Karmada ignores.
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
    // The next four gates are on by default in a control plane without Karmada's scheduler.
    (
        "MinGroupsInDivision",
        Stage::Own,
        Set(|gates, on| gates.engine.min_groups_in_division = on),
    ),
    (
        "NoScaleUpOnTaints",
        Stage::Own,
        Set(|gates, on| gates.engine.no_scale_up_on_taints = on),
    ),
    (
        "EstimateGrownRequests",
        Stage::Own,
        Set(|gates, on| gates.engine.estimate_grown_requests = on),
    ),
    (
        "FollowMemberAPIs",
        Stage::Own,
        Set(|gates, on| gates.engine.follow_member_apis = on),
    ),
    (
        "DeviceClassEstimate",
        Stage::Own,
        Set(|gates, on| gates.engine.device_class_estimate = on),
    ),
    (
        "NodePoolEstimate",
        Stage::Own,
        Set(|gates, on| gates.engine.node_pool_estimate = on),
    ),
    (
        "FairQueueing",
        Stage::Own,
        Set(|gates, on| gates.fair_queueing = on),
    ),
    (
        "ClusterQueues",
        Stage::Own,
        Set(|gates, on| gates.cluster_queues = on),
    ),
    (
        "RoutineEvents",
        Stage::Own,
        Set(|gates, on| gates.routine_events = on),
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
        "GracefulMigration",
        Stage::Own,
        Set(|gates, on| gates.controllers.graceful_migration = on),
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
    (
        "MultiClusterService",
        Stage::Alpha,
        Unsupported {
            supported: false,
            entry: "feature-gates=MultiClusterService=true",
        },
    ),
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
    (
        "FederatedQuotaEnforcement",
        Stage::Alpha,
        Set(|gates, on| gates.quota_enforcement = on),
    ),
    (
        "ControllerPriorityQueue",
        Stage::Beta,
        Unsupported {
            supported: true,
            entry: "feature-gates=ControllerPriorityQueue=false",
        },
    ),
    (
        "LoggingAlphaOptions",
        Stage::Alpha,
        Unsupported {
            supported: false,
            entry: "feature-gates=LoggingAlphaOptions=true",
        },
    ),
    (
        "LoggingBetaOptions",
        Stage::Beta,
        Unsupported {
            supported: true,
            entry: "feature-gates=LoggingBetaOptions=false",
        },
    ),
    (
        "ContextualLogging",
        Stage::Beta,
        Unsupported {
            supported: true,
            entry: "feature-gates=ContextualLogging=false",
        },
    ),
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
    parse_over(FeatureGates::default(), text)
}

/// Parses a list like [`parse`], with the defaults of a control plane without Karmada's scheduler.
///
/// # Errors
/// As [`parse`].
pub fn parse_stand_alone(text: &str) -> Result<FeatureGates, String> {
    parse_over(FeatureGates::stand_alone(), text)
}

/// Parses a list like [`parse`], for a command that predicts decisions. Unless the list contains
/// `FederatedQuotaEnforcement=false`, predictions obey the quotas.
///
/// # Errors
/// As [`parse`].
pub fn parse_for_predictions(text: &str) -> Result<FeatureGates, String> {
    let defaults = FeatureGates {
        quota_enforcement: true,
        ..FeatureGates::default()
    };
    parse_over(defaults, text)
}

fn parse_over(mut gates: FeatureGates, text: &str) -> Result<FeatureGates, String> {
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
                let index = GATES.iter().position(|(known, ..)| *known == name);
                let index = index.ok_or_else(|| format!("unrecognized feature gate: {name}"))?;
                named.push((index, on));
            }
        }
    }
    for (stage, on) in all {
        for (_, _, effect) in GATES.iter().filter(|(_, of, _)| *of == stage) {
            effect.apply(&mut gates, on);
        }
    }
    for (index, on) in named {
        match GATES[index].2 {
            Set(set) => set(&mut gates, on),
            Unsupported { supported, .. } if on == supported => gates.unsupported &= !(1 << index),
            Unsupported { .. } => gates.unsupported |= 1 << index,
        }
    }
    Ok(gates)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_are_set_by_name_and_by_stage() {
        assert_eq!(parse(""), Ok(FeatureGates::default()));
        assert_eq!(parse_stand_alone(""), Ok(FeatureGates::stand_alone()));
        let gates = parse_stand_alone("NoScaleUpOnTaints=false").unwrap().engine;
        assert!(gates.min_groups_in_division && !gates.no_scale_up_on_taints);
        for (list, obeys_quotas) in [("", true), ("FederatedQuotaEnforcement=false", false)] {
            let gates = parse_for_predictions(list).unwrap();
            assert_eq!(gates.quota_enforcement, obeys_quotas, "{list}");
        }
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
    fn named_gates_that_nothing_follows_are_reported() {
        for (text, expected) in [
            ("", &[][..]),
            ("AllAlpha=true,AllBeta=false", &[]),
            (
                "MultiClusterService=false,ControllerPriorityQueue=true",
                &[],
            ),
            (
                "ControllerPriorityQueue=false,MultiClusterService=true,Failover=true",
                &[
                    "feature-gates=MultiClusterService=true",
                    "feature-gates=ControllerPriorityQueue=false",
                ],
            ),
            ("MultiClusterService=true,MultiClusterService=false", &[]),
        ] {
            assert_eq!(parse(text).unwrap().ineffective(), expected, "{text}");
        }
        let gates = parse("CustomizedClusterResourceModeling=false").unwrap();
        assert!(gates.ineffective().is_empty(), "the scheduler follows it");
        assert_eq!(gates.ineffective_for_controllers(), [NO_MODELS]);
        assert!(GATES.len() <= 32, "one bit for each gate");
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
