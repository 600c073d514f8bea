//! Reading and setting of status conditions.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::well_known::CONDITION_SCHEDULED;

/// The status of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The condition holds.
    True,
    /// The condition does not hold.
    False,
    /// The condition may or may not hold.
    Unknown,
}

impl Status {
    /// Returns the text in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl From<bool> for Status {
    fn from(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}

/// Sets a condition. Its transition time becomes `now` only if its status changes. Reports whether the condition
/// changed.
pub fn set(
    conditions: &mut Vec<Condition>,
    kind: &str,
    status: Status,
    reason: &str,
    message: &str,
    now: Timestamp,
) -> bool {
    let status = status.as_str();
    let Some(known) = conditions.iter_mut().find(|known| known.type_ == kind) else {
        conditions.push(Condition {
            type_: kind.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message: message.to_owned(),
            last_transition_time: Time(now),
            observed_generation: None,
        });
        return true;
    };
    let has_content = known.status == status && known.reason == reason && known.message == message;
    if has_content && known.observed_generation.is_none() {
        return false;
    }
    if known.status != status {
        status.clone_into(&mut known.status);
        known.last_transition_time = Time(now);
    }
    reason.clone_into(&mut known.reason);
    message.clone_into(&mut known.message);
    known.observed_generation = None;
    true
}

/// Returns the condition of a type.
pub fn find<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|known| known.type_ == kind)
}

/// Returns the condition `Scheduled` among the conditions of a binding.
pub fn scheduled(conditions: &[Condition]) -> Option<&Condition> {
    find(conditions, CONDITION_SCHEDULED)
}

/// Reports whether a condition is `True`.
pub fn is_true(conditions: &[Condition], kind: &str) -> bool {
    find(conditions, kind).is_some_and(|known| known.status == "True")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_transition_time_changes_only_with_the_status() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut conditions = Vec::new();
        let mut apply = |status, reason, message, second| {
            let changed = set(
                &mut conditions,
                "Applied",
                status,
                reason,
                message,
                at(second),
            );
            (changed, conditions[0].last_transition_time.0)
        };
        assert_eq!(apply(Status::False, "Failed", "why", 1), (true, at(1)));
        assert_eq!(apply(Status::False, "Failed", "why", 2), (false, at(1)));
        assert_eq!(apply(Status::False, "Failed", "other", 3), (true, at(1)));
        assert_eq!(apply(Status::True, "Done", "", 4), (true, at(4)));
        assert!(is_true(&conditions, "Applied") && !is_true(&conditions, "Other"));
    }
}
