//! What is written of what is told: the rules, without a clock and without a server.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use crate::budget::Budgets;
use crate::happening::Told;
use crate::series::{Draft, Next, Series};
use crate::similar::Similar;
use crate::subject::{REMEMBERED, SeriesKey, Topic};

/// How long repetitions are counted before the count is written.
pub(crate) const COUNTING: Duration = Duration::from_secs(1);
/// What the message of an event begins with that stands for many.
const COMBINED: &str = "(combined from similar events): ";

/// Takes happenings; gives what is to be written of them, and when.
#[derive(Debug, Default)]
pub(crate) struct Correlator {
    similar: Similar,
    series: Series,
    budgets: Budgets,
    /// Series that are to be written soon, and when; all of them wait equally long, so this is their order.
    soon: VecDeque<(Instant, SeriesKey)>,
}

impl Correlator {
    /// Takes a happening; what is to be written of it at once.
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

    /// When the next series is to be written for which others wait.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let (due, _) = self.soon.front()?;
        // Where more wait than are remembered, none of them waits for its time.
        let is_full = self.soon.len() > REMEMBERED.get();
        Some(if is_full { *due - COUNTING } else { *due })
    }

    /// Takes the next series out of those that wait; what is to be written of it.
    pub(crate) fn take_next(&mut self, now: Instant) -> Option<Draft> {
        let (_, key) = self.soon.pop_front()?;
        self.write(&key, now)
    }

    /// The event of a series was written, or could not be.
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
