//! Which events were written lately, so that repetitions count up instead of becoming events of their own.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::happening::Severity;
use crate::writer::Told;

/// How many series are remembered.
pub(crate) const REMEMBERED: usize = 4096;

/// What makes two happenings the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SeriesKey {
    component: Arc<str>,
    object: [String; 4],
    severity: Severity,
    reason: &'static str,
    message: String,
}

impl SeriesKey {
    pub(crate) fn of(told: &Told) -> Self {
        let happening = &told.happening;
        let object = &happening.object;
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        Self {
            component: Arc::clone(&told.component),
            object: [
                text(&object.kind),
                text(&object.namespace),
                text(&object.name),
                text(&object.uid),
            ],
            severity: happening.severity,
            reason: happening.reason,
            message: happening.message.clone(),
        }
    }
}

/// What has to be written of a happening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// A new event.
    Begin,
    /// The new count, when the series is due.
    CountSoon,
    /// Nothing: it is counted with others.
    Nothing,
}

/// An event is named after its object and the time of its first happening, in nanoseconds.
pub(crate) type Name = i128;

/// The event of a series.
#[derive(Debug)]
enum Record {
    /// It is being written; so many happenings came meanwhile.
    Writing { missed: i32 },
    /// It is on the server.
    Written { name: Name, count: i32 },
    /// It is on the server with a count that is out of date.
    Outdated { name: Name, count: i32 },
}

/// The series that are remembered; the oldest is forgotten first.
#[derive(Debug, Default)]
pub(crate) struct Series {
    known: HashMap<SeriesKey, Record>,
    order: VecDeque<SeriesKey>,
}

impl Series {
    /// Another happening of a series.
    pub(crate) fn happens(&mut self, key: &SeriesKey) -> Next {
        match self.known.get_mut(key) {
            None => {
                self.remember(key);
                Next::Begin
            }
            Some(Record::Writing { missed }) => {
                *missed = missed.saturating_add(1);
                Next::Nothing
            }
            Some(Record::Outdated { count, .. }) => {
                *count = count.saturating_add(1);
                Next::Nothing
            }
            Some(record) => {
                if let Record::Written { name, count } = *record {
                    let count = count.saturating_add(1);
                    *record = Record::Outdated { name, count };
                }
                Next::CountSoon
            }
        }
    }

    /// A series is due: the name of its event, and the count that is to be written.
    pub(crate) fn due(&mut self, key: &SeriesKey) -> Option<(Name, i32)> {
        // A series that was forgotten meanwhile begins anew.
        let record = self.known.get_mut(key)?;
        let Record::Outdated { name, count } = *record else {
            return None;
        };
        *record = Record::Writing { missed: 0 };
        Some((name, count))
    }

    /// The event of a series is on the server with this count; whether happenings came meanwhile, so that it is to be
    /// counted soon.
    pub(crate) fn written(&mut self, key: &SeriesKey, name: Name, count: i32) -> bool {
        let Some(record) = self.known.get_mut(key) else {
            return false;
        };
        match *record {
            Record::Writing { missed } if missed > 0 => {
                let count = count.saturating_add(missed);
                *record = Record::Outdated { name, count };
                true
            }
            _ => {
                *record = Record::Written { name, count };
                false
            }
        }
    }

    /// The event of a series could not be written: the next happening begins anew.
    pub(crate) fn forget(&mut self, key: &SeriesKey) {
        self.known.remove(key);
        self.order.retain(|known| known != key);
    }

    fn remember(&mut self, key: &SeriesKey) {
        if self.order.len() >= REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        self.order.push_back(key.clone());
        self.known
            .insert(key.clone(), Record::Writing { missed: 0 });
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ObjectReference;

    use super::*;
    use crate::happening::Happening;

    fn key(message: &str) -> SeriesKey {
        SeriesKey::of(&Told {
            component: "test".into(),
            happening: Happening {
                object: ObjectReference::default(),
                severity: Severity::Normal,
                reason: "Test",
                message: message.to_owned(),
            },
            at: jiff::Timestamp::UNIX_EPOCH,
        })
    }

    #[test]
    fn repetitions_count_up_until_the_event_is_gone() {
        let mut series = Series::default();
        assert_eq!(series.happens(&key("a")), Next::Begin);
        assert!(!series.written(&key("a"), 7, 1));
        assert_eq!(series.happens(&key("a")), Next::CountSoon);
        assert_eq!(series.due(&key("a")), Some((7, 2)));
        assert!(!series.written(&key("a"), 7, 2));
        assert_eq!(series.happens(&key("b")), Next::Begin);
        assert_eq!(series.happens(&key("a")), Next::CountSoon);
        assert_eq!(series.due(&key("a")), Some((7, 3)));
        series.forget(&key("a"));
        assert_eq!(series.happens(&key("a")), Next::Begin);
    }

    #[test]
    fn repetitions_become_one_write() {
        let mut series = Series::default();
        assert_eq!(series.happens(&key("a")), Next::Begin);
        for _ in 0..9 {
            assert_eq!(series.happens(&key("a")), Next::Nothing);
        }
        assert!(series.written(&key("a"), 7, 1));
        assert_eq!(series.happens(&key("a")), Next::Nothing);
        assert_eq!(series.due(&key("a")), Some((7, 11)));
        assert!(!series.written(&key("a"), 7, 11));
        assert_eq!(series.due(&key("a")), None);
    }

    #[test]
    fn the_oldest_series_is_forgotten_first() {
        let mut series = Series::default();
        for index in 0..=REMEMBERED {
            let key = key(&index.to_string());
            assert_eq!(series.happens(&key), Next::Begin);
            assert!(!series.written(&key, 1, 1));
        }
        assert_eq!(series.known.len(), REMEMBERED);
        assert_eq!(series.happens(&key("1")), Next::CountSoon);
        assert_eq!(series.happens(&key("0")), Next::Begin);
    }

    #[test]
    fn what_was_forgotten_while_it_was_written_stays_forgotten() {
        let mut series = Series::default();
        assert_eq!(series.happens(&key("a")), Next::Begin);
        series.forget(&key("a"));
        assert!(!series.written(&key("a"), 1, 1));
        assert_eq!(series.due(&key("a")), None);
        assert_eq!(series.happens(&key("a")), Next::Begin);
    }
}
