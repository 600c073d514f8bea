//! The correlator: decides when to write which event. It has no clock and no server.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use crate::aggregator::Aggregator;
use crate::event::Occurrence;
use crate::series::{Draft, Series, Step};
use crate::series_key::{CACHE_SIZE, SeriesKey, Topic};
use crate::spam_filter::SpamFilter;

/// The time for which repetitions are counted before the count is written.
pub(crate) const REPEAT_DELAY: Duration = Duration::from_secs(1);
/// The prefix of combined messages.
const COMBINED_PREFIX: &str = "(combined from similar events): ";

/// Turns events into writes.
#[derive(Debug, Default)]
pub(crate) struct Correlator {
    aggregator: Aggregator,
    series: Series,
    spam_filter: SpamFilter,
    /// The pending series with their due times. All wait equally long, so they are in the order of their due times.
    pending: VecDeque<(Instant, SeriesKey)>,
}

impl Correlator {
    /// Accepts an event and returns the write that is due at once.
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
        // Without room for more entries, pending series are due at once.
        let is_full = self.pending.len() > CACHE_SIZE.get();
        Some(if is_full { *due - REPEAT_DELAY } else { *due })
    }

    /// Removes the next pending series and returns its write.
    pub(crate) fn take_next(&mut self, now: Instant) -> Option<Draft> {
        let (_, key) = self.pending.pop_front()?;
        self.write(&key, now)
    }

    /// Records the end of a write, successful or not.
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
