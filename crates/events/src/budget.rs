//! The spam filter, which limits the writes of each subject by a token bucket.

use std::sync::Arc;
use std::time::Duration;

use lru::LruCache;
use tokio::time::Instant;

use crate::subject::{REMEMBERED, Subject};

/// The capacity of the bucket.
pub(crate) const BURST: u32 = 25;
/// The time in which one token is added.
pub(crate) const REFILL: Duration = Duration::from_mins(5);

/// The token buckets of recent subjects.
#[derive(Debug)]
pub(crate) struct Budgets {
    /// The time at which the bucket will be full; each write postpones it.
    whole_at: LruCache<Arc<Subject>, Instant>,
}

impl Default for Budgets {
    fn default() -> Self {
        Self {
            whole_at: LruCache::new(REMEMBERED),
        }
    }
}

impl Budgets {
    /// Takes one token; reports whether there was one.
    pub(crate) fn spend(&mut self, subject: &Arc<Subject>, now: Instant) -> bool {
        let whole_at = self.whole_at.get_or_insert_mut(Arc::clone(subject), || now);
        let after = (*whole_at).max(now) + REFILL;
        let is_affordable = after.duration_since(now) <= REFILL * BURST;
        if is_affordable {
            *whole_at = after;
        }
        is_affordable
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples::told;
    use crate::happening::Told;
    use crate::source::Source;
    use crate::subject::Topic;

    fn subject(told: &Told) -> Arc<Subject> {
        Topic::of(told).subject
    }

    /// Returns the number of writes that are allowed now.
    fn affordable(budgets: &mut Budgets, told: &Told, now: Instant) -> u32 {
        let subject = subject(told);
        (0..1000)
            .map(|_| u32::from(budgets.spend(&subject, now)))
            .sum()
    }

    #[test]
    fn a_burst_of_25_is_free_and_then_one_in_5_minutes() {
        let (mut budgets, start, pod) = (Budgets::default(), Instant::now(), told("BackOff", ""));
        assert_eq!(affordable(&mut budgets, &pod, start), 25);
        let almost = start + Duration::from_secs(299);
        assert_eq!(affordable(&mut budgets, &pod, almost), 0);
        for n in 1..10 {
            assert_eq!(affordable(&mut budgets, &pod, start + REFILL * n), 1);
        }
    }

    #[test]
    fn what_is_left_alone_has_its_burst_again_and_no_more() {
        let (mut budgets, start, pod) = (Budgets::default(), Instant::now(), told("BackOff", ""));
        affordable(&mut budgets, &pod, start);
        let later = start + Duration::from_hours(24);
        assert_eq!(affordable(&mut budgets, &pod, later), 25);
    }

    #[test]
    fn each_source_each_object_and_bad_news_have_budgets_of_their_own() {
        let (mut budgets, now) = (Budgets::default(), Instant::now());
        let kubelet = Source::new("kubelet");
        for other in [
            told("BackOff", ""),
            told("BackOff", "").of("db"),
            told("BackOff", "").bad(),
            told("BackOff", "").by(kubelet.on("n1")),
            told("BackOff", "").by(kubelet.on("n2")),
            told("BackOff", "").by(Source::new("scheduler")),
        ] {
            assert_eq!(affordable(&mut budgets, &other, now), 25, "{other:?}");
        }
    }

    #[test]
    fn words_reasons_and_parts_of_an_object_share_a_budget() {
        let (mut budgets, now) = (Budgets::default(), Instant::now());
        affordable(&mut budgets, &told("BackOff", ""), now);
        for other in [
            told("BackOff", "other"),
            told("Killing", ""),
            told("BackOff", "").in_container("one"),
        ] {
            assert_eq!(affordable(&mut budgets, &other, now), 0, "{other:?}");
        }
    }

    #[test]
    fn not_everything_is_remembered() {
        let (mut budgets, now) = (Budgets::default(), Instant::now());
        for n in 0..=REMEMBERED.get() {
            budgets.spend(&subject(&told("BackOff", "").of(&n.to_string())), now);
        }
        assert_eq!(budgets.whole_at.len(), REMEMBERED.get());
    }
}
