//! The taints of a Cluster that follow from its condition `Ready`. Their effect is `NoSchedule`: they prevent new
//! placements and evict no workload.

use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// The key of the taint for a cluster whose condition `Ready` is `False` or missing.
pub const NOT_READY: &str = "cluster.karmada.io/not-ready";
/// The key of the taint for a cluster whose condition `Ready` is `Unknown`.
pub const UNREACHABLE: &str = "cluster.karmada.io/unreachable";
const NO_SCHEDULE: &str = "NoSchedule";

/// Returns the desired taints of a Cluster, or `None` if its current taints `taints` need no change.
pub fn adjusted(taints: &[Taint], ready: Option<&Condition>, now: &Time) -> Option<Vec<Taint>> {
    let (wanted, unwanted): (Option<&str>, &[&str]) = match ready.map(|c| c.status.as_str()) {
        Some("True") => (None, &[NOT_READY, UNREACHABLE]),
        Some("False") => (Some(NOT_READY), &[UNREACHABLE]),
        Some(_) => (Some(UNREACHABLE), &[NOT_READY]),
        None => (Some(NOT_READY), &[]),
    };
    let is = |taint: &Taint, key: &str| taint.key == key && taint.effect == NO_SCHEDULE;
    let mut next: Vec<Taint> = taints
        .iter()
        .filter(|taint| !unwanted.iter().any(|key| is(taint, key)))
        .cloned()
        .collect();
    if let Some(key) = wanted
        && !next.iter().any(|taint| is(taint, key))
    {
        next.push(Taint {
            key: key.to_owned(),
            effect: NO_SCHEDULE.to_owned(),
            time_added: Some(now.clone()),
            value: None,
        });
    }
    (next != taints).then_some(next)
}

/// Describes taints as Karmada's events do.
pub fn describe(taints: &[Taint]) -> String {
    if taints.is_empty() {
        return "cluster now does not have taints".to_owned();
    }
    let each: Vec<String> = taints
        .iter()
        .map(|taint| match taint.value.as_deref().unwrap_or_default() {
            "" => format!("{{Key:{},Effect:{}}}", taint.key, taint.effect),
            value => format!(
                "{{Key:{},Value:{value},Effect:{}}}",
                taint.key, taint.effect
            ),
        })
        .collect();
    format!("cluster now has taints([{}])", each.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taint(key: &str, effect: &str) -> Taint {
        Taint {
            key: key.to_owned(),
            effect: effect.to_owned(),
            ..Taint::default()
        }
    }

    fn ready(status: &str) -> Condition {
        Condition {
            type_: "Ready".to_owned(),
            status: status.to_owned(),
            reason: String::new(),
            message: String::new(),
            last_transition_time: Time(jiff::Timestamp::UNIX_EPOCH),
            observed_generation: None,
        }
    }

    fn keys(taints: &[Taint], condition: Option<&Condition>) -> Option<Vec<String>> {
        let now = Time(jiff::Timestamp::UNIX_EPOCH);
        let next = adjusted(taints, condition, &now)?;
        Some(
            next.iter()
                .map(|t| format!("{}:{}", t.key, t.effect))
                .collect(),
        )
    }

    #[test]
    fn condition_taints_follow_ready_and_other_taints_are_kept() {
        let theirs = taint("theirs", "NoExecute");
        // The same key with another effect is another taint.
        let evicting = taint(NOT_READY, "NoExecute");
        let both = [theirs.clone(), evicting.clone()];
        let with = |key: &str| vec![theirs.clone(), evicting.clone(), taint(key, NO_SCHEDULE)];
        let expect = |key: &str| {
            Some(vec![
                "theirs:NoExecute".to_owned(),
                format!("{NOT_READY}:NoExecute"),
                format!("{key}:NoSchedule"),
            ])
        };
        assert_eq!(keys(&both, None), expect(NOT_READY));
        assert_eq!(keys(&both, Some(&ready("False"))), expect(NOT_READY));
        assert_eq!(keys(&both, Some(&ready("Unknown"))), expect(UNREACHABLE));
        assert_eq!(
            keys(&with(NOT_READY), Some(&ready("Unknown"))),
            expect(UNREACHABLE)
        );
        assert_eq!(
            keys(&with(UNREACHABLE), Some(&ready("False"))),
            expect(NOT_READY)
        );
        let cleared = keys(&with(NOT_READY), Some(&ready("True"))).unwrap();
        assert_eq!(cleared.len(), 2);
        // These taints are up to date.
        assert_eq!(keys(&both, Some(&ready("True"))), None);
        assert_eq!(keys(&with(NOT_READY), Some(&ready("False"))), None);
    }

    #[test]
    fn the_description_equals_karmadas() {
        assert_eq!(describe(&[]), "cluster now does not have taints");
        assert_eq!(
            describe(&[taint("a", "NoExecute")]),
            "cluster now has taints([{Key:a,Effect:NoExecute}])"
        );
    }
}
