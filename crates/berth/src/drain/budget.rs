//! The pace of evictions: at most a number of them within any time of a given length.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::str::FromStr;
use std::time::{Duration, Instant};

/// The value of `--budget`: a maximum number of evictions within a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    count: NonZeroUsize,
    within: Duration,
}

impl FromStr for Budget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const SYNTAX: &str = "must be N/s, N/m or N/h, as in 10/m";
        let (count, unit) = text.split_once('/').ok_or(SYNTAX)?;
        let count: NonZeroUsize = count
            .parse()
            .map_err(|_| format!("{SYNTAX}, with a number from 1"))?;
        let within = match unit {
            "s" => Duration::from_secs(1),
            "m" => Duration::from_mins(1),
            "h" => Duration::from_hours(1),
            _ => return Err(SYNTAX.to_owned()),
        };
        Ok(Self { count, within })
    }
}

/// The evictions within the time of a budget.
#[derive(Debug)]
pub(super) struct Pace {
    /// `None` if there is no limit.
    budget: Option<Budget>,
    /// Times of the last evictions, at most as many as the budget allows.
    last: VecDeque<Instant>,
}

impl Pace {
    /// Creates a pace without evictions.
    pub(super) fn new(budget: Option<Budget>) -> Self {
        Self {
            budget,
            last: VecDeque::new(),
        }
    }

    /// Returns the time until the next eviction may begin, which is zero if it may begin now.
    pub(super) fn wait(&self, now: Instant) -> Duration {
        let Some(Budget { count, within }) = self.budget else {
            return Duration::ZERO;
        };
        match self.last.front() {
            Some(first) if self.last.len() >= count.get() => {
                (*first + within).saturating_duration_since(now)
            }
            _ => Duration::ZERO,
        }
    }

    /// Counts an eviction.
    pub(super) fn count(&mut self, now: Instant) {
        let Some(Budget { count, .. }) = self.budget else {
            return;
        };
        self.last.push_back(now);
        while self.last.len() > count.get() {
            self.last.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_a_number_and_a_unit() {
        for (text, expected) in [
            ("1/s", Some((1, 1))),
            ("10/m", Some((10, 60))),
            ("3/h", Some((3, 3600))),
            ("0/m", None),
            ("-1/m", None),
            ("10", None),
            ("10/", None),
            ("/m", None),
            ("10/min", None),
            ("1.5/m", None),
        ] {
            let parsed = text.parse::<Budget>().ok();
            let found = parsed.map(|budget| (budget.count.get(), budget.within.as_secs()));
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn no_more_evictions_than_the_budget_begin_within_its_time() {
        let start = Instant::now();
        let at = |second| start + Duration::from_secs(second);
        let mut pace = Pace::new(Some("2/m".parse().unwrap()));
        for (second, expected) in [(0, 0), (10, 0), (20, 40), (60, 0), (61, 9), (70, 0)] {
            let wait = pace.wait(at(second));
            assert_eq!(wait.as_secs(), expected, "at {second} s");
            if wait.is_zero() {
                pace.count(at(second));
            }
        }
        let mut unlimited = Pace::new(None);
        for _ in 0..100 {
            assert_eq!(unlimited.wait(start), Duration::ZERO);
            unlimited.count(start);
        }
    }
}
