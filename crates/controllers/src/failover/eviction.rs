//! The tasks and patches of evictions. An eviction removes a cluster from `spec.clusters` of a binding and adds a
//! graceful eviction task.

use berth_api::BindingKind;
use berth_api::binding::GracefulEvictionTask;
use berth_api::policy::{ApplicationFailover, PurgeMode, StatePreservation};
use berth_api::well_known::EVICTED_FROM;
use serde_json::{Value, json};

use super::binding::BindingRecord;
use super::options::{FailoverOptions, RebalanceOptions, TaintEviction};
use super::read_preserved_state::{PreservedStateError, read_preserved_state};

/// The reason of tasks for evictions by taints.
const TAINT_UNTOLERATED: &str = "TaintUntolerated";
/// The producer of tasks for evictions by taints.
const TAINT_MANAGER: &str = "TaintManager";
/// The reason of tasks for evictions of unhealthy applications.
const APPLICATION_FAILURE: &str = "ApplicationFailure";

/// The reason for an eviction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// The binding does not tolerate a taint of the cluster, or the toleration has expired.
    Taint,
    /// The application is unhealthy in the cluster.
    Unhealthy,
}

impl Reason {
    /// Returns the reason of a task, or `None` for a task of a user or of another controller.
    pub(super) fn of(task: &GracefulEvictionTask) -> Option<Self> {
        match (task.reason.as_str(), task.producer.as_str()) {
            (TAINT_UNTOLERATED, TAINT_MANAGER) => Some(Self::Taint),
            (APPLICATION_FAILURE, _) => Some(Self::Unhealthy),
            _ => None,
        }
    }
}

/// An error that prevents an eviction.
#[derive(Debug, thiserror::Error)]
pub(super) enum EvictionError {
    /// The purge mode is `Gracefully`, but the feature gate `GracefulEviction` is disabled.
    #[error("GracefulEviction featureGate must be enabled when purgeMode is Gracefully")]
    GateOff,
    /// The state to preserve is not available.
    #[error(transparent)]
    State(#[from] PreservedStateError),
}

/// Returns the graceful eviction task for an eviction, without replicas. The producer and the reason are Karmada's.
///
/// # Errors
/// When the policy needs a feature gate that is disabled, or when the state to preserve is not available.
pub(super) fn eviction_task(
    binding: &BindingRecord,
    cluster: &str,
    reason: Reason,
    options: &FailoverOptions,
) -> Result<GracefulEvictionTask, EvictionError> {
    let failover = binding.body.spec.failover.as_ref();
    let preserve = |rules: Option<&StatePreservation>| {
        let rules = rules.filter(|_| options.state_preservation);
        read_preserved_state(binding, cluster, rules)
    };
    match reason {
        Reason::Taint => {
            let policy = failover.and_then(|failover| failover.cluster.as_ref());
            let mode = match policy {
                Some(policy) => policy.purge_mode.clone().unwrap_or(PurgeMode::Gracefully),
                None => default_mode(options),
            };
            let state = preserve(policy.and_then(|p| p.state_preservation.as_ref()))?;
            Ok(GracefulEvictionTask {
                from_cluster: cluster.to_owned(),
                // As in Karmada, a task with preserved state does not list these clusters.
                clusters_before_failover: match state {
                    Some(_) => Vec::new(),
                    None => former_clusters(binding),
                },
                preserved_label_state: state.unwrap_or_default(),
                purge_mode: Some(mode),
                reason: TAINT_UNTOLERATED.to_owned(),
                producer: TAINT_MANAGER.to_owned(),
                ..GracefulEvictionTask::default()
            })
        }
        Reason::Unhealthy => {
            let policy = failover.and_then(|failover| failover.application.as_ref());
            let policy = policy.cloned().unwrap_or_default();
            let mode = mode_of(&policy);
            let graceful = mode == PurgeMode::Gracefully;
            if graceful && !options.graceful_eviction {
                return Err(EvictionError::GateOff);
            }
            let state = preserve(policy.state_preservation.as_ref())?;
            let targets = binding.body.spec.clusters.iter();
            let before = targets.map(|target| target.name.clone());
            Ok(GracefulEvictionTask {
                from_cluster: cluster.to_owned(),
                // As in Karmada, a task without preserved state does not list these clusters.
                clusters_before_failover: before.filter(|_| state.is_some()).collect(),
                preserved_label_state: state.unwrap_or_default(),
                suppress_deletion: (mode == PurgeMode::Never).then_some(true),
                grace_period_seconds: policy.grace_period_seconds.filter(|_| graceful),
                purge_mode: Some(mode),
                reason: APPLICATION_FAILURE.to_owned(),
                producer: application_producer(binding.body.key.kind()).to_owned(),
                ..GracefulEvictionTask::default()
            })
        }
    }
}

/// Returns the clusters that have a copy: the target clusters, the clusters from which the copy is being evicted, and
/// the clusters that had a copy before these evictions.
fn former_clusters(binding: &BindingRecord) -> Vec<String> {
    let spec = &binding.body.spec;
    let targets = spec.clusters.iter().map(|target| &target.name);
    let tasks = spec.graceful_eviction_tasks.iter();
    let former = tasks.flat_map(|task| {
        let before = task.clusters_before_failover.iter();
        before.chain([&task.from_cluster])
    });
    let mut clusters: Vec<String> = Vec::new();
    for name in targets.chain(former) {
        if !clusters.contains(name) {
            clusters.push(name.clone());
        }
    }
    clusters
}

fn default_mode(options: &FailoverOptions) -> PurgeMode {
    let taints = options.taint_eviction.as_ref();
    taints.map_or_else(
        || TaintEviction::default().purge_mode,
        |taints| taints.purge_mode.clone(),
    )
}

fn mode_of(policy: &ApplicationFailover) -> PurgeMode {
    policy.purge_mode.clone().unwrap_or(PurgeMode::Gracefully)
}

fn application_producer(kind: BindingKind) -> &'static str {
    match kind {
        BindingKind::Namespaced => "resource-binding-application-failover-controller",
        BindingKind::Cluster => "cluster-resource-binding-application-failover-controller",
    }
}

