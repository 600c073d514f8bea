//! Options of the failover controllers. If Karmada has the same option, the default is Karmada's.

use std::num::NonZeroU32;
use std::time::Duration;

use berth_api::policy::PurgeMode;

use super::brake::BrakeOptions;

/// The options of the failover controllers.
#[derive(Clone, Debug, PartialEq)]
pub struct FailoverOptions {
    /// Options of the eviction by `NoExecute` taints, `None` if it is disabled. In Karmada, the feature gate `Failover`
    /// and the flag `--enable-no-execute-taint-eviction` enable this eviction.
    pub taint_eviction: Option<TaintEviction>,
    /// True to evict unhealthy applications whose policy enables application failover.
    pub application_failover: bool,
    /// True to enable graceful eviction, as Karmada's feature gate `GracefulEviction` does.
    pub graceful_eviction: bool,
    /// The default grace period after which a graceful eviction ends.
    pub graceful_eviction_timeout: Duration,
    /// True to store the state to preserve in eviction tasks, as Karmada's feature gate `StatefulFailoverInjection`
    /// does.
    pub state_preservation: bool,
    /// Maximum number of evictions and of rebalanced bindings per minute, `None` for no limit.
    pub move_budget: Option<NonZeroU32>,
    /// The brake on evictions while many clusters are not ready.
    pub brake: BrakeOptions,
    /// Options of the rebalancing, `None` if it is off.
    pub rebalance: Option<RebalanceOptions>,
}

/// The options of the rebalancing, by which bindings move although nothing evicts them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RebalanceOptions {
    /// Mode of the rebalancing.
    pub mode: RebalanceMode,
    /// The time after which replicas that no node can run move to another cluster.
    pub unschedulable_after: Duration,
    /// The time for which a cluster must be ready before bindings return to it.
    pub failback_after: Duration,
}

/// Mode of the rebalancing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RebalanceMode {
    /// It reports what it would do, in events, metrics and logs.
    DryRun,
    /// It moves bindings.
    On,
}

impl RebalanceMode {
    /// Returns the name, as in the flag and in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::DryRun => "dry-run",
            Self::On => "on",
        }
    }
}

impl Default for RebalanceOptions {
    fn default() -> Self {
        Self {
            mode: RebalanceMode::On,
            unschedulable_after: Duration::from_mins(5),
            failback_after: Duration::from_mins(10),
        }
    }
}

/// The options of eviction by taints.
#[derive(Clone, Debug, PartialEq)]
pub struct TaintEviction {
    /// The default purge mode of evictions by taints.
    pub purge_mode: PurgeMode,
    /// The number of evictions per second. As in Karmada, 0 means one eviction in 30 minutes.
    pub rate: f32,
}

impl Default for FailoverOptions {
    fn default() -> Self {
        Self {
            taint_eviction: None,
            application_failover: true,
            graceful_eviction: true,
            graceful_eviction_timeout: Duration::from_mins(10),
            state_preservation: false,
            move_budget: None,
            brake: BrakeOptions::default(),
            rebalance: None,
        }
    }
}

impl Default for TaintEviction {
    fn default() -> Self {
        Self {
            purge_mode: PurgeMode::Gracefully,
            rate: 0.5,
        }
    }
}

impl FailoverOptions {
    /// Reports whether taint eviction, application failover, graceful eviction and rebalancing are all disabled.
    pub fn is_idle(&self) -> bool {
        self.taint_eviction.is_none()
            && !self.application_failover
            && !self.graceful_eviction
            && self.rebalance.is_none()
    }
}
