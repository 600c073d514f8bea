//! A work queue of the keys of owners whose Works must be written. A key is retried every second until its Works are
//! written. A lasting error of a key is reported once.

use std::collections::HashMap;
use std::fmt::Display;
use std::hash::Hash;
use std::time::Duration;

use tokio::time::Instant;

use super::Ensured;
use crate::monitor::queue_meter::QueueMeter;
use crate::reconciler::log_key::{KeyText, LogKey};
use crate::reconciler::work_queue::{Priority, Timers, WorkQueue};

/// Delay before a key is retried after a failed or an unfinished run.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// The keys whose Works must be written.
#[derive(Debug)]
pub(crate) struct EnsureQueue<K> {
    queue: WorkQueue<K, ()>,
    /// The last error of each key.
    errors: HashMap<K, String>,
}

/// An outcome that is recorded as an event.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Report<E> {
    /// The Works were written.
    Written,
    /// The Works could not be written. An error that stays the same is reported once.
    Failed(E),
}

impl<K: Clone + Eq + Hash + LogKey> EnsureQueue<K> {
    /// Returns an empty queue that is measured with a meter.
    pub(crate) fn new(meter: QueueMeter) -> Self {
        Self {
            queue: WorkQueue::with_retry_delays(RETRY_DELAY, RETRY_DELAY).metered(meter),
            errors: HashMap::new(),
        }
    }

    /// Queues a key.
    pub(crate) fn push(&mut self, key: K) {
        self.queue.push(key, (), Priority::High);
    }

    /// Removes the next key from the queue and marks it as running.
    pub(crate) fn start_next(&mut self) -> Option<K> {
        let (key, ()) = self.queue.next()?;
        self.queue.start(key.clone());
        Some(key)
    }

    /// Ends the run of a key that needs no Works.
    pub(crate) fn skip(&mut self, key: &K) {
        self.errors.remove(key);
        self.queue.finish(key);
    }

    /// Ends the run of a key. Returns the outcome if an event must be recorded.
    pub(crate) fn finish<E: Display>(
        &mut self,
        key: &K,
        result: Result<Ensured, E>,
    ) -> Option<Report<E>> {
        match result {
            Ok(Ensured::Unfinished) => {
                self.queue.fail(key, ());
                None
            }
            Ok(ensured) => {
                self.skip(key);
                (ensured == Ensured::Written).then_some(Report::Written)
            }
            Err(error) => {
                tracing::debug!(key = %KeyText(key), %error, "cannot write Works, trying again");
                self.queue.fail(key, ());
                let message = error.to_string();
                let known = self.errors.insert(key.clone(), message.clone());
                (known != Some(message)).then_some(Report::Failed(error))
            }
        }
    }
}

impl<K: Clone + Eq + Hash> Timers for EnsureQueue<K> {
    fn next_due(&self) -> Option<Instant> {
        self.queue.next_due()
    }

    fn requeue_due(&mut self) {
        self.queue.requeue_due();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_lasting_error_is_reported_once_and_retried_every_second() {
        let mut queue = EnsureQueue::new(QueueMeter::default());
        queue.push("m1");
        for expected in [Some(Report::Failed("refused")), None, None] {
            assert_eq!(queue.start_next(), Some("m1"));
            assert_eq!(queue.finish(&"m1", Err("refused")), expected);
            assert_eq!(queue.start_next(), None);
            assert_eq!(queue.next_due(), Some(Instant::now() + RETRY_DELAY));
            tokio::time::advance(RETRY_DELAY).await;
            queue.requeue_due();
        }
        assert_eq!(queue.start_next(), Some("m1"));
        let written: Option<Report<&str>> = queue.finish(&"m1", Ok(Ensured::Written));
        assert_eq!(written, Some(Report::Written));
        assert_eq!(queue.next_due(), None);
        queue.push("m1");
        queue.start_next();
        let again = queue.finish(&"m1", Err("refused"));
        assert_eq!(again, Some(Report::Failed("refused")));
    }
}
