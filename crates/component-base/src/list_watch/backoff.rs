//! The pause after a failure. Each further failure doubles the pause.

use std::time::Duration;

/// Pause after the first failure.
const FIRST: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(super) struct Backoff {
    longest: Duration,
    failures: u32,
}

impl Backoff {
    pub(super) fn new(longest: Duration) -> Self {
        Self {
            longest,
            failures: 0,
        }
    }

    /// Returns the pause after another failure. The pause is up to a fifth shorter than its maximum, so that the
    /// watches of many objects and processes do not send their requests at the same time.
    pub(super) fn next(&mut self) -> Duration {
        let pause = FIRST.saturating_mul(1 << self.failures.min(20));
        self.failures = self.failures.saturating_add(1);
        pause
            .min(self.longest)
            .mul_f64(1.0 - random_fraction() / 5.0)
    }

    /// Returns the number of failures since the last reset.
    pub(super) fn failures(&self) -> u32 {
        self.failures
    }

    pub(super) fn reset(&mut self) {
        self.failures = 0;
    }
}

/// Returns a random number between 0 and 1.
fn random_fraction() -> f64 {
    f64::from(uuid::Uuid::new_v4().as_fields().0) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_doubles_up_to_its_maximum() {
        let mut backoff = Backoff::new(Duration::from_secs(30));
        for milliseconds in [
            100, 200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000,
        ] {
            let longest = Duration::from_millis(milliseconds);
            let pause = backoff.next();
            assert!(
                pause <= longest && pause >= longest.mul_f64(0.79),
                "{pause:?}"
            );
        }
        for _ in 0..100 {
            backoff.next();
        }
        backoff.reset();
        assert!(backoff.next() <= FIRST);
    }
}
