//! The components that `berth up --without` can disable.

use clap::ValueEnum;

/// A component that the user disables and can run as a separate program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DisabledComponent {
    /// The scheduler; run karmada-scheduler or `berth scheduler` instead
    Scheduler,
    /// All controllers; run karmada-controller-manager or `berth controllers` instead
    Controllers,
    /// The estimators of the simulated members; the scheduler then uses the free resources in the status of Clusters
    Estimators,
    /// The dashboard; run `berth dashboard` when you need it
    Dashboard,
}

impl DisabledComponent {
    /// Returns the name of the component, and the command of the program that can replace it.
    pub(super) const fn name_and_substitute(self) -> (&'static str, &'static str) {
        match self {
            Self::Scheduler => ("the scheduler", "karmada-scheduler"),
            Self::Controllers => ("the controllers", "karmada-controller-manager"),
            Self::Estimators => ("the estimators", "karmada-scheduler-estimator"),
            Self::Dashboard => ("the dashboard", "berth dashboard"),
        }
    }
}
