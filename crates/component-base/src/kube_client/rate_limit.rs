//! The client-side limit of requests to the API server, which `--kube-api-qps` and `--kube-api-burst` set.

use std::num::NonZeroU32;
use std::sync::Mutex;
use std::time::Duration;

use berth_events::RateLimiter;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::time::Instant;

/// Maximum number of requests per second, and maximum burst.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    qps: f32,
    burst: NonZeroU32,
}

impl Rate {
    /// Creates a rate. Returns `None`, which means no limit, if a number is 0 or less.
    pub fn new(qps: f32, burst: i32) -> Option<Self> {
        let burst = u32::try_from(burst).ok().and_then(NonZeroU32::new)?;
        (qps > 0.0).then_some(Self { qps, burst })
    }
}

/// A token bucket. Callers receive tokens in the order of their calls.
#[derive(Debug)]
pub struct RateLimit {
    bucket: Option<Bucket>,
}

#[derive(Debug)]
struct Bucket {
    /// Time between two tokens.
    interval: Duration,
    /// Time in which the bucket refills from empty to the maximum burst.
    burst: Duration,
    /// Time at which the bucket is full again.
    full_at: Mutex<Instant>,
}

impl RateLimit {
    /// Creates a limit. If `rate` is `None`, there is no limit.
    pub fn new(rate: Option<Rate>) -> Self {
        let bucket = rate.map(|rate| {
            let interval = Duration::from_secs_f32(1.0 / rate.qps);
            Bucket {
                interval,
                burst: interval.saturating_mul(rate.burst.get()),
                full_at: Mutex::new(Instant::now()),
            }
        });
        Self { bucket }
    }

    /// Waits for a token.
    pub async fn acquire(&self) {
        let Some(bucket) = &self.bucket else { return };
        let now = Instant::now();
        let wait = {
            let mut full_at = bucket
                .full_at
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            *full_at = (*full_at).max(now) + bucket.interval;
            full_at.duration_since(now).saturating_sub(bucket.burst)
        };
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
    }
}

/// Lets the writer of events take its tokens from the same bucket as other requests.
impl RateLimiter for RateLimit {
    fn acquire(&self) -> BoxFuture<'_, ()> {
        self.acquire().boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn requests_beyond_the_burst_are_limited_to_the_rate() {
        let limit = RateLimit::new(Rate::new(10.0, 5));
        let start = Instant::now();
        for _ in 0..5 {
            limit.acquire().await;
        }
        assert_eq!(start.elapsed(), Duration::ZERO);
        for _ in 0..20 {
            limit.acquire().await;
        }
        let elapsed = start.elapsed();
        assert!(
            (Duration::from_millis(1990)..Duration::from_millis(2020)).contains(&elapsed),
            "{elapsed:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn no_rate_means_no_limit() {
        let limit = RateLimit::new(Rate::new(0.0, 60).or_else(|| Rate::new(40.0, -1)));
        let start = Instant::now();
        for _ in 0..1000 {
            limit.acquire().await;
        }
        assert_eq!(start.elapsed(), Duration::ZERO);
    }
}
