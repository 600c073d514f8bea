//! The reports of members about a binding. The last report of a member that is not ready may be outdated, so the health
//! is unknown. After the member is ready again, or after a restart of the controllers, a report counts when it has
//! changed, or when [`CONFIRMATION_TIME`] has passed. Within this time, the execution controller reads the objects of
//! the member again.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use berth_api::binding::{ResourceHealth, TargetCluster};
use serde_json::Value;

use super::binding::BindingRecord;
use super::cluster::ClusterRecord;

/// Time after which an unchanged report of a ready member counts.
const CONFIRMATION_TIME: Duration = Duration::from_mins(1);

/// The reports about a binding at one time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reports<'a> {
    pub(super) binding: &'a BindingRecord,
    clusters: &'a HashMap<String, ClusterRecord>,
    now: Instant,
}

impl<'a> Reports<'a> {
    /// Returns the reports about a binding from these clusters.
    pub(super) fn new(
        binding: &'a BindingRecord,
        clusters: &'a HashMap<String, ClusterRecord>,
        now: Instant,
    ) -> Self {
        Self {
            binding,
            clusters,
            now,
        }
    }

    /// Returns a cluster.
    pub(super) fn cluster(&self, name: &str) -> Option<&'a ClusterRecord> {
        self.clusters.get(name)
    }

    /// Returns all clusters.
    pub(super) fn clusters(&self) -> impl Iterator<Item = &'a ClusterRecord> {
        self.clusters.values()
    }

    /// Reports whether the member is ready.
    pub(super) fn is_ready(&self, cluster: &str) -> bool {
        let cluster = self.cluster(cluster);
        cluster.is_some_and(|cluster| cluster.ready_since.is_some())
    }

    /// Returns the time from which the present report of a cluster counts, or `None` if the member is not ready.
    pub(super) fn counts_from(&self, cluster: &str) -> Option<Instant> {
        let ready_since = self.cluster(cluster)?.ready_since?;
        let changed = self.binding.reported.get(cluster);
        Some(match changed {
            Some(changed) if *changed >= ready_since => ready_since,
            _ => ready_since + CONFIRMATION_TIME,
        })
    }

    /// Returns the health of the resource in a cluster, if it is known.
    pub(super) fn health(&self, cluster: &str) -> Option<&'a ResourceHealth> {
        let counts = self.counts_from(cluster)? <= self.now;
        self.binding.health_in(cluster).filter(|_| counts)
    }

    /// Reports whether the resource is known to be healthy in a cluster with this number of replicas.
    pub(super) fn is_healthy(&self, cluster: &str, replicas: i64) -> bool {
        let item = self.binding.status_in(cluster);
        self.health(cluster) == Some(&ResourceHealth::Healthy)
            && item.is_some_and(|item| covers_replicas(item.status.as_ref(), replicas))
    }

    /// Reports whether the resource is known to be healthy in all target clusters. Without a target cluster, a resource
    /// is healthy only if it wants no replicas.
    pub(super) fn is_healthy_everywhere(&self) -> bool {
        let spec = &self.binding.body.spec;
        let is_healthy =
            |target: &TargetCluster| self.is_healthy(&target.name, i64::from(target.replicas));
        let wants_none = spec.is_workload() && spec.replicas == 0;
        (wants_none || !spec.clusters.is_empty()) && spec.clusters.iter().all(is_healthy)
    }

    /// Returns the next time at which a report about the binding starts to count.
    pub(super) fn next(&self) -> Option<Instant> {
        let items = self.binding.body.status.aggregated_status.iter();
        let times = items.filter_map(|item| self.counts_from(&item.cluster_name));
        times.filter(|time| *time > self.now).min()
    }
}

/// Reports whether a status counts at least the assigned replicas. A status that is older than an increase of the
/// replicas may be healthy, but counts fewer replicas. A status without a replica count is accepted.
fn covers_replicas(status: Option<&Value>, assigned: i64) -> bool {
    let reported = status.and_then(|status| status.get("replicas")?.as_i64());
    reported.is_none_or(|reported| reported >= assigned)
}

#[cfg(test)]
pub(super) mod tests {
    use jiff::Timestamp;
    use serde_json::json;

