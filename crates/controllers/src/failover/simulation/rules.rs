//! The rules of the controllers in a simulation.

use std::num::NonZeroU32;
use std::time::Duration;

use crate::failover::brake::BrakeOptions;
use crate::failover::options::{FailoverOptions, RebalanceMode, RebalanceOptions, TaintEviction};

/// A set of rules.
#[derive(Clone, Debug)]
pub(in crate::failover) struct Rules {
    pub(in crate::failover) name: &'static str,
    /// True if old replicas stay until new ones are ready.
    pub(in crate::failover) keeps_old_replicas: bool,
    /// True if evictions end when their cause ends.
    pub(in crate::failover) cancels_evictions: bool,
    pub(in crate::failover) options: FailoverOptions,
}

impl Rules {
    /// Returns Karmada's rules, those with one more rule each, and all rules together.
    pub(in crate::failover) fn all() -> [Self; 5] {
        let no_brake = BrakeOptions {
            threshold: 2.0,
            ..BrakeOptions::default()
        };
        let options = FailoverOptions {
            taint_eviction: Some(TaintEviction::default()),
            brake: no_brake,
            ..FailoverOptions::default()
        };
        let karmada = Self {
            name: "karmada-controller-manager's",
            keeps_old_replicas: false,
            cancels_evictions: false,
            options,
        };
        let gentle = Self {
            name: "new replicas before old ones, and evictions end with their cause",
            keeps_old_replicas: true,
            cancels_evictions: true,
            ..karmada.clone()
        };
        let mut budget = Self {
            name: "with `--move-budget=10`",
            ..gentle.clone()
        };
        budget.options.move_budget = NonZeroU32::new(10);
        let mut brake = Self {
            name: "with `--unhealthy-cluster-threshold=0.3`",
            ..gentle.clone()
        };
        brake.options.brake.threshold = 0.3;
        let mut everything = Self {
            name: "with the brake and `--rebalance`",
            ..brake.clone()
        };
        everything.options.rebalance = Some(RebalanceOptions {
            mode: RebalanceMode::On,
            failback_after: Duration::from_mins(2),
            ..RebalanceOptions::default()
        });
        [karmada, gentle, budget, brake, everything]
    }
}
