//! What `berth up` can leave to others.

use clap::ValueEnum;

/// A part that others can be in place of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// Placing: run karmada-scheduler, or `berth scheduler`
    Scheduler,
    /// From policies to members and back, clusters, failover: run karmada-controller-manager, or `berth controllers`
    Controllers,
}

impl Part {
    /// What the part is called, and what does the same.
    pub(super) const fn told(self) -> (&'static str, &'static str) {
        match self {
            Self::Scheduler => ("the scheduler", "karmada-scheduler"),
            Self::Controllers => ("the controllers", "karmada-controller-manager"),
        }
    }
}
