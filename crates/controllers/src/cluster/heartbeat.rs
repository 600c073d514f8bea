//! Whether a Pull cluster still lives, from what its agent writes: it posts the status, and renews a Lease. This decides;
//! reading and writing are with those who call.
//!
//! Times are of the monotonic clock, and of when something was seen here: the clock of an agent may be wrong.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use berth_api::Cluster;
use berth_api::cluster::SyncMode;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::ResourceExt as _;
use tokio::time::Instant;

/// How long agents may be silent, with Karmada's defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeartbeatOptions {
    /// Time between two looks.
    pub monitor_period: Duration,
    /// How long a cluster that has posted its status may be silent.
    pub grace_period: Duration,
    /// How long one may be that has never posted it, from its registration on.
    pub startup_grace_period: Duration,
}

impl Default for HeartbeatOptions {
    fn default() -> Self {
        Self {
            monitor_period: Duration::from_secs(5),
            grace_period: Duration::from_secs(40),
            startup_grace_period: Duration::from_mins(1),
        }
    }
}

/// What was heard of Pull clusters.
#[derive(Debug)]
pub(super) struct Heartbeats {
    options: HeartbeatOptions,
    pulses: HashMap<String, Pulse>,
}

#[derive(Debug)]
struct Pulse {
    /// The last sign of life.
    heard: Instant,
    ready: Option<Condition>,
    renewed: Option<Timestamp>,
}

/// A moment, by both clocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    pub(super) instant: Instant,
    pub(super) clock: Timestamp,
}

/// The condition `Ready` of a Cluster.
pub(super) fn ready(cluster: &Cluster) -> Option<&Condition> {
    let conditions = &cluster.status.as_ref()?.conditions;
    conditions.iter().find(|condition| condition.type_ == READY)
}

const READY: &str = "Ready";
const UNKNOWN: &str = "Unknown";

impl Heartbeats {
    pub(super) fn new(options: HeartbeatOptions) -> Self {
        Self {
            options,
            pulses: HashMap::new(),
        }
    }

    /// Looks at a Pull cluster whose Lease was last renewed then; the condition `Ready` that it has to get, if it has
    /// been silent for too long.
    pub(super) fn look(
        &mut self,
        cluster: &Cluster,
        renewed: Option<Timestamp>,
        now: Now,
    ) -> Option<Condition> {
        let current = ready(cluster);
        let pulse = self.pulses.entry(cluster.name_any()).or_insert_with(|| {
            // Who has posted something counts as alive when the controllers start; the others, since they registered.
            let silent = match (current, cluster.creation_timestamp()) {
                (None, Some(created)) => now.clock.duration_since(created.0),
                _ => jiff::SignedDuration::ZERO,
            };
            let silent = Duration::try_from(silent).unwrap_or_default();
            Pulse {
                heard: now.instant.checked_sub(silent).unwrap_or(now.instant),
                ready: current.cloned(),
                renewed: None,
            }
        });
        if pulse.ready.as_ref() != current {
            pulse.ready = current.cloned();
            pulse.heard = now.instant;
        }
        if renewed > pulse.renewed {
            pulse.renewed = renewed;
            pulse.heard = now.instant;
        }
        let (grace, reason, message) = match current {
            Some(condition) if condition.status == UNKNOWN => return None,
            Some(_) => (
                self.options.grace_period,
                "ClusterStatusUnknown",
                "Cluster status controller stopped posting cluster status.",
            ),
            None => (
                self.options.startup_grace_period,
                "ClusterStatusNeverUpdated",
                "Cluster status controller never posted cluster status.",
            ),
        };
        (now.instant.duration_since(pulse.heard) > grace).then(|| Condition {
            type_: READY.to_owned(),
            status: UNKNOWN.to_owned(),
            reason: reason.to_owned(),
            message: message.to_owned(),
            last_transition_time: Time(
                Timestamp::from_second(now.clock.as_second()).unwrap_or(now.clock),
            ),
            observed_generation: current.and_then(|condition| condition.observed_generation),
        })
    }

    /// Forgets clusters that are gone.
    pub(super) fn keep(&mut self, there: &HashSet<&str>) {
        self.pulses.retain(|name, _| there.contains(name.as_str()));
    }
}