    use super::super::cluster::tests::cluster;
    use super::super::graceful_eviction::tests::binding_with;
    use super::*;

    /// Returns a time long before now.
    pub(crate) fn long_ago(now: Instant) -> Instant {
        now.checked_sub(Duration::from_hours(1)).unwrap_or(now)
    }

    /// Returns Clusters without taints. Each has been ready for a long time, or is not ready.
    pub(crate) fn clusters(list: &[(&str, bool)], now: Instant) -> HashMap<String, ClusterRecord> {
        let records = list.iter().map(|(name, ready)| {
            let status = if *ready { "True" } else { "False" };
            let cluster = cluster(name, status, 1, &json!([]));
            let record = ClusterRecord::new(cluster, None, Timestamp::UNIX_EPOCH, long_ago(now));
            ((*name).to_owned(), record)
        });
        records.collect()
    }

    #[test]
    fn a_report_counts_if_the_member_is_ready_and_has_confirmed_it() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        for (about, ready_since, changed, now, expected) in [
            ("not ready", None, Some(0), 1000, false),
            ("ready for a long time", Some(0), None, 60, true),
            ("ready again, unchanged", Some(100), Some(50), 159, false),
            ("ready again, confirmed", Some(100), Some(50), 160, true),
            ("changed since", Some(100), Some(101), 101, true),
        ] {
            let mut binding = binding_with(
                &json!({ "clusters": [{ "name": "m2" }] }),
                &json!({ "aggregatedStatus": [{ "clusterName": "m2", "health": "Healthy" }] }),
            );
            let changed = changed.map(|second| ("m2".to_owned(), at(second)));
            binding.reported.extend(changed);
            let mut clusters = clusters(&[("m2", true)], start);
            clusters.get_mut("m2").unwrap().ready_since = ready_since.map(at);
            let reports = Reports::new(&binding, &clusters, at(now));
            assert_eq!(reports.is_healthy("m2", 0), expected, "{about}");
            assert_eq!(reports.is_healthy_everywhere(), expected, "{about}");
            let next = ready_since
                .filter(|_| !expected)
                .map(|since| at(since + 60));
            assert_eq!(reports.next(), next, "{about}");
        }
    }

    #[test]
    fn the_health_that_is_known_again_with_the_readiness_is_no_new_report() {
        let binding = |health: &str, ready: i64| {
            binding_with(
                &json!({ "clusters": [{ "name": "m2" }] }),
                &json!({ "aggregatedStatus": [{ "clusterName": "m2", "health": health,
                    "status": { "readyReplicas": ready } }] }),
            )
        };
        let start = Instant::now();
        for (about, versions, expected) in [
            (
                "lost and back",
                &[("Healthy", 1), ("Unknown", 1), ("Healthy", 1)][..],
                0,
            ),
            ("lost", &[("Healthy", 1), ("Unknown", 1)], 0),
            ("another health", &[("Healthy", 1), ("Unhealthy", 1)], 1),
            (
                "another status",
                &[("Healthy", 1), ("Unknown", 1), ("Healthy", 2)],
                2,
            ),
        ] {
            let mut known: Option<BindingRecord> = None;
            for ((health, ready), second) in versions.iter().zip(0..) {
                let mut next = binding(health, *ready);
                next.record_changed_reports(known.as_ref(), start + Duration::from_secs(second));
                known = Some(next);
            }
            let reported = known.unwrap().reported["m2"];
            assert_eq!(reported, start + Duration::from_secs(expected), "{about}");
        }
    }

    #[test]
    fn a_binding_without_clusters_is_healthy_only_without_replicas() {
        let requirements = json!({ "resourceRequest": { "cpu": "1" } });
        for (spec, expected) in [
            (json!({}), false),
            (json!({ "replicas": 2 }), false),
            (json!({ "replicaRequirements": requirements }), true),
        ] {
            let (binding, none) = (binding_with(&spec, &json!(null)), HashMap::new());
            let reports = Reports::new(&binding, &none, Instant::now());
            assert_eq!(reports.is_healthy_everywhere(), expected, "{spec}");
        }
    }
}
