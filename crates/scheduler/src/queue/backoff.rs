//! Calculation of the backoff of a failed key. The formula depends on the queue order.

use std::time::{Duration, Instant};

/// Backoff after the first failure in priority order. Each further failure doubles the backoff.
pub(crate) const INITIAL_BACKOFF: Duration = Duration::from_secs(1);
/// Maximum backoff in priority order.
pub(crate) const MAX_BACKOFF: Duration = Duration::from_secs(10);

/// Order of ready keys, and retry policy of failed keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueueOrder {
    /// The key with the higher rank comes first, then the key that became ready earlier. A failed key is retried after
    /// 1 to 10 s, a waiting key after a cluster change.
    #[default]
    Priority,
    /// The key that became ready earlier comes first, regardless of its rank. Every failed key is retried after an
    /// exponential, rate-limited delay. This order applies if the feature gate PriorityBasedScheduling is off.
    Arrival {
        /// Delay after the first failure. Each further failure doubles the delay.
        base: Duration,
        /// Maximum delay.
        max: Duration,
        /// Maximum retries per second.
        qps: u32,
        /// Maximum burst of retries.
        burst: u32,
    },
}

impl QueueOrder {
    /// Arrival order with Karmada's defaults.
    pub const ARRIVAL: Self = Self::Arrival {
        base: Duration::from_millis(5),
        max: Duration::from_secs(1000),
        qps: 10,
        burst: 100,
    };
}

/// Returns the time until the estimators are called again for a key that did not fit by their answers. The time is at
/// most as long as the key has waited before, apart from the first second.
pub(super) fn wait_for_estimates(attempts: u32) -> Duration {
    let doublings = attempts.saturating_sub(1).min(31);
    INITIAL_BACKOFF
        .saturating_mul(1 << doublings)
        .min(super::MAX_WAITING)
}

/// The calculation of backoffs.
#[derive(Debug, Default)]
pub(super) struct Backoffs {
    order: QueueOrder,
    /// Time at which the token bucket of [`QueueOrder::Arrival`] is full again.
    bucket_full_at: Option<Instant>,
}

impl Backoffs {
    pub(super) fn new(order: QueueOrder) -> Self {
        Self {
            order,
            bucket_full_at: None,
        }
    }

    pub(super) fn order(&self) -> QueueOrder {
        self.order
    }

    /// Returns the backoff after this number of attempts. In arrival order, also takes a token from the token bucket.
    pub(super) fn delay(&mut self, attempts: u32, now: Instant) -> Duration {
        let doublings = attempts.saturating_sub(1).min(31);
        match self.order {
            QueueOrder::Priority => INITIAL_BACKOFF
                .saturating_mul(1 << doublings)
                .min(MAX_BACKOFF),
            QueueOrder::Arrival {
                base,
                max,
                qps,
                burst,
            } => {
                let own = base.saturating_mul(1 << doublings).min(max);
                let interval = Duration::from_secs(1) / qps.max(1);
                let full_at = self.bucket_full_at.map_or(now, |at| at.max(now)) + interval;
                self.bucket_full_at = Some(full_at);
                let shared = full_at
                    .duration_since(now)
                    .saturating_sub(interval.saturating_mul(burst));
                own.max(shared)
            }
        }
    }
}
