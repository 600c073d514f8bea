//! When keys that have failed come back, which depends on the order in which keys are served.

use std::time::{Duration, Instant};

/// The first retry comes after this long; each further one doubles it.
pub const INITIAL_BACKOFF: Duration = Duration::from_secs(1);
/// No retry waits longer.
pub const MAX_BACKOFF: Duration = Duration::from_secs(10);

/// In which order keys are served, and how failed ones come back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueueOrder {
    /// The greater rank first, then the older; failed keys come back after 1 to 10 s, and those that wait
    /// for the fleet when it changes.
    #[default]
    Priority,
    /// The older first, whatever its rank; every failed key comes back after an exponential delay, and
    /// no more often than a rate (the gate PriorityBasedScheduling is off).
    Arrival {
        /// The first delay; each further one doubles it.
        base: Duration,
        /// No delay is longer.
        max: Duration,
        /// Failed keys that come back each second.
        qps: u32,
        /// Failed keys that come back at once.
        burst: u32,
    },
}

impl QueueOrder {
    /// By arrival, with Karmada's defaults for failed keys.
    pub const ARRIVAL: Self = Self::Arrival {
        base: Duration::from_millis(5),
        max: Duration::from_secs(1000),
        qps: 10,
        burst: 100,
    };
}

/// How long failed keys wait.
#[derive(Debug, Default)]
pub(super) struct Backoffs {
    order: QueueOrder,
    /// When the bucket of [`QueueOrder::Arrival`] would be full again.
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

    /// How long a key waits after so many attempts; it takes its turn among those that fail by arrival.
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
