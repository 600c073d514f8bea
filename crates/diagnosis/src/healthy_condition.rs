//! The condition `Healthy` of a binding.

use berth_api::condition::Status;

use crate::copies::{CopyRow, CopyState};
use crate::diagnosis::Diagnosis;
use crate::finding::{Reason, Station};

/// The condition `Healthy` of a binding: whether the workload works in all of its clusters. The content does not depend on
/// the time of the diagnosis, so that an unchanged state is not written again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthyCondition {
    /// `Unknown` if nothing is wrong except that clusters are not ready.
    pub status: Status,
    /// The cause in one word.
    pub reason: &'static str,
    /// The cause in one sentence, or how much of the workload works.
    pub message: String,
}

impl HealthyCondition {
    /// Returns the condition, or `None` if the diagnosed binding has no copies and wants none.
    pub fn of(diagnosis: &Diagnosis) -> Option<Self> {
        if !diagnosis.copies.iter().any(|copy| !copy.leaving) {
            let reasons = [Reason::NoClusters, Reason::Unschedulable];
            let mut findings = diagnosis.findings.iter();
            let found = findings.find(|of| reasons.contains(&of.reason))?;
            let message = match found.reason {
                // The message of the scheduler may change with each attempt, and is in the condition `Scheduled`.
                Reason::Unschedulable => "the scheduler finds no cluster for it",
                _ => &found.message,
            };
            return Some(Self::not_well(Status::False, Reason::NoClusters, message));
        }
        let is_about_members =
            |station| matches!(station, Station::Overrides | Station::Apply | Station::Run);
        // The health of a finding depends on the time, its reason does not.
        let mut findings = diagnosis.findings.iter();
        let mut in_members: Vec<_> = findings
            .clone()
            .filter(|found| is_about_members(found.station))
            .collect();
        in_members.sort_by_key(|found| (rank(found.reason), found.station));
        if let Some(worst) = in_members.first() {
            return Some(Self::not_well(Status::False, worst.reason, &worst.message));
        }
        if let Some(stale) = findings.find(|found| found.reason == Reason::StaleStatus) {
            return Some(Self::not_well(
                Status::Unknown,
                stale.reason,
                &stale.message,
            ));
        }
        Some(Self {
            status: Status::True,
            reason: "Healthy",
            message: well(&diagnosis.copies),
        })
    }

    fn not_well(status: Status, reason: Reason, message: &str) -> Self {
        Self {
            status,
            reason: reason.as_str(),
            message: message.to_owned(),
        }
    }
}

/// Replicas that are not ready are the consequence of the other causes.
fn rank(reason: Reason) -> usize {
    match reason {
        Reason::NotAppliedYet => 2,
        Reason::NotReady | Reason::Starting => 1,
        _ => 0,
    }
}

/// Returns how much works, without numbers that change while replicas are added.
fn well(copies: &[CopyRow]) -> String {
    let staying = copies
        .iter()
        .filter(|copy| !copy.leaving && copy.state == CopyState::Well);
    match staying.count() {
        1 => "It works in 1 cluster".to_owned(),
        count => format!("It works in all {count} clusters"),
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::{Value, json};

    use super::*;
    use crate::copies::ClusterState;
    use crate::of_binding::of_binding;
    use crate::of_binding::tests::binding;

    #[test]
    fn a_binding_that_no_cluster_fits_has_no_clusters() {
        let mut binding = binding(json!([]), json!([]));
        let scheduled = &mut binding.status.conditions[0];
        "False".clone_into(&mut scheduled.status);
        "0/3 clusters are available".clone_into(&mut scheduled.message);
        let found = of_binding(&binding, &|_| ClusterState::Ready, Timestamp::MAX);
        let condition = HealthyCondition::of(&found).unwrap();
        assert_eq!(
            (condition.status, condition.reason, &*condition.message),
            (
                Status::False,
                "NoClusters",
                "the scheduler finds no cluster for it"
            )
        );
    }

    #[test]
    fn the_condition_is_unknown_only_if_nothing_is_known_to_be_wrong() {
        let item = |cluster: &str, ready: i64| {
            let health = if ready == 2 { "Healthy" } else { "Unhealthy" };
            json!({ "clusterName": cluster, "applied": true, "health": health,
                "status": { "replicas": 2, "readyReplicas": ready } })
        };
        let refused = json!({ "clusterName": "m1", "appliedMessage": "is invalid" });
        for (items, status, reason) in [
            (vec![item("m1", 2)], Status::True, "Healthy"),
            (vec![item("m1", 1)], Status::False, "NotReady"),
            (vec![refused], Status::False, "Refused"),
            (
                vec![item("lost", 2), item("m1", 2)],
                Status::Unknown,
                "StaleStatus",
            ),
            (
                vec![item("lost", 2), item("m1", 0)],
                Status::False,
                "NotReady",
            ),
            (vec![], Status::False, "NoClusters"),
        ] {
            let clusters: Vec<Value> = items
                .iter()
                .map(|item| json!({ "name": item["clusterName"], "replicas": 2 }))
                .collect();
            let binding = binding(json!(clusters), json!(items));
            let state = |name: &str| match name {
                "lost" => ClusterState::NotReady { since: None },
                _ => ClusterState::Ready,
            };
            let of = |now: Timestamp| HealthyCondition::of(&of_binding(&binding, &state, now));
            let condition = of(Timestamp::MIN).unwrap();
            assert_eq!(
                (condition.status, condition.reason),
                (status, reason),
                "{items:?}"
            );
            // The time of the diagnosis changes nothing.
            assert_eq!(of(Timestamp::MAX), Some(condition));
        }
    }
}
