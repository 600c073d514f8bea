//! The migration of a binding: why old copies wait, which evictions are unfinished, and to which clusters the binding may
//! return.

use std::fmt;
use std::time::Duration;

use berth_api::binding::{GracefulEvictionTask, clusters_evicted_from};
use berth_api::well_known::{
    CONDITION_EVICTIONS_PAUSED, CONDITION_MIGRATING, EVICTED_FROM, LAST_HEALTHY_COPY, PREEMPTED,
    WAITING_FOR_REPLICAS, WAITING_FOR_WORKLOAD,
};
use berth_api::{Binding, Cluster, condition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Serialize};

/// The unfinished moves of a binding.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Migration {
    /// The condition Migrating. Absent if no old copy waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<MigratingCondition>,
    /// The graceful eviction tasks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evictions: Vec<Eviction>,
    /// The clusters from which the binding was evicted, and to which it may return, in the order of the evictions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub may_return_to: Vec<String>,
}

/// The condition Migrating, as the binding stores it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MigratingCondition {
    /// The reason of the condition.
    pub reason: String,
    /// The message of the condition.
    pub message: String,
    /// The start of the migration.
    pub since: Time,
}

/// A graceful eviction task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Eviction {
    /// The cluster from which the binding is evicted.
    pub from: String,
    /// The number of evicted replicas. Absent if the task has no number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// The reason of the task.
    pub reason: String,
    /// The controller or program that created the task.
    pub producer: String,
    /// The message of the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The creation time of the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// The end of the grace period. Absent if the task has no grace period of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
    /// True if only a user ends the task.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub suppress_deletion: bool,
}

/// Clusters from which evictions are paused, with the message of their condition EvictionsPaused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PausedEvictions {
    /// The names of the clusters, in order.
    pub clusters: Vec<String>,
    /// The message of the condition.
    pub message: String,
}

/// The state of a binding that moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MigrationState {
    /// Old copies wait, or an eviction is unfinished.
    Moving,
    /// The last healthy copy waits.
    LastCopy,
    /// The copy leaves for a binding of higher priority.
    Preempted,
}

impl Migration {
    /// Returns the migration of a binding, or `None` if nothing moves and no return is possible.
    pub fn of(binding: &Binding) -> Option<Self> {
        let spec = &binding.spec;
        let condition = condition::find(&binding.status.conditions, CONDITION_MIGRATING);
        let condition = condition.filter(|found| found.status == "True");
        let is_target = |name: &str| spec.clusters.iter().any(|target| target.name == name);
        let evicted_from = clusters_evicted_from(binding.annotation(EVICTED_FROM));
        let may_return_to = evicted_from.filter(|name| !is_target(name));
        let migration = Self {
            condition: condition.map(|found| MigratingCondition {
                reason: found.reason.clone(),
                message: found.message.clone(),
                since: found.last_transition_time.clone(),
            }),
            evictions: spec
                .graceful_eviction_tasks
                .iter()
                .map(Eviction::of)
                .collect(),
            may_return_to: may_return_to.map(str::to_owned).collect(),
        };
        (migration != Self::default()).then_some(migration)
    }

    /// Returns the state of the binding, or `None` if nothing moves.
    pub fn state(&self) -> Option<MigrationState> {
        match &self.condition {
            Some(condition) => Some(condition.state()),
            None if self.evictions.is_empty() => None,
            None => Some(MigrationState::Moving),
        }
    }

    /// Returns the reason of the condition, or of the first eviction. The reason is empty if nothing moves.
    pub fn reason(&self) -> &str {
        let condition = self.condition.as_ref().map(|condition| &*condition.reason);
        let eviction = self.evictions.first().map(|eviction| &*eviction.reason);
        condition.or(eviction).unwrap_or_default()
    }

    /// Returns the start of the migration, or the creation time of the first eviction.
    pub fn since(&self) -> Option<&Time> {
        let condition = self.condition.as_ref().map(|condition| &condition.since);
        condition.or_else(|| self.evictions.first()?.since.as_ref())
    }

    /// Returns the message of the condition, or the clusters of the evictions. The message is empty if nothing moves.
    pub fn message(&self) -> String {
        match &self.condition {
            Some(condition) => condition.message.clone(),
            None if self.evictions.is_empty() => String::new(),
            None => {
                let clusters = self.evictions.iter().map(|eviction| &*eviction.from);
                format!("leaves {}", clusters.collect::<Vec<_>>().join(", "))
            }
        }
    }
}

impl MigrationState {
    /// Returns the state as one or two words.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Moving => "moving",
            Self::LastCopy => "last copy",
            Self::Preempted => "preempted",
        }
    }
}

impl MigratingCondition {
    fn state(&self) -> MigrationState {
        match &*self.reason {
            LAST_HEALTHY_COPY => MigrationState::LastCopy,
            PREEMPTED => MigrationState::Preempted,
            _ => MigrationState::Moving,
        }
    }

