//! Series: sequences of equal or combined events. A series becomes one event object with a count on the server.

use jiff::Timestamp;
use lru::LruCache;

use crate::event::Occurrence;
use crate::naming;
use crate::series_key::{CACHE_SIZE, SeriesKey};

/// The next step for a series after an event was added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The event is the first of its series and must be written now.
    Write,
    /// The event must be written later, together with further repetitions.
    WriteLater,
    /// The pending write, or the write after the running write, covers the event.
    Nothing,
}

/// An event to be written.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    pub(crate) key: SeriesKey,
    pub(crate) name: String,
    pub(crate) first: Timestamp,
    pub(crate) latest: Occurrence,
    pub(crate) count: i32,
}

/// The state of a series.
#[derive(Debug)]
struct Series {
    name: String,
    first: Timestamp,
    latest: Occurrence,
    count: i32,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// No write is pending or running.
    Idle,
    /// A write is running.
    Writing,
    /// A write is running, and further events arrived after its start.
    WritingStale,
    /// A write is pending.
    Pending,
}

/// The recent series.
#[derive(Debug)]
pub(crate) struct SeriesCache {
    entries: LruCache<SeriesKey, Series>,
}

impl Default for SeriesCache {
    fn default() -> Self {
        Self {
            entries: LruCache::new(CACHE_SIZE),
        }
    }
}

impl SeriesCache {
    /// Adds an event to its series.
    pub(crate) fn add(&mut self, key: &SeriesKey, occurrence: Occurrence) -> Step {
        let Some(series) = self.entries.get_mut(key) else {
            let series = Series {
                name: naming::name(occurrence.event.object.name.as_deref(), occurrence.at),
                first: occurrence.at,
                latest: occurrence,
                count: 1,
                stage: Stage::Pending,
            };
            self.entries.put(key.clone(), series);
            return Step::Write;
        };
        series.count = series.count.saturating_add(1);
        series.latest = occurrence;
        match series.stage {
            Stage::Idle => {
                series.stage = Stage::Pending;
                Step::WriteLater
            }
            Stage::Writing => {
                series.stage = Stage::WritingStale;
                Step::Nothing
            }
            Stage::WritingStale | Stage::Pending => Step::Nothing,
        }
    }

    /// Starts the pending write of a series if `allow` returns true. Otherwise the series stays unwritten until its
    /// next event, whose write contains the total count.
    pub(crate) fn write(&mut self, key: &SeriesKey, allow: impl FnOnce() -> bool) -> Option<Draft> {
        // The series may have been evicted. Its next event starts a new series.
        let series = self.entries.peek_mut(key)?;
        if series.stage != Stage::Pending {
            return None;
        }
        if !allow() {
            series.stage = Stage::Idle;
            return None;
        }
        series.stage = Stage::Writing;
        Some(Draft {
            key: key.clone(),
            name: series.name.clone(),
            first: series.first,
            latest: series.latest.clone(),
            count: series.count,
        })
    }

    /// Ends the write of a series. Returns true if further events arrived during the write, which makes the series
    /// pending again.
    pub(crate) fn complete(&mut self, key: &SeriesKey) -> bool {
        let Some(series) = self.entries.peek_mut(key) else {
            return false;
        };
        let (stage, is_due) = match series.stage {
            Stage::Writing => (Stage::Idle, false),
            Stage::WritingStale => (Stage::Pending, true),
            // The series was evicted and started again during the write.
            other => (other, false),
        };
        series.stage = stage;
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::occurrence;
    use crate::series_key::Topic;

    fn add(cache: &mut SeriesCache, message: &str) -> Step {
        cache.add(&key(message), occurrence("BackOff", message))
    }

    fn key(message: &str) -> SeriesKey {
        let occurrence = occurrence("BackOff", message);
        SeriesKey::of(Topic::of(&occurrence), &occurrence)
    }

    fn count(cache: &mut SeriesCache, message: &str) -> Option<i32> {
        cache.write(&key(message), || true).map(|draft| draft.count)
    }

    #[test]
    fn repetitions_are_counted() {
        let mut cache = SeriesCache::default();
        assert_eq!(add(&mut cache, "a"), Step::Write);
        assert_eq!(count(&mut cache, "a"), Some(1));
        assert!(!cache.complete(&key("a")));
        assert_eq!(add(&mut cache, "a"), Step::WriteLater);
        assert_eq!(count(&mut cache, "a"), Some(2));
        assert!(!cache.complete(&key("a")));
        assert_eq!(add(&mut cache, "b"), Step::Write);
    }

    #[test]
    fn events_during_a_write_become_one_write() {
        let mut cache = SeriesCache::default();
        assert_eq!(add(&mut cache, "a"), Step::Write);
        assert_eq!(count(&mut cache, "a"), Some(1));
        for _ in 0..9 {
            assert_eq!(add(&mut cache, "a"), Step::Nothing);
        }
        assert!(cache.complete(&key("a")));
        assert_eq!(add(&mut cache, "a"), Step::Nothing);
        assert_eq!(count(&mut cache, "a"), Some(11));
        assert_eq!(count(&mut cache, "a"), None, "nothing is left to write");
        assert!(!cache.complete(&key("a")));
    }

    #[test]
    fn the_next_write_counts_the_event_of_a_suppressed_write() {
        let mut cache = SeriesCache::default();
        assert_eq!(add(&mut cache, "a"), Step::Write);
        assert!(cache.write(&key("a"), || false).is_none());
        assert_eq!(add(&mut cache, "a"), Step::WriteLater);
        assert_eq!(count(&mut cache, "a"), Some(2));
    }

    #[test]
    fn least_recently_used_entries_are_evicted() {
        let mut cache = SeriesCache::default();
        for n in 0..CACHE_SIZE.get() {
            let message = n.to_string();
            assert_eq!(add(&mut cache, &message), Step::Write);
            assert_eq!(count(&mut cache, &message), Some(1));
            assert!(!cache.complete(&key(&message)));
        }
        assert_eq!(add(&mut cache, "0"), Step::WriteLater);
        assert_eq!(add(&mut cache, "one more"), Step::Write);
        assert_eq!(cache.entries.len(), CACHE_SIZE.get());
        assert_eq!(count(&mut cache, "0"), Some(2));
        assert_eq!(add(&mut cache, "1"), Step::Write);
    }

    #[test]
    fn series_evicted_during_a_write_starts_over() {
        let mut cache = SeriesCache::default();
        add(&mut cache, "a");
        count(&mut cache, "a");
        add(&mut cache, "a");
        cache.entries.clear();
        assert!(!cache.complete(&key("a")));
        assert_eq!(count(&mut cache, "a"), None);
        assert_eq!(add(&mut cache, "a"), Step::Write);
        assert!(
            !cache.complete(&key("a")),
            "the completed write belongs to the evicted series"
        );
        assert_eq!(count(&mut cache, "a"), Some(1));
    }
}
