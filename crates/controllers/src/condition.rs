//! Conditions in the status of objects.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// Sets a condition; the time of its transition moves only when its status does. Returns whether anything
/// changed.
pub(crate) fn set(
    conditions: &mut Vec<Condition>,
    kind: &str,
    holds: bool,
    reason: &str,
    message: &str,
) -> bool {
    let status = if holds { "True" } else { "False" };
    let now = jiff::Timestamp::now();
    let now = Time(jiff::Timestamp::from_second(now.as_second()).unwrap_or(now));
    let mut wanted = Condition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        last_transition_time: now,
        observed_generation: None,
    };
    match conditions.iter_mut().find(|known| known.type_ == kind) {
        None => {
            conditions.push(wanted);
            true
        }
        Some(known) => {
            if known.status == wanted.status {
                wanted.last_transition_time = known.last_transition_time.clone();
            }
            let changed = *known != wanted;
            *known = wanted;
            changed
        }
    }
}

/// The condition of a kind.
pub(crate) fn find<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|known| known.type_ == kind)
}

/// Whether a condition is there and holds.
pub(crate) fn holds(conditions: &[Condition], kind: &str) -> bool {
    find(conditions, kind).is_some_and(|known| known.status == "True")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_change_of_the_status_moves_the_time() {
        let mut conditions = Vec::new();
        assert!(set(&mut conditions, "Applied", false, "Failed", "why"));
        let long_ago = Time(jiff::Timestamp::UNIX_EPOCH);
        conditions[0].last_transition_time = long_ago.clone();
        assert!(!set(&mut conditions, "Applied", false, "Failed", "why"));
        assert!(set(&mut conditions, "Applied", false, "Failed", "other"));
        assert_eq!(conditions[0].last_transition_time, long_ago);
        assert!(set(&mut conditions, "Applied", true, "Done", ""));
        assert_ne!(conditions[0].last_transition_time, long_ago);
        assert!(holds(&conditions, "Applied") && !holds(&conditions, "Other"));
    }
}
