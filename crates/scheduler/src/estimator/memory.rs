//! Earlier answers, which stand in for those that do not come.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Questions remembered for each cluster; of more, the oldest answers go.
const QUESTIONS: usize = 128;

#[derive(Clone, Copy, Debug)]
struct Remembered {
    value: i32,
    at: Instant,
}

/// The last answer of each cluster to each question.
#[derive(Debug)]
pub(super) struct Memory {
    max_age: Duration,
    clusters: Mutex<HashMap<Arc<str>, HashMap<u64, Remembered>>>,
}

impl Memory {
    pub(super) fn new(max_age: Duration) -> Self {
        Self {
            max_age,
            clusters: Mutex::default(),
        }
    }

    pub(super) fn remember(&self, cluster: &Arc<str>, question: u64, value: i32, now: Instant) {
        if self.max_age.is_zero() {
            return;
        }
        self.with(|clusters| {
            let answers = clusters.entry(cluster.clone()).or_default();
            if answers.len() >= QUESTIONS && !answers.contains_key(&question) {
                self.make_room(answers, now);
            }
            answers.insert(question, Remembered { value, at: now });
        });
    }

    /// The last answer and its age, if it is not too old.
    pub(super) fn recall(
        &self,
        cluster: &str,
        question: u64,
        now: Instant,
    ) -> Option<(i32, Duration)> {
        let remembered = self.with(|clusters| clusters.get(cluster)?.get(&question).copied())?;
        let age = now.saturating_duration_since(remembered.at);
        (age <= self.max_age && !self.max_age.is_zero()).then_some((remembered.value, age))
    }

    pub(super) fn forget(&self, cluster: &str) {
        self.with(|clusters| clusters.remove(cluster));
    }

    /// Drops what is too old, and at least the older half.
    fn make_room(&self, answers: &mut HashMap<u64, Remembered>, now: Instant) {
        let mut times: Vec<_> = answers.values().map(|answer| answer.at).collect();
        times.sort_unstable();
        let median = times.get(times.len() / 2).copied().unwrap_or(now);
        answers.retain(|_, answer| {
            answer.at > median && now.saturating_duration_since(answer.at) <= self.max_age
        });
    }

    fn with<T>(
        &self,
        change: impl FnOnce(&mut HashMap<Arc<str>, HashMap<u64, Remembered>>) -> T,
    ) -> T {
        change(&mut self.clusters.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_recalled_for_its_own_question_until_it_is_too_old() {
        let (memory, now) = (Memory::new(Duration::from_mins(5)), Instant::now());
        memory.remember(&"m1".into(), 7, 3, now);
        let later = now + Duration::from_mins(5);
        assert_eq!(
            memory.recall("m1", 7, later),
            Some((3, Duration::from_mins(5)))
        );
        assert_eq!(memory.recall("m1", 8, later), None);
        assert_eq!(memory.recall("m2", 7, later), None);
        assert_eq!(memory.recall("m1", 7, later + Duration::from_secs(1)), None);
        memory.forget("m1");
        assert_eq!(memory.recall("m1", 7, now), None);
    }

    #[test]
    fn what_is_remembered_is_bounded_and_the_newest_stays() {
        let (memory, start) = (Memory::new(Duration::from_mins(5)), Instant::now());
        let at = |question: u64| start + Duration::from_millis(question);
        for question in 0..10_000 {
            memory.remember(&"m1".into(), question, 1, at(question));
        }
        assert!(memory.with(|clusters| clusters["m1"].len()) <= QUESTIONS);
        assert!(memory.recall("m1", 9999, at(9999)).is_some());
        assert!(memory.recall("m1", 0, at(9999)).is_none());
    }

    #[test]
    fn without_an_age_nothing_is_remembered() {
        let (memory, now) = (Memory::new(Duration::ZERO), Instant::now());
        memory.remember(&"m1".into(), 7, 3, now);
        assert_eq!(memory.recall("m1", 7, now), None);
    }
}
