//! What of failover is on, and how fast it goes. Names and defaults are Karmada's where it has them.

use std::num::NonZeroU32;
use std::time::Duration;

use berth_api::policy::PurgeMode;

/// How failover works.
#[derive(Clone, Debug, PartialEq)]
pub struct FailoverOptions {
    /// Eviction by `NoExecute` taints; Karmada's gate `Failover` and its flag `--enable-no-execute-taint-eviction`.
    pub taint_eviction: Option<TaintEviction>,
    /// Eviction of sick applications whose policy asks for it.
    pub application_failover: bool,
    /// Draining of eviction tasks; Karmada's gate `GracefulEviction`.
    pub graceful_eviction: bool,
    /// How long an old copy waits for the new ones, where its task does not say.
    pub graceful_eviction_timeout: Duration,
    /// Tasks hold the state that policies want to be taken along; Karmada's gate `StatefulFailoverInjection`.
    pub state_preservation: bool,
    /// At most so many bindings leave a cluster within a minute; none for no limit.
    pub move_budget: Option<NonZeroU32>,
}

/// How taints evict.
#[derive(Clone, Debug, PartialEq)]
pub struct TaintEviction {
    /// What becomes of old copies whose policy does not say.
    pub purge_mode: PurgeMode,
    /// Evictions each second; 0 for one in half an hour, as in Karmada.
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
    /// Whether there is nothing to do.
    pub fn is_idle(&self) -> bool {
        self.taint_eviction.is_none() && !self.application_failover && !self.graceful_eviction
    }
}
