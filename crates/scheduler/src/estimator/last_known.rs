//! The last answers of the estimator of each cluster. The client uses them while the estimator does not respond.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Maximum number of recorded answers for each cluster. If there are more, the older half is dropped.
const MAX_ANSWERS: usize = 128;

#[derive(Clone, Copy, Debug)]
struct Recorded {
    value: i32,
    at: Instant,
}

/// The last answer of each cluster to each request. The key of a request is its fingerprint.
#[derive(Debug)]
pub(super) struct LastKnown {
    max_age: Duration,
    clusters: Mutex<HashMap<Arc<str>, HashMap<u64, Recorded>>>,
}

impl LastKnown {
    pub(super) fn new(max_age: Duration) -> Self {
        Self {
            max_age,
            clusters: Mutex::default(),
        }
    }

    pub(super) fn record(&self, cluster: &Arc<str>, request: u64, value: i32, now: Instant) {
        if self.max_age.is_zero() {
            return;
        }
        self.with(|clusters| {
            let answers = clusters.entry(cluster.clone()).or_default();
            if answers.len() >= MAX_ANSWERS && !answers.contains_key(&request) {
                self.drop_old_answers(answers, now);
            }
            answers.insert(request, Recorded { value, at: now });
        });
    }

    /// Returns the last answer and its age. Returns `None` if there is no answer, or if the answer is older than the
    /// maximum age.
    pub(super) fn get(&self, cluster: &str, request: u64, now: Instant) -> Option<(i32, Duration)> {
        let recorded = self.with(|clusters| clusters.get(cluster)?.get(&request).copied())?;
        let age = now.saturating_duration_since(recorded.at);
        (age <= self.max_age && !self.max_age.is_zero()).then_some((recorded.value, age))
    }

    pub(super) fn remove_cluster(&self, cluster: &str) {
        self.with(|clusters| clusters.remove(cluster));
    }

    /// Removes the expired answers, and at least the older half of all answers.
    fn drop_old_answers(&self, answers: &mut HashMap<u64, Recorded>, now: Instant) {
        let mut times: Vec<_> = answers.values().map(|answer| answer.at).collect();
        times.sort_unstable();
        let median = times.get(times.len() / 2).copied().unwrap_or(now);
        answers.retain(|_, answer| {
            answer.at > median && now.saturating_duration_since(answer.at) <= self.max_age
        });
    }

    fn with<T>(
        &self,
        change: impl FnOnce(&mut HashMap<Arc<str>, HashMap<u64, Recorded>>) -> T,
    ) -> T {
        change(&mut self.clusters.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_kept_per_request_until_they_expire() {
        let (known, now) = (LastKnown::new(Duration::from_mins(5)), Instant::now());
        known.record(&"m1".into(), 7, 3, now);
        let later = now + Duration::from_mins(5);
        assert_eq!(known.get("m1", 7, later), Some((3, Duration::from_mins(5))));
        assert_eq!(known.get("m1", 8, later), None);
        assert_eq!(known.get("m2", 7, later), None);
        assert_eq!(known.get("m1", 7, later + Duration::from_secs(1)), None);
        known.remove_cluster("m1");
        assert_eq!(known.get("m1", 7, now), None);
    }

    #[test]
    fn the_oldest_answers_are_dropped_at_the_limit() {
        let (known, start) = (LastKnown::new(Duration::from_mins(5)), Instant::now());
        let at = |request: u64| start + Duration::from_millis(request);
        for request in 0..10_000 {
            known.record(&"m1".into(), request, 1, at(request));
        }
        assert!(known.with(|clusters| clusters["m1"].len()) <= MAX_ANSWERS);
        assert!(known.get("m1", 9999, at(9999)).is_some());
        assert!(known.get("m1", 0, at(9999)).is_none());
    }

    #[test]
    fn a_max_age_of_zero_keeps_nothing() {
        let (known, now) = (LastKnown::new(Duration::ZERO), Instant::now());
        known.record(&"m1".into(), 7, 3, now);
        assert_eq!(known.get("m1", 7, now), None);
    }
}
