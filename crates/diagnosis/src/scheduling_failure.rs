//! The class of a failed decision, from the condition `Scheduled`: who holds the binding back, and what to do.

use crate::finding::Reason;
use crate::health::Health;
use crate::quota_shortage;

/// The start of what a scheduler adds to its message while it evicts other bindings.
const PREEMPTS: &str = "; preempts ";

/// The start of the message about a plugin or extender that fails at Score.
const AT_SCORE: &str = "failed to prioritize clusters: ";

/// A failed decision, classified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SchedulingFailure<'a> {
    /// The scheduler evicts other bindings, and waits for their capacity. Contains the part of the message about them.
    Preempting(&'a str),
    /// The other members of the gang are missing, or one of them does not fit.
    Gang,
    /// An extender fails. Contains its address.
    Extender(&'a str),
    /// A plugin refuses the binding. Contains its name.
    Refused(&'a str),
    /// A quota is used up.
    Quota,
    /// The scheduler cannot decide, for another reason.
    Error,
    /// No clusters fit, or they lack capacity.
    NoFit,
}

impl<'a> SchedulingFailure<'a> {
    /// Classifies the reason and the message of a condition that is not true.
    pub(crate) fn of(reason: &str, message: &'a str) -> Self {
        if let Some((_, victims)) = message.split_once(PREEMPTS) {
            return Self::Preempting(victims);
        }
        let plugin = message.strip_prefix(AT_SCORE).unwrap_or(message);
        let plugin = plugin.strip_prefix("plugin \"");
        let plugin = plugin.and_then(|rest| rest.split_once('"'));
        match plugin {
            Some(("Coscheduling", rest)) if rest.contains(" of group ") => return Self::Gang,
            Some((name, rest)) if rest.starts_with(" refuses ") => return Self::Refused(name),
            Some((name, _)) => {
                if let Some(address) = name.strip_prefix("extender ") {
                    return Self::Extender(address);
                }
            }
            None => {}
        }
        match reason {
            "SchedulerError" => Self::Error,
            "QuotaExceeded" => Self::Quota,
            _ => Self::NoFit,
        }
    }

    /// Returns the severity.
    pub(crate) fn health(self) -> Health {
        match self {
            Self::Preempting(_) => Health::Waiting,
            _ => Health::Stuck,
        }
    }

    /// Returns the cause in one word.
    pub(crate) fn reason(self) -> Reason {
        match self {
            Self::Preempting(_) => Reason::Preempting,
            Self::Gang | Self::Refused(_) => Reason::PluginRefused,
            Self::Extender(_) | Self::Error => Reason::SchedulerError,
            Self::Quota => Reason::QuotaExceeded,
            Self::NoFit => Reason::Unschedulable,
        }
    }

    /// Returns the cause in one sentence.
    pub(crate) fn cause(self, message: &str) -> String {
        match self {
            Self::Preempting(victims) => format!("it preempts {victims}"),
            _ => message.to_owned(),
        }
    }

    /// Returns the next action, or `None` if none is needed. `workload` is an argument of `berth explain`, and `message`
    /// is that of the condition.
    pub(crate) fn fix(self, workload: &str, message: &str) -> Option<String> {
        let fix = match self {
            Self::Preempting(_) => return None,
            Self::Gang => {
                "create the missing workloads of the group, make room for a workload that does not fit, or lower the label minAvailable"
                    .to_owned()
            }
            Self::Extender(address) => format!(
                "start or correct the extender {address}, or set ignorable: true for it; the scheduler tries again by itself"
            ),
            Self::Refused(name) => format!(
                "do what the plugin {name} asks for, or disable it in the profile of the scheduler"
            ),
            Self::Quota => quota_shortage::fix(message),
            Self::Error => {
                "correct the cause in the message; the scheduler tries again by itself".to_owned()
            }
            Self::NoFit => {
                format!("`berth explain {workload}` shows the smallest changes that place it")
            }
        };
        Some(fix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_class_follows_from_the_condition() {
        for (reason, message, class) in [
            (
                "Unschedulable",
                "failed to assign replicas: x.; preempts shop/low in m1, and waits for their capacity",
                SchedulingFailure::Preempting("shop/low in m1, and waits for their capacity"),
            ),
            (
                "Unschedulable",
                "plugin \"Coscheduling\" refuses the binding at PreEnqueue: 2 of 3 members of group \"g\" exist",
                SchedulingFailure::Gang,
            ),
            (
                "Unschedulable",
                "plugin \"Coscheduling\" refuses the binding at PreEnqueue: its template Deployment web does not exist",
                SchedulingFailure::Refused("Coscheduling"),
            ),
            (
                "SchedulerError",
                "plugin \"extender http://e/s\" failed at Filter: refused",
                SchedulingFailure::Extender("http://e/s"),
            ),
            (
                "SchedulerError",
                "failed to prioritize clusters: plugin \"extender http://e/s\" failed with: refused",
                SchedulingFailure::Extender("http://e/s"),
            ),
            (
                "Unschedulable",
                "plugin \"Costs\" refuses the binding at Permit: no budget",
                SchedulingFailure::Refused("Costs"),
            ),
            (
                "SchedulerError",
                "plugin \"Costs\" failed at PreFilter: no prices",
                SchedulingFailure::Error,
            ),
            ("QuotaExceeded", "quota a", SchedulingFailure::Quota),
            (
                "NoClusterFit",
                "0/3 clusters are available",
                SchedulingFailure::NoFit,
            ),
        ] {
            assert_eq!(SchedulingFailure::of(reason, message), class, "{message}");
        }
    }
}
