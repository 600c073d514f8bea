//! Detection of silent agents of Pull clusters. The heartbeats of an agent are changes of the condition `Ready` and
//! renewals of the Lease of its cluster. An agent without heartbeats is silent.
//!
//! The silence is measured with the monotonic clock of this process, because the clock of an agent may be wrong. The
//! caller reads the Leases and writes the conditions.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use berth_api::cluster::SyncMode;
use berth_api::{Cluster, condition};
use berth_apimachinery::timestamp::whole_seconds;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::ResourceExt as _;
use tokio::time::Instant;

/// Time limits for the detection of silent agents. The defaults are Karmada's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeartbeatOptions {
    /// Interval between two checks.
    pub monitor_period: Duration,
    /// Maximum silence of a cluster that has posted its status.
    pub grace_period: Duration,
    /// Maximum silence of a cluster that has never posted its status. The silence begins with the registration of the
    /// cluster.
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

/// The last observed heartbeat of each Pull cluster.
#[derive(Debug)]
pub(super) struct Heartbeats {
    options: HeartbeatOptions,
    last: HashMap<String, LastHeartbeat>,
}

#[derive(Debug)]
struct LastHeartbeat {
    observed_at: Instant,
    ready: Option<Condition>,
    renew_time: Option<Timestamp>,
}

/// The current time of the monotonic clock and of the system clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    pub(super) instant: Instant,
    pub(super) clock: Timestamp,
}

/// Returns the condition `Ready` of a Cluster.
pub(super) fn ready(cluster: &Cluster) -> Option<&Condition> {
    condition::find(&cluster.status.as_ref()?.conditions, READY)
}

const READY: &str = "Ready";
const UNKNOWN: &str = "Unknown";

impl Heartbeats {
    pub(super) fn new(options: HeartbeatOptions) -> Self {
        Self {
            options,
            last: HashMap::new(),
        }
    }

    /// Checks a Pull cluster whose Lease was last renewed at `renew_time`. Returns the new condition `Ready` if the
    /// agent has been silent for too long.
    pub(super) fn check(
        &mut self,
        cluster: &Cluster,
        renew_time: Option<Timestamp>,
        now: Now,
    ) -> Option<Condition> {
        let current = ready(cluster);
        let last = self.last.entry(cluster.name_any()).or_insert_with(|| {
            // At the first check of this process, a cluster with a posted status gets a heartbeat. The silence of a
            // cluster without a status began with its registration.
            let silent = match (current, cluster.creation_timestamp()) {
                (None, Some(created)) => now.clock.duration_since(created.0),
                _ => jiff::SignedDuration::ZERO,
            };
            let silent = Duration::try_from(silent).unwrap_or_default();
            LastHeartbeat {
                observed_at: now.instant.checked_sub(silent).unwrap_or(now.instant),
                ready: current.cloned(),
                renew_time: None,
            }
        });
        if last.ready.as_ref() != current {
            last.ready = current.cloned();
            last.observed_at = now.instant;
        }
        if renew_time > last.renew_time {
            last.renew_time = renew_time;
            last.observed_at = now.instant;
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
        (now.instant.duration_since(last.observed_at) > grace).then(|| Condition {
            type_: READY.to_owned(),
            status: UNKNOWN.to_owned(),
            reason: reason.to_owned(),
            message: message.to_owned(),
            last_transition_time: Time(whole_seconds(now.clock)),
            observed_generation: current.and_then(|condition| condition.observed_generation),
        })
    }

    /// Removes the heartbeats of the clusters that are not in `clusters`.
    pub(super) fn retain(&mut self, clusters: &HashSet<&str>) {
        self.last.retain(|name, _| clusters.contains(name.as_str()));
    }
}

/// Reports whether a cluster is in Pull mode and not being deleted.
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

    /// Returns the time this many seconds after the registration of the test cluster.
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

    fn status_and_reason(condition: Option<Condition>) -> Option<(String, String)> {
        condition.map(|condition| (condition.status, condition.reason))
    }

    fn unknown(reason: &str) -> (String, String) {
        (UNKNOWN.to_owned(), reason.to_owned())
    }

    #[tokio::test]
    async fn a_cluster_that_is_silent_for_the_grace_period_is_unknown() {
        let begin = Instant::now();
        let mut heartbeats = Heartbeats::new(HeartbeatOptions::default());
        let cluster = cluster(Some("True"));
        // The first check of a cluster with a posted status counts as a heartbeat, however old the Lease is.
        assert_eq!(
            status_and_reason(heartbeats.check(&cluster, Some(lease(1)), at(begin, 1000))),
            None
        );
        assert_eq!(
            status_and_reason(heartbeats.check(&cluster, Some(lease(1)), at(begin, 1040))),
            None
        );
        let silent = status_and_reason(heartbeats.check(&cluster, Some(lease(1)), at(begin, 1041)));
        assert_eq!(silent, Some(unknown("ClusterStatusUnknown")));
        // A renewed Lease is a heartbeat even if the agent's clock is wrong.
        assert_eq!(
            status_and_reason(heartbeats.check(&cluster, Some(lease(2)), at(begin, 1041))),
            None
        );
        assert_eq!(
            status_and_reason(heartbeats.check(&cluster, Some(lease(2)), at(begin, 1081))),
            None
        );
        let silent = status_and_reason(heartbeats.check(&cluster, None, at(begin, 1082)));
        assert_eq!(silent, Some(unknown("ClusterStatusUnknown")));
    }

    #[tokio::test]
    async fn a_new_condition_is_a_heartbeat() {
        let begin = Instant::now();
        let mut heartbeats = Heartbeats::new(HeartbeatOptions::default());
        heartbeats.check(&cluster(Some("True")), None, at(begin, 0));
        let unready = cluster(Some("False"));
        assert_eq!(
            status_and_reason(heartbeats.check(&unready, None, at(begin, 40))),
            None
        );
        assert_eq!(
            status_and_reason(heartbeats.check(&unready, None, at(begin, 80))),
            None
        );
        let silent = status_and_reason(heartbeats.check(&unready, None, at(begin, 81)));
        assert_eq!(silent, Some(unknown("ClusterStatusUnknown")));
        // A condition with the status `Unknown` is not written again.
        let known = cluster(Some(UNKNOWN));
        assert_eq!(
            status_and_reason(heartbeats.check(&known, None, at(begin, 500))),
            None
        );
    }

    #[tokio::test]
    async fn a_cluster_that_never_posted_has_the_startup_grace_period() {
        let begin = Instant::now() + Duration::from_mins(5);
        let mut heartbeats = Heartbeats::new(HeartbeatOptions::default());
        let silent = cluster(None);
        assert_eq!(
            status_and_reason(heartbeats.check(&silent, None, at(begin, 60))),
            None
        );
        let late = status_and_reason(heartbeats.check(&silent, None, at(begin, 61)));
        assert_eq!(late, Some(unknown("ClusterStatusNeverUpdated")));
        // As in Karmada, a renewed Lease is a heartbeat even if the agent never posted a status.
        assert_eq!(
            status_and_reason(heartbeats.check(&silent, Some(lease(1)), at(begin, 61))),
            None
        );
    }

    #[test]
    fn only_pull_clusters_need_an_agent() {
        let mut cluster = cluster(None);
        assert!(is_pulled(&cluster));
        cluster.spec.sync_mode = SyncMode::Push;
        assert!(!is_pulled(&cluster));
    }
}
