//! The fields of a Cluster that failover uses, and the time since which the member has been ready and stable.

use std::time::Instant;

use berth_api::well_known::{CONDITION_EVICTIONS_PAUSED, CONDITION_READY, UNSCHEDULABLE};
use berth_api::{Cluster, condition};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

use super::brake::Readiness;
use super::room::Room;
use super::stability::{Observation, Stability};
use super::toleration::EvictingTaint;

/// An observed Cluster.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ClusterRecord {
    /// The `NoExecute` taints.
    pub(super) taints: Vec<EvictingTaint>,
    /// The time since which the member has been observed ready, or `None` if it is not ready.
    pub(super) ready_since: Option<Instant>,
    /// The time of the last change of the condition `Ready`. If the condition changes and changes back between two
    /// observations, only this time differs.
    transition: Option<Time>,
    /// All taints, without the times at which they were added.
    pub(super) all_taints: Vec<Taint>,
    /// The time since which the cluster has been ready with these taints.
    pub(super) stability: Stability,
    /// The free resources.
    pub(super) room: Room,
    /// True if the Cluster has the condition that evictions are paused.
    pub(super) shows_brake: bool,
    /// True if the Cluster is being deleted.
    pub(super) is_leaving: bool,
    /// Name, labels and spec, which affinities match. The spec has no taints.
    pub(super) matched: Cluster,
}

impl ClusterRecord {
    /// Returns the record of a Cluster. `earlier` is the former record of the same Cluster.
    pub(super) fn new(
        cluster: Cluster,
        earlier: Option<&Self>,
        wall: Timestamp,
        now: Instant,
    ) -> Self {
        let mut taints = Vec::new();
        for taint in &cluster.spec.taints {
            let Some(new) = EvictingTaint::new(taint, wall) else {
                continue;
            };
            let mut known = earlier.into_iter().flat_map(|earlier| &earlier.taints);
            taints.push(match known.find(|old| old.is_same(&new)) {
                Some(old) if taint.time_added.is_none() => new.with_since(old.since()),
                _ => new,
            });
        }
        let conditions = cluster.status.as_ref().map(|status| &status.conditions[..]);
        let ready = condition::find(conditions.unwrap_or_default(), CONDITION_READY);
        let transition = ready.map(|ready| ready.last_transition_time.clone());
        let unchanged = earlier.filter(|earlier| earlier.transition == transition);
        let since = unchanged.and_then(|earlier| earlier.ready_since);
        let is_ready = ready.is_some_and(|ready| ready.status == "True");
        let all_taints = cluster.spec.taints.iter().map(|taint| Taint {
            time_added: None,
            ..taint.clone()
        });
        let all_taints: Vec<Taint> = all_taints.collect();
        let observation = match &transition {
            _ if !is_ready => Observation::NotReady,
            _ if earlier.is_some_and(|earlier| earlier.all_taints != all_taints) => {
                Observation::TaintsChanged
            }
            since => Observation::Ready(since.as_ref().map_or(wall, |time| time.0)),
        };
        let stability = earlier.map(|earlier| &earlier.stability);
        Self {
            stability: Stability::observe(stability, observation, wall),
            room: Room::read(cluster.status.as_ref()),
            all_taints,
            shows_brake: condition::is_true(
                conditions.unwrap_or_default(),
                CONDITION_EVICTIONS_PAUSED,
            ),
            taints,
            ready_since: is_ready.then(|| since.unwrap_or(now)),
            transition,
            is_leaving: cluster.metadata.deletion_timestamp.is_some(),
            matched: Cluster {
                metadata: ObjectMeta {
                    name: cluster.metadata.name,
                    labels: cluster.metadata.labels,
                    ..ObjectMeta::default()
                },
                spec: berth_api::cluster::ClusterSpec {
                    taints: Vec::new(),
                    ..cluster.spec
                },
                status: None,
            },
        }
    }
}

impl ClusterRecord {
    /// Returns the name of the cluster.
    pub(super) fn name(&self) -> &str {
        self.matched.metadata.name.as_deref().unwrap_or_default()
    }

    /// Reports whether the record differs from another one in more than the free resources.
    pub(super) fn differs_from(&self, earlier: &Self) -> bool {
        let with_this_room = Self {
            room: self.room.clone(),
            ..earlier.clone()
        };
        *self != with_this_room
    }

    /// Reports whether `berth cordon` or `karmadactl cordon` keeps new bindings away.
    pub(super) fn is_cordoned(&self) -> bool {
        self.all_taints
            .iter()
            .any(|taint| taint.key == UNSCHEDULABLE)
    }

    /// Returns the readiness, as the brake counts it.
    pub(super) fn readiness(&self) -> Readiness {
        match &self.transition {
            Some(since) if self.ready_since.is_none() && !self.is_leaving => {
                Readiness::NotReadySince(since.0)
            }
            _ => Readiness::Ready,
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};

    use super::*;

    /// Returns a Cluster with the condition `Ready`, whose last change was at this second.
    pub(crate) fn cluster(name: &str, ready: &str, second: i64, taints: &Value) -> Cluster {
        let transition = Timestamp::from_second(second).unwrap();
        serde_json::from_value(json!({ "metadata": { "name": name },
            "spec": { "syncMode": "Push", "taints": taints },
            "status": { "conditions": [{ "type": "Ready", "status": ready, "reason": "R", "message": "",
                "lastTransitionTime": transition }] } }))
        .unwrap()
    }

    #[test]
    fn each_observed_change_of_the_readiness_restarts_its_time() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut record: Option<ClusterRecord> = None;
        for (about, ready, transition, second, expected) in [
            ("first observed", "True", 1, 10, Some(10)),
            ("unchanged", "True", 1, 20, Some(10)),
            ("not ready", "False", 25, 25, None),
            ("unknown", "Unknown", 26, 26, None),
            ("ready again", "True", 30, 30, Some(30)),
            (
                "not ready between two observations",
                "True",
                35,
                40,
                Some(40),
            ),
        ] {
            let cluster = cluster("m1", ready, transition, &json!([]));
            let next =
                ClusterRecord::new(cluster, record.as_ref(), Timestamp::UNIX_EPOCH, at(second));
            assert_eq!(next.ready_since, expected.map(at), "{about}");
            record = Some(next);
        }
    }
}