    /// Returns the reason in words. An unknown reason is returned unchanged.
    pub fn reason_in_words(&self) -> &str {
        match &*self.reason {
            WAITING_FOR_REPLICAS => "waiting for replicas to become ready",
            LAST_HEALTHY_COPY => "keeping the last healthy copy",
            WAITING_FOR_WORKLOAD => "waiting for the workload that needs it",
            PREEMPTED => "preempted by a binding of higher priority",
            other => other,
        }
    }
}

impl Eviction {
    fn of(task: &GracefulEvictionTask) -> Self {
        let grace = task.grace_period_seconds.and_then(|of| of.try_into().ok());
        let created = task.creation_timestamp.as_ref();
        let until = created.zip(grace.map(Duration::from_secs));
        let until = until.and_then(|(created, grace)| created.0.checked_add(grace).ok());
        let suppress_deletion = task.suppress_deletion == Some(true);
        Self {
            from: task.from_cluster.clone(),
            replicas: task.replicas,
            reason: task.reason.clone(),
            producer: task.producer.clone(),
            message: task.message.clone().filter(|text| !text.is_empty()),
            since: task.creation_timestamp.clone(),
            until: until.filter(|_| !suppress_deletion).map(Time),
            suppress_deletion,
        }
    }
}

/// Formats replicas, reason, producer and times.
impl fmt::Display for Eviction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.replicas {
            None => {}
            Some(1) => f.write_str("1 replica, ")?,
            Some(replicas) => write!(f, "{replicas} replicas, ")?,
        }
        write!(f, "{} ({})", self.reason, self.producer)?;
        if let Some(message) = &self.message {
            write!(f, ": {message}")?;
        }
        if let Some(since) = &self.since {
            write!(f, ", since {:.0}", since.0)?;
        }
        match &self.until {
            Some(until) => write!(f, ", until {:.0} at the latest", until.0),
            None if self.suppress_deletion => f.write_str(", until a user ends it"),
            None => Ok(()),
        }
    }
}

impl PausedEvictions {
    /// Groups clusters by the message of their condition. The clusters without a message are ignored.
    pub fn group<'a>(clusters: impl Iterator<Item = (&'a str, Option<&'a str>)>) -> Vec<Self> {
        let mut groups: Vec<Self> = Vec::new();
        for (cluster, message) in clusters {
            let Some(message) = message else { continue };
            match groups.iter_mut().find(|group| group.message == message) {
                Some(group) => group.clusters.push(cluster.to_owned()),
                None => groups.push(Self {
                    clusters: vec![cluster.to_owned()],
                    message: message.to_owned(),
                }),
            }
        }
        groups
    }

    /// Returns the message of the condition EvictionsPaused of a cluster, or `None` if evictions go on.
    pub fn message_of(cluster: &Cluster) -> Option<&str> {
        let conditions = &cluster.status.as_ref()?.conditions;
        let paused = condition::find(conditions, CONDITION_EVICTIONS_PAUSED);
        let paused = paused.filter(|found| found.status == "True")?;
        Some(&paused.message)
    }
}

/// Formats the names of the clusters, and the message.
impl fmt::Display for PausedEvictions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "evictions from {} are paused: {}",
            self.clusters.join(", "),
            self.message
        )
    }
}

#[cfg(test)]
mod tests {
    use berth_api::ResourceBinding;
    use serde_json::{Value, json};

    use super::*;

    const SINCE: &str = "2026-01-01T00:00:00Z";

    fn binding(reason: Option<&str>, tasks: &Value, evicted_from: &str) -> Binding {
        let conditions: Vec<Value> = reason
            .map(|reason| {
                json!({ "type": "Migrating", "status": "True", "reason": reason, "message": "m1 keeps 1",
                    "lastTransitionTime": SINCE })
            })
            .into_iter()
            .collect();
        let binding: ResourceBinding = serde_json::from_value(json!({
            "metadata": { "name": "web", "namespace": "shop", "annotations": { EVICTED_FROM: evicted_from } },
            "spec": { "resource": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
                "clusters": [{ "name": "m2", "replicas": 2 }], "gracefulEvictionTasks": tasks },
            "status": { "conditions": conditions },
        }))
        .unwrap();
        binding.into()
    }

    #[test]
    fn the_state_depends_on_the_condition_and_the_evictions() {
        let task = json!([{ "fromCluster": "m1", "reason": "TaintUntolerated", "producer": "TaintManager" }]);
        let none = json!([]);
        for (reason, tasks, expected) in [
            (None, &none, None),
            (None, &task, Some("moving")),
            (Some("WaitingForReplicas"), &none, Some("moving")),
            (Some("WaitingForWorkload"), &none, Some("moving")),
            (Some("LastHealthyCopy"), &task, Some("last copy")),
            (Some("Preempted"), &task, Some("preempted")),
            (Some("NewReason"), &none, Some("moving")),
        ] {
            let migration = Migration::of(&binding(reason, tasks, ""));
            let state = migration.as_ref().and_then(Migration::state);
            assert_eq!(state.map(MigrationState::as_str), expected, "{reason:?}");
            assert_eq!(migration.is_some(), expected.is_some(), "{reason:?}");
            let condition = migration.and_then(|migration| migration.condition);
            let words = condition.as_ref().map(MigratingCondition::reason_in_words);
            let has_spaces = words.is_some_and(|words| words.contains(' '));
            let is_known = reason.is_some_and(|reason| reason != "NewReason");
            assert_eq!(has_spaces, is_known, "{words:?}");
        }
    }

