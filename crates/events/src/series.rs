//! Series of equal events, which become one event with a count.

use jiff::Timestamp;
use lru::LruCache;

use crate::happening::Told;
use crate::naming;
use crate::subject::{REMEMBERED, SeriesKey};

/// The next step for a series after an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The event is new and must be written now.
    Write,
    /// The event must be written again, together with further repetitions.
    WriteSoon,
    /// A pending or running write covers the event.
    Nothing,
}

/// An event to be written.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    pub(crate) key: SeriesKey,
    pub(crate) name: String,
    pub(crate) first: Timestamp,
    pub(crate) latest: Told,
    pub(crate) count: i32,
}

/// The event of a series.
#[derive(Debug)]
struct Record {
    name: String,
    first: Timestamp,
    latest: Told,
    count: i32,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Nothing is to be written.
    Quiet,
    /// A write is running.
    Writing,
    /// A write is running, and further events arrived.
    WritingMore,
    /// A write is pending.
    Due,
}

/// The recent series.
#[derive(Debug)]
pub(crate) struct Series {
    known: LruCache<SeriesKey, Record>,
}

impl Default for Series {
    fn default() -> Self {
        Self {
            known: LruCache::new(REMEMBERED),
        }
    }
}

impl Series {
    /// Adds an event to its series.
    pub(crate) fn happens(&mut self, key: &SeriesKey, told: Told) -> Next {
        let Some(record) = self.known.get_mut(key) else {
            let record = Record {
                name: naming::name(told.happening.object.name.as_deref(), told.at),
                first: told.at,
                latest: told,
                count: 1,
                stage: Stage::Due,
            };
            self.known.put(key.clone(), record);
            return Next::Write;
        };
        record.count = record.count.saturating_add(1);
        record.latest = told;
        match record.stage {
            Stage::Quiet => {
                record.stage = Stage::Due;
                Next::WriteSoon
            }
            Stage::Writing => {
                record.stage = Stage::WritingMore;
                Next::Nothing
            }
            Stage::WritingMore | Stage::Due => Next::Nothing,
        }
    }

    /// Starts the pending write of a series if `allow` returns true. Otherwise the next event triggers a write
    /// with the total count.
    pub(crate) fn write(&mut self, key: &SeriesKey, may: impl FnOnce() -> bool) -> Option<Draft> {
        // An evicted series starts over with its next event.
        let record = self.known.peek_mut(key)?;
        if record.stage != Stage::Due {
            return None;
        }
        if !may() {
            record.stage = Stage::Quiet;
            return None;
        }
        record.stage = Stage::Writing;
        Some(Draft {
            key: key.clone(),
            name: record.name.clone(),
            first: record.first,
            latest: record.latest.clone(),
            count: record.count,
        })
    }

    /// Ends the write of a series and reports whether further events arrived and made it pending again.
    pub(crate) fn settle(&mut self, key: &SeriesKey) -> bool {
        let Some(record) = self.known.peek_mut(key) else {
            return false;
        };
        let (stage, is_due) = match record.stage {
            Stage::Writing => (Stage::Quiet, false),
            Stage::WritingMore => (Stage::Due, true),
            // The series was evicted and started over during the write.
            other => (other, false),
        };
        record.stage = stage;
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples::told;
    use crate::subject::Topic;

    fn happens(series: &mut Series, message: &str) -> Next {
        series.happens(&key(message), told("BackOff", message))
    }

    fn key(message: &str) -> SeriesKey {
        let told = told("BackOff", message);
        SeriesKey::of(Topic::of(&told), &told)
    }

    fn count(series: &mut Series, message: &str) -> Option<i32> {
        series
            .write(&key(message), || true)
            .map(|draft| draft.count)
    }

    #[test]
    fn repetitions_count_up() {
        let mut series = Series::default();
        assert_eq!(happens(&mut series, "a"), Next::Write);
        assert_eq!(count(&mut series, "a"), Some(1));
        assert!(!series.settle(&key("a")));
        assert_eq!(happens(&mut series, "a"), Next::WriteSoon);
        assert_eq!(count(&mut series, "a"), Some(2));
        assert!(!series.settle(&key("a")));
        assert_eq!(happens(&mut series, "b"), Next::Write);
    }

    #[test]
    fn what_comes_while_an_event_is_written_becomes_one_write() {
        let mut series = Series::default();
        assert_eq!(happens(&mut series, "a"), Next::Write);
        assert_eq!(count(&mut series, "a"), Some(1));
        for _ in 0..9 {
            assert_eq!(happens(&mut series, "a"), Next::Nothing);
        }
        assert!(series.settle(&key("a")));
        assert_eq!(happens(&mut series, "a"), Next::Nothing);
        assert_eq!(count(&mut series, "a"), Some(11));
        assert_eq!(count(&mut series, "a"), None, "nothing is left to say");
        assert!(!series.settle(&key("a")));
    }

    #[test]
    fn what_may_not_be_written_is_counted() {
        let mut series = Series::default();
        assert_eq!(happens(&mut series, "a"), Next::Write);
        assert!(series.write(&key("a"), || false).is_none());
        assert_eq!(happens(&mut series, "a"), Next::WriteSoon);
        assert_eq!(count(&mut series, "a"), Some(2));
    }

    #[test]
    fn what_was_of_use_longest_ago_is_forgotten_first() {
        let mut series = Series::default();
        for n in 0..REMEMBERED.get() {
            let message = n.to_string();
            assert_eq!(happens(&mut series, &message), Next::Write);
            assert_eq!(count(&mut series, &message), Some(1));
            assert!(!series.settle(&key(&message)));
        }
        assert_eq!(happens(&mut series, "0"), Next::WriteSoon);
        assert_eq!(happens(&mut series, "one more"), Next::Write);
        assert_eq!(series.known.len(), REMEMBERED.get());
        assert_eq!(count(&mut series, "0"), Some(2));
        assert_eq!(happens(&mut series, "1"), Next::Write);
    }

    #[test]
    fn what_is_forgotten_while_it_is_written_begins_anew() {
        let mut series = Series::default();
        happens(&mut series, "a");
        count(&mut series, "a");
        happens(&mut series, "a");
        series.known.clear();
        assert!(!series.settle(&key("a")));
        assert_eq!(count(&mut series, "a"), None);
        assert_eq!(happens(&mut series, "a"), Next::Write);
        assert!(!series.settle(&key("a")), "it is of the other one");
        assert_eq!(count(&mut series, "a"), Some(1));
    }
}