/// Returns the patch that evicts a binding from the clusters of the new tasks. A cluster that already has a task gets
/// no second task. Unknown fields are kept. With rebalancing, an annotation records the clusters for a later return.
///
/// # Errors
/// When a task cannot be serialized.
pub(super) fn eviction_patch(
    binding: &BindingRecord,
    new_tasks: Vec<GracefulEvictionTask>,
    rebalance: Option<&RebalanceOptions>,
) -> Result<Value, serde_json::Error> {
    let mut clusters = binding.clusters.clone();
    let mut tasks = binding.tasks.clone();
    let mut evicted_from = binding.evicted_from.clone();
    for mut task in new_tasks {
        let cluster = task.from_cluster.clone();
        let Some(target) = binding
            .body
            .spec
            .clusters
            .iter()
            .find(|t| t.name == cluster)
        else {
            continue;
        };
        clusters.retain(|stored| stored["name"].as_str() != Some(&cluster));
        if !evicted_from.contains(&cluster) {
            evicted_from.push(cluster.clone());
        }
        if binding.has_task_for(&cluster) {
            continue;
        }
        task.replicas = (target.replicas > 0).then_some(target.replicas);
        tasks.push(serde_json::to_value(task)?);
    }
    let mut patch = json!({ "spec": { "clusters": clusters, "gracefulEvictionTasks": tasks } });
    if rebalance.is_some() {
        patch["metadata"]["annotations"][EVICTED_FROM] = json!(evicted_from.join(","));
    }
    Ok(patch)
}

#[cfg(test)]
mod tests {
    use super::super::graceful_eviction::tests::{binding, binding_with};
    use super::*;

    fn options() -> FailoverOptions {
        FailoverOptions {
            taint_eviction: Some(TaintEviction {
                purge_mode: PurgeMode::Directly,
                ..TaintEviction::default()
            }),
            state_preservation: true,
            ..FailoverOptions::default()
        }
    }

    fn evicted(binding: &BindingRecord, cluster: &str, reason: Reason) -> Value {
        let task = eviction_task(binding, cluster, reason, &options()).unwrap();
        eviction_patch(binding, vec![task], None).unwrap()["spec"].clone()
    }

    #[test]
    fn an_eviction_replaces_the_target_cluster_by_a_task() {
        let binding = binding(&json!({
            "clusters": [{"name": "m1", "replicas": 2, "new": 1}, {"name": "m2"}],
            "gracefulEvictionTasks": [{"fromCluster": "m3", "reason": "r", "producer": "p", "new": 2}],
        }));
        assert_eq!(
            evicted(&binding, "m1", Reason::Taint),
            json!({
                "clusters": [{"name": "m2"}],
                "gracefulEvictionTasks": [
                    {"fromCluster": "m3", "reason": "r", "producer": "p", "new": 2},
                    {"fromCluster": "m1", "replicas": 2, "purgeMode": "Directly",
                     "reason": "TaintUntolerated", "producer": "TaintManager",
                     "clustersBeforeFailover": ["m1", "m2", "m3"]},
                ],
            })
        );
        // A target without replicas leads to a task without replicas.
        let tasks = evicted(&binding, "m2", Reason::Taint)["gracefulEvictionTasks"].clone();
        assert_eq!(tasks[1].get("replicas"), None);
    }

