//! The time for which a queue may let objects settle. It grows with the duration of runs: while the servers are fast, a
//! person sees each step at once, and servers that are the limit get fewer writes.

use std::time::Duration;

/// The longest wait on fast servers.
pub(super) const SHORTEST: Duration = Duration::from_millis(400);
/// The longest wait on servers at their limit.
const LONGEST: Duration = Duration::from_secs(3);
/// The longest wait, in mean durations of a run.
const RUNS: u32 = 20;
/// The number of runs in the moving average.
const WINDOW: u32 = 16;

/// The moving average of the durations of runs.
#[derive(Debug, Default)]
pub(super) struct Pace {
    mean: Duration,
}

impl Pace {
    /// Adds the duration of a run.
    pub(super) fn record(&mut self, run: Duration) {
        self.mean = (self.mean * (WINDOW - 1) + run) / WINDOW;
    }

    /// Returns the longest time that an object without rest may settle.
    pub(super) fn longest_wait(&self) -> Duration {
        (self.mean * RUNS).clamp(SHORTEST, LONGEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_runs_lengthen_the_wait_within_bounds() {
        let mut pace = Pace::default();
        assert_eq!(pace.longest_wait(), SHORTEST);
        for (run, expected) in [
            (Duration::from_millis(5), SHORTEST),
            (Duration::from_millis(100), Duration::from_secs(2)),
            (Duration::from_mins(1), LONGEST),
            (Duration::from_millis(5), SHORTEST),
        ] {
            for _ in 0..400 {
                pace.record(run);
            }
            let difference = pace.longest_wait().abs_diff(expected);
            assert!(difference < Duration::from_millis(1), "{run:?}");
        }
    }
}
