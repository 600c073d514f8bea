//! Flags of the propagation controllers, with the names of karmada-controller-manager.

use std::num::NonZeroUsize;

use berth_api::feature_gates::FeatureGates;
use berth_controllers::propagation::{PropagationOptions, StaleStatus};
use clap::{Args, ValueEnum};

/// Flags of the propagation controllers: limits of their concurrent writes, and the weight of old reports.
#[derive(Args, Clone, Debug, Default)]
pub struct PropagationArgs {
    /// Maximum Works applied at once, per member [default: 8]
    #[arg(long, value_name = "N")]
    pub concurrent_work_syncs: Option<NonZeroUsize>,

    /// Maximum bindings whose Works are written at once; the value of --concurrent-clusterresourcebinding-syncs is
    /// added [default: 32]
    #[arg(long, value_name = "N")]
    pub concurrent_resourcebinding_syncs: Option<NonZeroUsize>,

    /// Maximum ClusterResourceBindings whose Works are written at once
    #[arg(long, value_name = "N")]
    pub concurrent_clusterresourcebinding_syncs: Option<NonZeroUsize>,

    /// Weight of the last reports of clusters that are not ready, in the status of bindings and templates
    #[arg(long, value_name = "MODE", default_value = "exclude")]
    pub stale_status: Stale,
}

/// The weight of the last reports of clusters that are not ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Stale {
    /// Health is unknown, and templates do not count ready replicas
    #[default]
    Exclude,
    /// Reports count until the cluster reports again, as in Karmada
    Count,
}

impl PropagationArgs {
    /// Returns the options of the propagation controllers. ResourceBindings and ClusterResourceBindings share one set
    /// of workers, so their maxima are added.
    pub(super) fn options(&self, gates: FeatureGates) -> PropagationOptions {
        let default = PropagationOptions::default();
        let of_bindings = [
            self.concurrent_resourcebinding_syncs,
            self.concurrent_clusterresourcebinding_syncs,
        ];
        let sum = of_bindings
            .into_iter()
            .flatten()
            .reduce(|sum, one| sum.saturating_add(one.get()));
        PropagationOptions {
            concurrent_bindings: sum.unwrap_or(default.concurrent_bindings),
            concurrent_works: self
                .concurrent_work_syncs
                .unwrap_or(default.concurrent_works),
            inject_state: gates.controllers.stateful_failover_injection,
            routine_events: gates.routine_events,
            stale_status: match self.stale_status {
                Stale::Exclude => StaleStatus::Exclude,
                Stale::Count => StaleStatus::Count,
            },
            ..default
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        propagation: PropagationArgs,
    }

    fn options(flags: &str) -> PropagationOptions {
        let words = std::iter::once("p").chain(flags.split_whitespace());
        let program = Program::try_parse_from(words).unwrap();
        program.propagation.options(FeatureGates::default())
    }

    #[test]
    fn stale_reports_count_only_on_request() {
        for (flags, expected) in [
            ("", StaleStatus::Exclude),
            ("--stale-status=exclude", StaleStatus::Exclude),
            ("--stale-status=count", StaleStatus::Count),
        ] {
            assert_eq!(options(flags).stale_status, expected, "{flags}");
        }
    }

    #[test]
    fn each_propagation_flag_changes_the_number_of_workers() {
        assert_eq!(options(""), PropagationOptions::default());
        for (flags, bindings, works) in [
            ("--concurrent-work-syncs=3", 32, 3),
            ("--concurrent-resourcebinding-syncs=4", 4, 8),
            ("--concurrent-clusterresourcebinding-syncs=5", 5, 8),
            (
                "--concurrent-resourcebinding-syncs=4 --concurrent-clusterresourcebinding-syncs=5",
                9,
                8,
            ),
        ] {
            let found = options(flags);
            let numbers = (
                found.concurrent_bindings.get(),
                found.concurrent_works.get(),
            );
            assert_eq!(numbers, (bindings, works), "{flags}");
        }
    }
}
