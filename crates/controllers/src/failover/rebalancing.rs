//! The rebalancings of bindings, as events and metrics name them.

/// The rebalancing of a binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Rebalancing {
    /// The binding may return to these clusters.
    Return(Vec<String>),
    /// These numbers of replicas leave these clusters.
    MovePending(Vec<(String, i64)>),
}

impl Rebalancing {
    /// The names of all causes in metrics.
    pub(super) const CAUSES: [&str; 2] = ["failback", "unschedulable"];

    /// Returns the reason of events.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::Return(_) => "FailbackBindingSucceed",
            // The reason of karmada-descheduler.
            Self::MovePending(_) => "DescheduleBindingSucceed",
        }
    }

    /// Returns the name of the cause in metrics.
    pub(super) fn cause(&self) -> &'static str {
        match self {
            Self::Return(_) => Self::CAUSES[0],
            Self::MovePending(_) => Self::CAUSES[1],
        }
    }

    /// Returns the message of events.
    pub(super) fn message(&self) -> String {
        match self {
            Self::Return(clusters) => {
                let verb = if clusters.len() == 1 { "has" } else { "have" };
                let names = clusters.join(", ");
                format!("scheduled again: {names} {verb} been back for long enough")
            }
            Self::MovePending(moves) => {
                let moves = moves.iter().map(|(cluster, count)| {
                    format!("{count} replica(s) in {cluster} that no node can run")
                });
                format!("scheduled again: {}", moves.collect::<Vec<_>>().join(", "))
            }
        }
    }
}