/// Whether an agent has to be heard of.
pub(super) fn is_pulled(cluster: &Cluster) -> bool {
    cluster.spec.sync_mode == SyncMode::Pull && cluster.metadata.deletion_timestamp.is_none()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn cluster(ready: Option<&str>) -> Cluster {
        let conditions: Vec<Value> = ready
            .map(|status| {
                json!({ "type": "Ready", "status": status, "reason": "r", "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z" })
            })
            .into_iter()
            .collect();
        serde_json::from_value(json!({
            "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
            "metadata": { "name": "m1", "creationTimestamp": "2026-01-01T00:00:00Z" },
            "spec": { "syncMode": "Pull" }, "status": { "conditions": conditions },
        }))
        .unwrap()
    }

    /// Some seconds after the registration.
    fn at(begin: Instant, seconds: u64) -> Now {
        let clock: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        Now {
            instant: begin + Duration::from_secs(seconds),
            clock: clock + Duration::from_secs(seconds),
        }
    }

    fn lease(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn told(condition: Option<Condition>) -> Option<(String, String)> {
        condition.map(|condition| (condition.status, condition.reason))
    }

    fn unknown(reason: &str) -> (String, String) {
        (UNKNOWN.to_owned(), reason.to_owned())
    }

    #[tokio::test]
    async fn one_that_is_silent_for_the_grace_period_is_unknown() {
        let begin = Instant::now();
        let mut beats = Heartbeats::new(HeartbeatOptions::default());
        let cluster = cluster(Some("True"));
        // After a start of the controllers it counts as alive, whatever the Lease says.
        assert_eq!(
            told(beats.look(&cluster, Some(lease(1)), at(begin, 1000))),
            None
        );
        assert_eq!(
            told(beats.look(&cluster, Some(lease(1)), at(begin, 1040))),
            None
        );
        let silent = told(beats.look(&cluster, Some(lease(1)), at(begin, 1041)));
        assert_eq!(silent, Some(unknown("ClusterStatusUnknown")));
        // A renewed Lease is a sign of life, even if the agent's clock is of yesterday; an old one is none.
        assert_eq!(
            told(beats.look(&cluster, Some(lease(2)), at(begin, 1041))),
            None
        );
        assert_eq!(
            told(beats.look(&cluster, Some(lease(2)), at(begin, 1081))),
            None
        );
        let silent = told(beats.look(&cluster, None, at(begin, 1082)));
        assert_eq!(silent, Some(unknown("ClusterStatusUnknown")));
    }

    #[tokio::test]
    async fn a_new_condition_is_a_sign_of_life() {
        let begin = Instant::now();
        let mut beats = Heartbeats::new(HeartbeatOptions::default());
        beats.look(&cluster(Some("True")), None, at(begin, 0));
        let sick = cluster(Some("False"));
        assert_eq!(told(beats.look(&sick, None, at(begin, 40))), None);
        assert_eq!(told(beats.look(&sick, None, at(begin, 80))), None);
        let silent = told(beats.look(&sick, None, at(begin, 81)));
        assert_eq!(silent, Some(unknown("ClusterStatusUnknown")));
        // What is said already is not said again.
        let known = cluster(Some(UNKNOWN));
        assert_eq!(told(beats.look(&known, None, at(begin, 500))), None);
    }

    #[tokio::test]
    async fn one_that_never_posted_has_the_grace_period_of_a_start() {
        let begin = Instant::now() + Duration::from_mins(5);
        let mut beats = Heartbeats::new(HeartbeatOptions::default());
        let silent = cluster(None);
        assert_eq!(told(beats.look(&silent, None, at(begin, 60))), None);
        let late = told(beats.look(&silent, None, at(begin, 61)));
        assert_eq!(late, Some(unknown("ClusterStatusNeverUpdated")));
        // As in Karmada, a Lease that is renewed is enough.
        assert_eq!(
            told(beats.look(&silent, Some(lease(1)), at(begin, 61))),
            None
        );
    }

    #[test]
    fn only_clusters_with_an_agent_have_to_be_heard_of() {
        let mut cluster = cluster(None);
        assert!(is_pulled(&cluster));
        cluster.spec.sync_mode = SyncMode::Push;
        assert!(!is_pulled(&cluster));
    }
}
