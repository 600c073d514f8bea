//! A histogram of durations with fixed buckets.

use std::time::Duration;

/// Returns the upper bounds of `COUNT` buckets. The bound with the index `i` is `start · factor^i`.
pub const fn exponential<const COUNT: usize>(start: f64, factor: f64) -> [f64; COUNT] {
    let mut bounds = [start; COUNT];
    let mut index = 1;
    while index < COUNT {
        bounds[index] = bounds[index - 1] * factor;
        index += 1;
    }
    bounds
}

/// A histogram of durations. The upper bounds of its buckets are in seconds.
#[derive(Clone, Debug)]
pub struct Histogram<const COUNT: usize> {
    bounds: &'static [f64; COUNT],
    /// The number of durations in each bucket. A duration is counted in the first bucket whose bound is at least the
    /// duration.
    counts: [u64; COUNT],
    count: u64,
    seconds: f64,
}

impl<const COUNT: usize> Histogram<COUNT> {
    /// Returns an empty histogram.
    pub const fn new(bounds: &'static [f64; COUNT]) -> Self {
        Self {
            bounds,
            counts: [0; COUNT],
            count: 0,
            seconds: 0.0,
        }
    }

    /// Adds a duration.
    pub fn observe(&mut self, duration: Duration) {
        let seconds = duration.as_secs_f64();
        let bucket = self.bounds.partition_point(|bound| *bound < seconds);
        if let Some(count) = self.counts.get_mut(bucket) {
            *count += 1;
        }
        self.count += 1;
        self.seconds += seconds;
    }

    /// Returns each bound with the number of durations up to this bound.
    pub fn buckets(&self) -> impl Iterator<Item = (f64, u64)> {
        let mut within = 0;
        self.bounds
            .iter()
            .zip(&self.counts)
            .map(move |(bound, count)| {
                within += count;
                (*bound, within)
            })
    }

    /// Returns the number of durations.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the sum of all durations, in seconds.
    pub fn seconds(&self) -> f64 {
        self.seconds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_cumulative() {
        const BOUNDS: [f64; 3] = exponential(0.001, 2.0);
        let mut histogram = Histogram::new(&BOUNDS);
        for millis in [1, 3, 100] {
            histogram.observe(Duration::from_millis(millis));
        }
        let buckets: Vec<_> = histogram.buckets().collect();
        assert_eq!(buckets, [(0.001, 1), (0.002, 1), (0.004, 2)]);
        assert_eq!(histogram.count(), 3);
        assert!((histogram.seconds() - 0.104).abs() < 1e-9);
    }
}
