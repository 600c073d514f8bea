//! Taking a binding off a cluster: the target goes, a task stays.

use berth_api::binding::GracefulEvictionTask;
use berth_api::policy::{ApplicationFailover, PurgeMode, StatePreservation};
use serde_json::{Map, Value, json};

use super::binding::Bound;
use super::options::{FailoverOptions, TaintEviction};
use super::state::{StateError, preserved};
use crate::binding_key::BindingKind;

/// Why a binding leaves a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The cluster has a taint that is not tolerated (any longer).
    Taint,
    /// The application is sick there.
    Sickness,
}

/// An eviction that cannot be carried out.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// `Gracefully` with the gate off.
    #[error("GracefulEviction featureGate must be enabled when purgeMode is Gracefully")]
    GateOff,
    /// The state that is to be taken along is not there.
    #[error(transparent)]
    State(#[from] StateError),
}

/// The task that the eviction from a cluster leaves, but for its replicas. Producers and reasons are Karmada's.
///
/// # Errors
/// When the policy asks for what is switched off, or for state that is not there.
pub fn task(
    binding: &Bound,
    cluster: &str,
    why: Why,
    options: &FailoverOptions,
) -> Result<GracefulEvictionTask, Refused> {
    let failover = binding.spec.failover.as_ref();
    let taken_along = |rules: Option<&StatePreservation>| {
        let rules = rules.filter(|_| options.state_preservation);
        preserved(binding, cluster, rules)
    };
    match why {
        Why::Taint => {
            let policy = failover.and_then(|failover| failover.cluster.as_ref());
            let mode = match policy {
                Some(policy) => policy.purge_mode.clone().unwrap_or(PurgeMode::Gracefully),
                None => default_mode(options),
            };
            let state = taken_along(policy.and_then(|p| p.state_preservation.as_ref()))?;
            Ok(GracefulEvictionTask {
                from_cluster: cluster.to_owned(),
                preserved_label_state: state.unwrap_or_default(),
                purge_mode: Some(mode),
                reason: "TaintUntolerated".to_owned(),
                producer: "TaintManager".to_owned(),
                ..GracefulEvictionTask::default()
            })
        }
        Why::Sickness => {
            let policy = failover.and_then(|failover| failover.application.as_ref());
            let policy = policy.cloned().unwrap_or_default();
            let mode = mode_of(&policy);
            let graceful = mode == PurgeMode::Gracefully;
            if graceful && !options.graceful_eviction {
                return Err(Refused::GateOff);
            }
            let state = taken_along(policy.state_preservation.as_ref())?;
            let before = binding.spec.clusters.iter();
            let before = before.map(|target| target.name.clone());
            Ok(GracefulEvictionTask {
                from_cluster: cluster.to_owned(),
                // Only who takes something along has to know where it does not go, as in Karmada.
                clusters_before_failover: before.filter(|_| state.is_some()).collect(),
                preserved_label_state: state.unwrap_or_default(),
                suppress_deletion: (mode == PurgeMode::Never).then_some(true),
                grace_period_seconds: policy.grace_period_seconds.filter(|_| graceful),
                purge_mode: Some(mode),
                reason: "ApplicationFailure".to_owned(),
                producer: application_producer(binding.kind()).to_owned(),
                ..GracefulEvictionTask::default()
            })
        }
    }
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

/// The patch of `spec` that takes a binding off clusters, each with its task. There is never a second task for
/// one cluster. What is not known here stays as it is stored.
///
/// # Errors
/// When a task cannot be written as JSON.
pub fn evict(
    binding: &Bound,
    leaving: Vec<GracefulEvictionTask>,
) -> Result<Value, serde_json::Error> {
    let mut clusters = binding.clusters.clone();
    let mut tasks = binding.tasks.clone();
    for mut task in leaving {
        let cluster = task.from_cluster.clone();
        let Some(target) = binding.spec.clusters.iter().find(|t| t.name == cluster) else {
            continue;
        };
        clusters.retain(|stored| stored["name"].as_str() != Some(&cluster));
        if binding.is_leaving(&cluster) {
            continue;
        }
        task.replicas = (target.replicas > 0).then_some(target.replicas);
        tasks.push(serde_json::to_value(task)?);
    }
    Ok(patch_of(clusters, tasks))
}

fn patch_of(clusters: Vec<Value>, tasks: Vec<Value>) -> Value {
    let mut spec = Map::new();
    spec.insert("clusters".to_owned(), clusters.into());
    spec.insert("gracefulEvictionTasks".to_owned(), tasks.into());
    json!({ "spec": spec })
}

#[cfg(test)]
mod tests {
    use super::super::draining::tests::{bound, bound_with};
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

    fn leave(binding: &Bound, cluster: &str, why: Why) -> Value {
        let task = task(binding, cluster, why, &options()).unwrap();
        evict(binding, vec![task]).unwrap()["spec"].clone()
    }

    #[test]
    fn the_target_goes_and_a_task_stays() {
        let binding = bound(&json!({
            "clusters": [{"name": "m1", "replicas": 2, "new": 1}, {"name": "m2"}],
            "gracefulEvictionTasks": [{"fromCluster": "m3", "reason": "r", "producer": "p", "new": 2}],
        }));
        assert_eq!(
            leave(&binding, "m1", Why::Taint),
            json!({
                "clusters": [{"name": "m2"}],
                "gracefulEvictionTasks": [
                    {"fromCluster": "m3", "reason": "r", "producer": "p", "new": 2},
                    {"fromCluster": "m1", "replicas": 2, "purgeMode": "Directly",
                     "reason": "TaintUntolerated", "producer": "TaintManager"},
                ],
            })
        );
        // Without replicas of its own the task names none.
        let tasks = leave(&binding, "m2", Why::Taint)["gracefulEvictionTasks"].clone();
        assert_eq!(tasks[1].get("replicas"), None);
    }

    #[test]
    fn one_cluster_has_one_task() {
        let task = json!({"fromCluster": "m1", "reason": "r", "producer": "p"});
        let binding = bound(&json!({
            "clusters": [{"name": "m1"}], "gracefulEvictionTasks": [task] }));
        assert_eq!(
            leave(&binding, "m1", Why::Taint),
            json!({ "clusters": [], "gracefulEvictionTasks": [task] })
        );
        assert_eq!(
            leave(&binding, "m9", Why::Taint)["clusters"],
            json!([{"name": "m1"}])
        );
    }

    #[test]
    fn the_policy_says_what_becomes_of_the_old_copy() {
        for (failover, why, expected) in [
            (json!({}), Why::Taint, json!({"purgeMode": "Directly"})),
            (
                json!({"cluster": {}}),
                Why::Taint,
                json!({"purgeMode": "Gracefully"}),
            ),
            (
                json!({"cluster": {"purgeMode": "Directly"}}),
                Why::Taint,
                json!({"purgeMode": "Directly"}),
            ),
            (
                json!({"application": {"decisionConditions": {}, "gracePeriodSeconds": 7}}),
                Why::Sickness,
                json!({"purgeMode": "Gracefully", "gracePeriodSeconds": 7}),
            ),
            (
                json!({"application": {"decisionConditions": {}, "purgeMode": "Directly"}}),
                Why::Sickness,
                json!({"purgeMode": "Directly"}),
            ),
            (
                json!({"application": {"decisionConditions": {}, "purgeMode": "Never"}}),
                Why::Sickness,
                json!({"purgeMode": "Never", "suppressDeletion": true}),
            ),
        ] {
            let binding = bound(&json!({ "clusters": [{"name": "m1"}], "failover": failover }));
            let mut found = leave(&binding, "m1", why)["gracefulEvictionTasks"][0].clone();
            let found = found.as_object_mut().unwrap();
            found.retain(|key, _| !["fromCluster", "reason", "producer"].contains(&key.as_str()));
            assert_eq!(Value::from(found.clone()), expected, "{failover}");
        }
    }

    #[test]
    fn what_is_graceful_needs_its_gate() {
        let binding = bound(&json!({
            "clusters": [{"name": "m1"}], "failover": {"application": {"decisionConditions": {}}} }));
        let off = FailoverOptions {
            graceful_eviction: false,
            ..options()
        };
        let refused = task(&binding, "m1", Why::Sickness, &off).unwrap_err();
        assert!(matches!(refused, Refused::GateOff));
        assert!(task(&binding, "m1", Why::Taint, &off).is_ok());
    }

    #[test]
    fn state_is_taken_along_where_the_policy_and_the_gate_say_so() {
        let rules = json!({ "rules": [{ "aliasLabelName": "count", "jsonPath": "{.replicas}" }] });
        let failover = json!({
            "cluster": { "purgeMode": "Directly", "statePreservation": rules },
            "application": { "decisionConditions": {}, "purgeMode": "Directly",
                "statePreservation": rules } });
        let spec = json!({ "clusters": [{"name": "m1"}, {"name": "m2"}], "failover": failover });
        let status = json!({ "aggregatedStatus": [
            { "clusterName": "m1", "status": { "replicas": 2 } }, { "clusterName": "m2" }] });
        let binding = bound_with(&spec, &status);
        for (why, before) in [(Why::Taint, &[][..]), (Why::Sickness, &["m1", "m2"][..])] {
            let found = task(&binding, "m1", why, &options()).unwrap();
            assert_eq!(json!(found.preserved_label_state), json!({ "count": "2" }));
            assert_eq!(found.clusters_before_failover, before);
            let off = FailoverOptions::default();
            let found = task(&binding, "m1", why, &off).unwrap();
            assert!(found.preserved_label_state.is_empty());
            assert!(found.clusters_before_failover.is_empty());
            let refused = task(&binding, "m2", why, &options()).unwrap_err();
            assert!(matches!(refused, Refused::State(_)), "{refused}");
        }
    }
}
