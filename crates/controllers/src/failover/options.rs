//! Options of the failover controllers. If Karmada has the same option, the default is Karmada's.

use std::num::NonZeroU32;
use std::time::Duration;

use berth_api::policy::PurgeMode;

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
    /// Maximum number of evictions per minute, `None` for no limit.
    pub move_budget: Option<NonZeroU32>,
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
    /// Reports whether taint eviction, application failover and graceful eviction are all disabled.
    pub fn is_idle(&self) -> bool {
        self.taint_eviction.is_none() && !self.application_failover && !self.graceful_eviction
    }
}
