//! Options of the failover controllers. Names and defaults are Karmada's where it has them.

use std::num::NonZeroU32;
use std::time::Duration;

use berth_api::policy::PurgeMode;

/// The options of the failover controllers.
#[derive(Clone, Debug, PartialEq)]
pub struct FailoverOptions {
    /// Eviction by `NoExecute` taints; Karmada's gate `Failover` and its flag `--enable-no-execute-taint-eviction`.
    pub taint_eviction: Option<TaintEviction>,
    /// Eviction of unhealthy applications whose policy enables it.
    pub application_failover: bool,
    /// Graceful eviction; Karmada's gate `GracefulEviction`.
    pub graceful_eviction: bool,
    /// The default grace period of an old copy.
    pub graceful_eviction_timeout: Duration,
    /// Eviction tasks hold the state to preserve; Karmada's gate `StatefulFailoverInjection`.
    pub state_preservation: bool,
    /// Maximum number of evictions per minute; `None` for no limit.
    pub move_budget: Option<NonZeroU32>,
}

/// The options of eviction by taints.
#[derive(Clone, Debug, PartialEq)]
pub struct TaintEviction {
    /// The default purge mode of old copies.
    pub purge_mode: PurgeMode,
    /// Evictions per second; 0 for one in 30 minutes, as in Karmada.
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
    /// Reports whether everything is disabled.
    pub fn is_idle(&self) -> bool {
        self.taint_eviction.is_none() && !self.application_failover && !self.graceful_eviction
    }
}
