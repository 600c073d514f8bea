//! The correlator: decides when to write which event. It has no clock and no server.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use crate::budget::Budgets;
use crate::happening::Told;
use crate::series::{Draft, Next, Series};
use crate::similar::Similar;
use crate::subject::{REMEMBERED, SeriesKey, Topic};

/// The time for which repetitions are counted before the count is written.
pub(crate) const COUNTING: Duration = Duration::from_secs(1);
/// The prefix of combined messages.
const COMBINED: &str = "(combined from similar events): ";

/// Turns events into writes.
#[derive(Debug, Default)]
pub(crate) struct Correlator {
    similar: Similar,
    series: Series,
    budgets: Budgets,
    /// The pending series with their due times. All wait equally long, so the order is that of the due times.
    soon: VecDeque<(Instant, SeriesKey)>,
}

impl Correlator {
    /// Accepts an event and returns the write that is due at once.
    pub(crate) fn happens(&mut self, mut told: Told, now: Instant) -> Option<Draft> {
        let topic = Topic::of(&told);
        let message = &mut told.happening.message;
        let key = if self.similar.is_one_too_many(&topic, message, now) {
            message.insert_str(0, COMBINED);
            SeriesKey::Combined(topic)
        } else {
            SeriesKey::of(topic, &told)
        };
        match self.series.happens(&key, told) {
            Next::Write => self.write(&key, now),
            Next::WriteSoon => {
                self.soon.push_back((now + COUNTING, key));
                None
            }
            Next::Nothing => None,
        }
    }

    /// Returns the due time of the next pending series.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let (due, _) = self.soon.front()?;
        // Without room for more entries, pending series are due at once.
        let is_full = self.soon.len() > REMEMBERED.get();
        Some(if is_full { *due - COUNTING } else { *due })
    }

    /// Removes the next pending series and returns its write.
    pub(crate) fn take_next(&mut self, now: Instant) -> Option<Draft> {
        let (_, key) = self.soon.pop_front()?;
        self.write(&key, now)
    }

    /// Records the end of a write, successful or not.
    pub(crate) fn settle(&mut self, key: SeriesKey, now: Instant) {
        if self.series.settle(&key) {
            self.soon.push_back((now + COUNTING, key));
        }
    }

    fn write(&mut self, key: &SeriesKey, now: Instant) -> Option<Draft> {
        let budgets = &mut self.budgets;
        self.series.write(key, || budgets.spend(key.subject(), now))
    }
}

#[cfg(test)]
#[path = "correlator_tests.rs"]
mod tests;
