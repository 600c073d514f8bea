//! Limits for the rate of evictions: [`RateLimiter`] for one queue, and [`MoveBudget`] for all queues together.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

/// The period in which [`MoveBudget`] counts evictions.
const MINUTE: Duration = Duration::from_mins(1);
/// The longest interval between two evictions. As in Karmada, a rate of 0 has this interval.
const LONGEST_INTERVAL: Duration = Duration::from_mins(30);

/// Returns the interval between two evictions for a rate in evictions per second.
pub(super) fn interval(rate: f32) -> Duration {
    if rate > 0.0 {
        Duration::try_from_secs_f32(rate.recip())
            .map_or(LONGEST_INTERVAL, |time| time.min(LONGEST_INTERVAL))
    } else {
        LONGEST_INTERVAL
    }
}

/// A minimum interval between evictions.
#[derive(Debug)]
pub(super) struct RateLimiter {
    interval: Duration,
    next: Option<Instant>,
}

impl RateLimiter {
    /// Returns a limiter with this interval.
    pub(super) fn new(interval: Duration) -> Self {
        Self {
            interval,
            next: None,
        }
    }

    /// Returns the earliest time of the next eviction, or `None` if an eviction is allowed now.
    pub(super) fn next_allowed(&self, now: Instant) -> Option<Instant> {
        self.next.filter(|next| *next > now)
    }

    /// Records an eviction.
    pub(super) fn record(&mut self, now: Instant) {
        self.next = Some(now + self.interval);
    }

    /// Changes the interval from the next eviction on.
    pub(super) fn set_interval(&mut self, interval: Duration) {
        self.interval = interval;
    }
}

/// A maximum number of evictions per minute. It prevents mass evictions when the taints of clusters change repeatedly.
#[derive(Debug)]
pub(super) struct MoveBudget {
    limit: Option<NonZeroU32>,
    spent: VecDeque<Instant>,
}

impl MoveBudget {
    /// Returns a budget with this limit. `None` means no limit.
    pub(super) fn new(limit: Option<NonZeroU32>) -> Self {
        Self {
            limit,
            spent: VecDeque::new(),
        }
    }

    /// Returns the earliest time of the next eviction, or `None` if an eviction is allowed now.
    pub(super) fn next_allowed(&mut self, now: Instant) -> Option<Instant> {
        let limit = usize::try_from(self.limit?.get()).unwrap_or(usize::MAX);
        while self.spent.front().is_some_and(|then| *then + MINUTE <= now) {
            self.spent.pop_front();
        }
        if self.spent.len() < limit {
            return None;
        }
        self.spent.front().map(|then| *then + MINUTE)
    }

    /// Records an eviction.
    pub(super) fn record(&mut self, now: Instant) {
        if self.limit.is_some() {
            self.spent.push_back(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_sets_the_interval() {
        assert_eq!(interval(0.5), Duration::from_secs(2));
        assert_eq!(interval(0.0), LONGEST_INTERVAL);
        assert_eq!(interval(-1.0), LONGEST_INTERVAL);
        assert_eq!(interval(f32::NAN), LONGEST_INTERVAL);
        assert_eq!(interval(f32::MIN_POSITIVE), LONGEST_INTERVAL);
        let (mut limiter, start) = (RateLimiter::new(Duration::from_secs(2)), Instant::now());
        assert_eq!(limiter.next_allowed(start), None);
        limiter.record(start);
        let due = start + Duration::from_secs(2);
        assert_eq!(limiter.next_allowed(start), Some(due));
        assert_eq!(limiter.next_allowed(due), None);
    }

    #[test]
    fn evictions_in_a_minute_never_exceed_the_budget() {
        let (mut budget, start) = (MoveBudget::new(NonZeroU32::new(2)), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        for second in [0, 30] {
            assert_eq!(budget.next_allowed(at(second)), None);
            budget.record(at(second));
        }
        assert_eq!(budget.next_allowed(at(31)), Some(at(60)));
        assert_eq!(budget.next_allowed(at(60)), None);
        budget.record(at(60));
        assert_eq!(budget.next_allowed(at(61)), Some(at(90)));
    }

    #[test]
    fn without_a_limit_evictions_are_always_allowed() {
        let mut budget = MoveBudget::new(None);
        for _ in 0..1000 {
            assert_eq!(budget.next_allowed(Instant::now()), None);
            budget.record(Instant::now());
        }
        assert!(budget.spent.is_empty());
    }
}