    #[test]
    fn a_binding_may_return_to_clusters_that_it_does_not_have() {
        for (annotation, expected) in [("", &[][..]), ("m2", &[]), ("m3, m2,m1", &["m3", "m1"])] {
            let migration = Migration::of(&binding(None, &json!([]), annotation));
            let names = migration.as_ref().map(|of| &of.may_return_to[..]);
            assert_eq!(names.unwrap_or_default(), expected, "{annotation:?}");
            assert_eq!(migration.as_ref().and_then(Migration::state), None);
        }
    }

    #[test]
    fn a_condition_that_is_not_true_is_ignored() {
        let mut binding = binding(Some("WaitingForReplicas"), &json!([]), "");
        "False".clone_into(&mut binding.status.conditions[0].status);
        assert_eq!(Migration::of(&binding), None);
    }

    #[test]
    fn the_text_of_an_eviction_contains_its_known_fields() {
        for (fields, expected) in [
            (json!({}), "TaintUntolerated (TaintManager)"),
            (
                json!({ "replicas": 1, "message": "on fire" }),
                "1 replica, TaintUntolerated (TaintManager): on fire",
            ),
            (
                json!({ "replicas": 2, "creationTimestamp": SINCE }),
                "2 replicas, TaintUntolerated (TaintManager), since 2026-01-01T00:00:00Z",
            ),
            (
                json!({ "creationTimestamp": SINCE, "gracePeriodSeconds": 90 }),
                "TaintUntolerated (TaintManager), since 2026-01-01T00:00:00Z, until 2026-01-01T00:01:30Z at the latest",
            ),
            (
                json!({ "creationTimestamp": SINCE, "gracePeriodSeconds": 90, "suppressDeletion": true }),
                "TaintUntolerated (TaintManager), since 2026-01-01T00:00:00Z, until a user ends it",
            ),
        ] {
            let mut task = json!({ "fromCluster": "m1", "reason": "TaintUntolerated", "producer": "TaintManager" });
            for (field, value) in fields.as_object().unwrap() {
                task[field] = value.clone();
            }
            let task = serde_json::from_value(task).unwrap();
            assert_eq!(Eviction::of(&task).to_string(), expected);
        }
    }

    #[test]
    fn the_json_has_only_the_known_fields() {
        let task = json!([{ "fromCluster": "m1", "reason": "Preempted", "producer": "scheduler", "replicas": 2,
            "creationTimestamp": SINCE, "gracePeriodSeconds": 60 }]);
        let migration = Migration::of(&binding(Some("Preempted"), &task, "m1")).unwrap();
        let expected = json!({
            "condition": { "reason": "Preempted", "message": "m1 keeps 1", "since": SINCE },
            "evictions": [{ "from": "m1", "replicas": 2, "reason": "Preempted", "producer": "scheduler",
                "since": SINCE, "until": "2026-01-01T00:01:00Z" }],
            "mayReturnTo": ["m1"],
        });
        assert_eq!(serde_json::to_value(&migration).unwrap(), expected);
        let read: Migration = serde_json::from_value(expected).unwrap();
        assert_eq!(read, migration);
    }

    #[test]
    fn paused_clusters_are_grouped_by_message() {
        let cluster = |status: &str, message: &str| -> Cluster {
            let condition = json!({ "type": "EvictionsPaused", "status": status, "reason": "r", "message": message,
                "lastTransitionTime": SINCE });
            let cluster = json!({ "metadata": { "name": "m" }, "spec": { "syncMode": "Push" },
                "status": { "conditions": [condition] } });
            serde_json::from_value(cluster).unwrap()
        };
        let clusters = [
            ("m1", cluster("True", "3 of 4 are lost")),
            ("m2", cluster("False", "old")),
            ("m3", cluster("True", "3 of 4 are lost")),
            ("m4", cluster("True", "other")),
        ];
        let clusters = clusters.iter();
        let messages =
            clusters.map(|(name, cluster)| (*name, PausedEvictions::message_of(cluster)));
        let groups = PausedEvictions::group(messages);
        let groups: Vec<String> = groups.iter().map(ToString::to_string).collect();
        assert_eq!(
            groups,
            [
                "evictions from m1, m3 are paused: 3 of 4 are lost",
                "evictions from m4 are paused: other"
            ]
        );
    }
}
