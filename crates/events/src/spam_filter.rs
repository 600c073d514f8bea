//! The spam filter, which limits the writes for each [`Subject`] with a token bucket.

use std::sync::Arc;
use std::time::Duration;

use lru::LruCache;
use tokio::time::Instant;

use crate::series_key::{CACHE_SIZE, Subject};

/// The capacity of a bucket in tokens. Each write takes one token.
pub(crate) const BURST: u32 = 25;
/// The time after which a bucket gets another token.
pub(crate) const REFILL: Duration = Duration::from_mins(5);

/// The token buckets of recent subjects.
#[derive(Debug)]
pub(crate) struct SpamFilter {
    /// The time at which the bucket of each subject will be full. A write postpones this time by [`REFILL`].
    full_at: LruCache<Arc<Subject>, Instant>,
}

impl Default for SpamFilter {
    fn default() -> Self {
        Self {
            full_at: LruCache::new(CACHE_SIZE),
        }
    }
}

impl SpamFilter {
    /// Takes one token from the bucket of a subject. Returns false if the bucket is empty.
    pub(crate) fn allow(&mut self, subject: &Arc<Subject>, now: Instant) -> bool {
        let full_at = self.full_at.get_or_insert_mut(Arc::clone(subject), || now);
        let after = (*full_at).max(now) + REFILL;
        let is_allowed = after.duration_since(now) <= REFILL * BURST;
        if is_allowed {
            *full_at = after;
        }
        is_allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Occurrence;
    use crate::event::Source;
    use crate::fixtures::occurrence;
    use crate::series_key::Topic;

    fn subject(occurrence: &Occurrence) -> Arc<Subject> {
        Topic::of(occurrence).subject
    }

    /// Returns the number of writes that are allowed now.
    fn allowed_writes(spam_filter: &mut SpamFilter, occurrence: &Occurrence, now: Instant) -> u32 {
        let subject = subject(occurrence);
        (0..1000)
            .map(|_| u32::from(spam_filter.allow(&subject, now)))
            .sum()
    }

    #[test]
    fn burst_of_25_is_allowed_and_then_one_per_5_minutes() {
        let (mut spam_filter, start, pod) = (
            SpamFilter::default(),
            Instant::now(),
            occurrence("BackOff", ""),
        );
        assert_eq!(allowed_writes(&mut spam_filter, &pod, start), 25);
        let almost = start + Duration::from_secs(299);
        assert_eq!(allowed_writes(&mut spam_filter, &pod, almost), 0);
        for n in 1..10 {
            assert_eq!(
                allowed_writes(&mut spam_filter, &pod, start + REFILL * n),
                1
            );
        }
    }

    #[test]
    fn idle_subjects_regain_at_most_their_burst() {
        let (mut spam_filter, start, pod) = (
            SpamFilter::default(),
            Instant::now(),
            occurrence("BackOff", ""),
        );
        allowed_writes(&mut spam_filter, &pod, start);
        let later = start + Duration::from_hours(24);
        assert_eq!(allowed_writes(&mut spam_filter, &pod, later), 25);
    }

    #[test]
    fn limits_are_per_source_object_and_type() {
        let (mut spam_filter, now) = (SpamFilter::default(), Instant::now());
        let kubelet = Source::new("kubelet");
        for other in [
            occurrence("BackOff", ""),
            occurrence("BackOff", "").of("db"),
            occurrence("BackOff", "").warning(),
            occurrence("BackOff", "").by(kubelet.on("n1")),
            occurrence("BackOff", "").by(kubelet.on("n2")),
            occurrence("BackOff", "").by(Source::new("scheduler")),
        ] {
            assert_eq!(
                allowed_writes(&mut spam_filter, &other, now),
                25,
                "{other:?}"
            );
        }
    }

    #[test]
    fn messages_reasons_and_field_paths_share_a_limit() {
        let (mut spam_filter, now) = (SpamFilter::default(), Instant::now());
        allowed_writes(&mut spam_filter, &occurrence("BackOff", ""), now);
        for other in [
            occurrence("BackOff", "other"),
            occurrence("Killing", ""),
            occurrence("BackOff", "").in_container("one"),
        ] {
            assert_eq!(
                allowed_writes(&mut spam_filter, &other, now),
                0,
                "{other:?}"
            );
        }
    }

    #[test]
    fn cache_size_is_bounded() {
        let (mut spam_filter, now) = (SpamFilter::default(), Instant::now());
        for n in 0..=CACHE_SIZE.get() {
            spam_filter.allow(&subject(&occurrence("BackOff", "").of(&n.to_string())), now);
        }
        assert_eq!(spam_filter.full_at.len(), CACHE_SIZE.get());
    }
}