    #[test]
    fn a_cluster_gets_at_most_one_task() {
        let task = json!({"fromCluster": "m1", "reason": "r", "producer": "p"});
        let binding = binding(&json!({
            "clusters": [{"name": "m1"}], "gracefulEvictionTasks": [task] }));
        assert_eq!(
            evicted(&binding, "m1", Reason::Taint),
            json!({ "clusters": [], "gracefulEvictionTasks": [task] })
        );
        assert_eq!(
            evicted(&binding, "m9", Reason::Taint)["clusters"],
            json!([{"name": "m1"}])
        );
    }

    #[test]
    fn the_policy_sets_the_purge_mode() {
        const OTHER_FIELDS: [&str; 4] = [
            "fromCluster",
            "reason",
            "producer",
            "clustersBeforeFailover",
        ];
        for (failover, reason, expected) in [
            (json!({}), Reason::Taint, json!({"purgeMode": "Directly"})),
            (
                json!({"cluster": {}}),
                Reason::Taint,
                json!({"purgeMode": "Gracefully"}),
            ),
            (
                json!({"cluster": {"purgeMode": "Directly"}}),
                Reason::Taint,
                json!({"purgeMode": "Directly"}),
            ),
            (
                json!({"application": {"decisionConditions": {}, "gracePeriodSeconds": 7}}),
                Reason::Unhealthy,
                json!({"purgeMode": "Gracefully", "gracePeriodSeconds": 7}),
            ),
            (
                json!({"application": {"decisionConditions": {}, "purgeMode": "Directly"}}),
                Reason::Unhealthy,
                json!({"purgeMode": "Directly"}),
            ),
            (
                json!({"application": {"decisionConditions": {}, "purgeMode": "Never"}}),
                Reason::Unhealthy,
                json!({"purgeMode": "Never", "suppressDeletion": true}),
            ),
        ] {
            let binding = binding(&json!({ "clusters": [{"name": "m1"}], "failover": failover }));
            let mut found = evicted(&binding, "m1", reason)["gracefulEvictionTasks"][0].clone();
            let found = found.as_object_mut().unwrap();
            found.retain(|key, _| !OTHER_FIELDS.contains(&key.as_str()));
            assert_eq!(Value::from(found.clone()), expected, "{failover}");
        }
    }

    #[test]
    fn a_graceful_application_failover_needs_its_gate() {
        let binding = binding(&json!({
            "clusters": [{"name": "m1"}], "failover": {"application": {"decisionConditions": {}}} }));
        let off = FailoverOptions {
            graceful_eviction: false,
            ..options()
        };
        let refused = eviction_task(&binding, "m1", Reason::Unhealthy, &off).unwrap_err();
        assert!(matches!(refused, EvictionError::GateOff));
        assert!(eviction_task(&binding, "m1", Reason::Taint, &off).is_ok());
    }

    #[test]
    fn state_is_preserved_if_policy_and_gate_enable_it() {
        let rules = json!({ "rules": [{ "aliasLabelName": "count", "jsonPath": "{.replicas}" }] });
        let failover = json!({
            "cluster": { "purgeMode": "Directly", "statePreservation": rules },
            "application": { "decisionConditions": {}, "purgeMode": "Directly",
                "statePreservation": rules } });
        let spec = json!({ "clusters": [{"name": "m1"}, {"name": "m2"}], "failover": failover });
        let status = json!({ "aggregatedStatus": [
            { "clusterName": "m1", "status": { "replicas": 2 } }, { "clusterName": "m2" }] });
        let binding = binding_with(&spec, &status);
        for (reason, before) in [
            (Reason::Taint, &[][..]),
            (Reason::Unhealthy, &["m1", "m2"][..]),
        ] {
            let found = eviction_task(&binding, "m1", reason, &options()).unwrap();
            assert_eq!(json!(found.preserved_label_state), json!({ "count": "2" }));
            assert_eq!(found.clusters_before_failover, before);
            let off = FailoverOptions::default();
            let found = eviction_task(&binding, "m1", reason, &off).unwrap();
            assert!(found.preserved_label_state.is_empty());
            let before = match reason {
                Reason::Taint => &["m1", "m2"][..],
                Reason::Unhealthy => &[],
            };
            assert_eq!(found.clusters_before_failover, before);
            let refused = eviction_task(&binding, "m2", reason, &options()).unwrap_err();
            assert!(matches!(refused, EvictionError::State(_)), "{refused}");
        }
    }
}
