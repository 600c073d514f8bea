//! The condition `Healthy` of a binding.

use berth_api::condition::Status;

use crate::copies::{CopyRow, CopyState};
use crate::diagnosis::Diagnosis;
use crate::finding::{Finding, Reason, Station};

/// The condition `Healthy` of a binding: whether the workload works in all of its clusters. The content does not depend on
/// the time of the diagnosis, so that an unchanged state is not written again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthyCondition {
    /// `Unknown` if nothing is wrong except that clusters are not ready.
    pub status: Status,
    /// The cause in one word.
    pub reason: &'static str,
    /// The cause and the next action, or how much of the workload works.
    pub message: String,
}

/// The message about a binding that the scheduler has placed in no cluster.
const NO_CLUSTER: &str = "the scheduler finds no cluster for it";
/// The next action for such a binding.
const EXPLAIN: &str =
    "`berth explain` tells who holds it back, and the smallest changes that place it";
/// The text between the cause and the next action in a message.
const FIX: &str = "; fix: ";

/// Returns the cause in the message of a condition.
pub(crate) fn cause(message: &str) -> &str {
    message.split_once(FIX).map_or(message, |(cause, _)| cause)
}

impl HealthyCondition {
    /// Returns the condition, or `None` if the diagnosed binding has no copies and wants none.
    pub fn of(diagnosis: &Diagnosis) -> Option<Self> {
        if !diagnosis.copies.iter().any(|copy| !copy.leaving) {
            let mut findings = diagnosis.findings.iter();
            let found = findings
                .find(|of| of.reason == Reason::NoClusters || of.reason.is_about_decision())?;
            let (message, fix) = if found.reason.is_about_decision() {
                // The message of the scheduler may change with each attempt, and is in the condition `Scheduled`.
                (NO_CLUSTER, Some(EXPLAIN))
            } else {
                (&*found.message, found.fix.as_deref())
            };
            return Some(Self::not_well(
                Status::False,
                Reason::NoClusters,
                message,
                fix,
            ));
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
        if let Some(&worst) = in_members.first() {
            return Some(Self::of_finding(Status::False, worst));
        }
        if let Some(stale) = findings.find(|found| found.reason == Reason::StaleStatus) {
            return Some(Self::of_finding(Status::Unknown, stale));
        }
        Some(Self {
            status: Status::True,
            reason: "Healthy",
            message: well(&diagnosis.copies),
        })
    }

    fn of_finding(status: Status, finding: &Finding) -> Self {
        // While replicas start, the next action depends on the time.
        let may_start = matches!(
            finding.reason,
            Reason::NotAppliedYet | Reason::NotReady | Reason::Starting
        );
        let fix = finding.fix.as_deref().filter(|_| !may_start);
        Self::not_well(status, finding.reason, &finding.message, fix)
    }

    fn not_well(status: Status, reason: Reason, message: &str, fix: Option<&str>) -> Self {
        // The words of a member may look like a next action.
        let mut message = message.replace(FIX, ", fix: ");
        if let Some(fix) = fix {
            message.push_str(FIX);
            message.push_str(fix);
        }
        Self {
            status,
            reason: reason.as_str(),
            message,
        }
    }
}

/// Replicas that are not ready are the consequence of the other causes.
fn rank(reason: Reason) -> usize {
    match reason {
        Reason::NotAppliedYet | Reason::DispatchingSuspended => 2,
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
                "the scheduler finds no cluster for it; fix: `berth explain` tells who holds it back, and the smallest changes that place it"
            )
        );
    }

    #[test]
    fn a_suspension_is_the_cause_of_what_is_not_applied() {
        let mut binding = binding(json!([{ "name": "m1", "replicas": 2 }]), json!([]));
        binding.spec.suspension = serde_json::from_value(json!({ "dispatching": true })).unwrap();
        let found = of_binding(&binding, &|_| ClusterState::Ready, Timestamp::MAX);
        let condition = HealthyCondition::of(&found).unwrap();
        assert_eq!(condition.reason, "DispatchingSuspended");
        assert_eq!(
            condition.message,
            "it is not applied in m1, because dispatching is suspended; fix: remove spec.suspension from the policy to go on"
        );
        assert_eq!(
            cause(&condition.message),
            "it is not applied in m1, because dispatching is suspended"
        );
    }

    #[test]
    fn words_of_members_are_no_next_action() {
        let refused =
            json!({ "clusterName": "m1", "appliedMessage": "denied the request; fix: ask" });
        let binding = binding(json!([{ "name": "m1", "replicas": 2 }]), json!([refused]));
        let found = of_binding(&binding, &|_| ClusterState::Ready, Timestamp::MAX);
        let condition = HealthyCondition::of(&found).unwrap();
        let found = cause(&condition.message);
        assert_eq!(found, "m1 refuses the object: denied the request, fix: ask");
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
