//! The correlator, which decides which events are written, and when. It is pure: the caller passes the time and sends
//! the writes.
//!
//! A series is a sequence of equal or combined events. All events of a series share one event object on the server.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use crate::aggregator::Aggregator;
use crate::event::Occurrence;
use crate::series::{Draft, SeriesCache, Step};
use crate::series_key::{CACHE_SIZE, SeriesKey, Topic};
use crate::spam_filter::SpamFilter;

/// The time for which repetitions of an event are counted before the new count is written.
pub(crate) const REPEAT_DELAY: Duration = Duration::from_secs(1);
/// The prefix of the messages of combined events.
const COMBINED_PREFIX: &str = "(combined from similar events): ";

/// The state of the rules that turn events into writes.
#[derive(Debug, Default)]
pub(crate) struct Correlator {
    aggregator: Aggregator,
    series: SeriesCache,
    spam_filter: SpamFilter,
    /// The series that wait for a write, with their due times. Every series waits equally long, so the queue is sorted
    /// by due time.
    pending: VecDeque<(Instant, SeriesKey)>,
}

impl Correlator {
    /// Adds an event. Returns a write if it must be sent at once.
    pub(crate) fn add(&mut self, mut occurrence: Occurrence, now: Instant) -> Option<Draft> {
        let topic = Topic::of(&occurrence);
        let message = &mut occurrence.event.message;
        let key = if self.aggregator.must_combine(&topic, message, now) {
            message.insert_str(0, COMBINED_PREFIX);
            SeriesKey::Combined(topic)
        } else {
            SeriesKey::of(topic, &occurrence)
        };
        match self.series.add(&key, occurrence) {
            Step::Write => self.write(&key, now),
            Step::WriteLater => {
                self.pending.push_back((now + REPEAT_DELAY, key));
                None
            }
            Step::Nothing => None,
        }
    }

    /// Returns the due time of the next pending series.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let (due, _) = self.pending.front()?;
        // If more series are pending than the caches have entries, the next series is due at once.
        let is_full = self.pending.len() > CACHE_SIZE.get();
        Some(if is_full { *due - REPEAT_DELAY } else { *due })
    }

    /// Removes the next pending series, and returns its write if the spam filter allows the write.
    pub(crate) fn take_next(&mut self, now: Instant) -> Option<Draft> {
        let (_, key) = self.pending.pop_front()?;
        self.write(&key, now)
    }

    /// Handles the end of a write, which succeeded or failed.
    pub(crate) fn complete(&mut self, key: SeriesKey, now: Instant) {
        if self.series.complete(&key) {
            self.pending.push_back((now + REPEAT_DELAY, key));
        }
    }

    fn write(&mut self, key: &SeriesKey, now: Instant) -> Option<Draft> {
        let spam_filter = &mut self.spam_filter;
        self.series
            .write(key, || spam_filter.allow(key.subject(), now))
    }
}

#[cfg(test)]
mod tests;
