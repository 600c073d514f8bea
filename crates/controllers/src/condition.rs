//! Reading and setting of status conditions.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::timestamp;

/// Sets a condition. Its transition time changes only if its status changes. Reports whether the condition changed.
pub(crate) fn set(
    conditions: &mut Vec<Condition>,
    kind: &str,
    status: bool,
    reason: &str,
    message: &str,
) -> bool {
    let status = if status { "True" } else { "False" };
    let mut new = Condition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        last_transition_time: timestamp::now(),
        observed_generation: None,
    };
    match conditions.iter_mut().find(|known| known.type_ == kind) {
        None => {
            conditions.push(new);
            true
        }
        Some(known) => {
            if known.status == new.status {
                new.last_transition_time = known.last_transition_time.clone();
            }
            let changed = *known != new;
            *known = new;
            changed
        }
    }
}

/// Returns the condition of a type.
pub(crate) fn find<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|known| known.type_ == kind)
}

/// Reports whether a condition is `True`.
pub(crate) fn is_true(conditions: &[Condition], kind: &str) -> bool {
    find(conditions, kind).is_some_and(|known| known.status == "True")
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    #[test]
    fn the_transition_time_changes_only_with_the_status() {
        let mut conditions = Vec::new();
        assert!(set(&mut conditions, "Applied", false, "Failed", "why"));
        let long_ago = Time(jiff::Timestamp::UNIX_EPOCH);
        conditions[0].last_transition_time = long_ago.clone();
        assert!(!set(&mut conditions, "Applied", false, "Failed", "why"));
        assert!(set(&mut conditions, "Applied", false, "Failed", "other"));
        assert_eq!(conditions[0].last_transition_time, long_ago);
        assert!(set(&mut conditions, "Applied", true, "Done", ""));
        assert_ne!(conditions[0].last_transition_time, long_ago);
        assert!(is_true(&conditions, "Applied") && !is_true(&conditions, "Other"));
    }
}
