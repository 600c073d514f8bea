//! How fast bindings may leave clusters.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

/// The window of the move budget.
const MINUTE: Duration = Duration::from_mins(1);
/// The time between two evictions by taints at a rate of 0, as in Karmada.
const HARDLY_EVER: Duration = Duration::from_mins(30);

/// The time between two evictions at so many each second.
pub fn interval(rate: f32) -> Duration {
    if rate > 0.0 {
        Duration::try_from_secs_f32(rate.recip()).map_or(HARDLY_EVER, |time| time.min(HARDLY_EVER))
    } else {
        HARDLY_EVER
    }
}

/// One eviction after another, with a pause between them.
#[derive(Debug)]
pub struct Pace {
    interval: Duration,
    next: Option<Instant>,
}

impl Pace {
    /// With this pause.
    pub fn new(interval: Duration) -> Self {
        Self {
            interval,
            next: None,
        }
    }

    /// When the next may be, if that is not now.
    pub fn wait(&self, now: Instant) -> Option<Instant> {
        self.next.filter(|next| *next > now)
    }

    /// One happens now.
    pub fn take(&mut self, now: Instant) {
        self.next = Some(now + self.interval);
    }
}

/// At most so many bindings leave a cluster within any minute, so that a cluster that comes and goes cannot
/// empty a fleet.
#[derive(Debug)]
pub struct Budget {
    limit: Option<NonZeroU32>,
    spent: VecDeque<Instant>,
}

impl Budget {
    /// With this limit; none for no limit.
    pub fn new(limit: Option<NonZeroU32>) -> Self {
        Self {
            limit,
            spent: VecDeque::new(),
        }
    }

    /// When the next may leave, if that is not now.
    pub fn wait(&mut self, now: Instant) -> Option<Instant> {
        let limit = usize::try_from(self.limit?.get()).unwrap_or(usize::MAX);
        while self.spent.front().is_some_and(|then| *then + MINUTE <= now) {
            self.spent.pop_front();
        }
        if self.spent.len() < limit {
            return None;
        }
        self.spent.front().map(|then| *then + MINUTE)
    }

    /// One leaves now.
    pub fn take(&mut self, now: Instant) {
        if self.limit.is_some() {
            self.spent.push_back(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_a_pause_between_two() {
        assert_eq!(interval(0.5), Duration::from_secs(2));
        assert_eq!(interval(0.0), HARDLY_EVER);
        assert_eq!(interval(-1.0), HARDLY_EVER);
        assert_eq!(interval(f32::NAN), HARDLY_EVER);
        assert_eq!(interval(f32::MIN_POSITIVE), HARDLY_EVER);
        let (mut pace, start) = (Pace::new(Duration::from_secs(2)), Instant::now());
        assert_eq!(pace.wait(start), None);
        pace.take(start);
        let due = start + Duration::from_secs(2);
        assert_eq!(pace.wait(start), Some(due));
        assert_eq!(pace.wait(due), None);
    }

    #[test]
    fn no_minute_has_more_than_its_budget() {
        let (mut budget, start) = (Budget::new(NonZeroU32::new(2)), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        for second in [0, 30] {
            assert_eq!(budget.wait(at(second)), None);
            budget.take(at(second));
        }
        assert_eq!(budget.wait(at(31)), Some(at(60)));
        assert_eq!(budget.wait(at(60)), None);
        budget.take(at(60));
        assert_eq!(budget.wait(at(61)), Some(at(90)));
    }

    #[test]
    fn without_a_budget_nobody_waits() {
        let mut budget = Budget::new(None);
        for _ in 0..1000 {
            assert_eq!(budget.wait(Instant::now()), None);
            budget.take(Instant::now());
        }
        assert!(budget.spent.is_empty());
    }
}
