//! Detection of similar events, as in client-go's aggregator: once a [`Topic`] has many different messages, events with
//! further messages are combined into one event.

use std::time::Duration;

use lru::LruCache;
use tokio::time::Instant;

use crate::series_key::{CACHE_SIZE, Topic};

/// The number of different messages of a topic that have their own events.
pub(crate) const MAX_SEPARATE: usize = 9;
/// The time without events after which the aggregator forgets the messages of a topic.
pub(crate) const MAX_INTERVAL: Duration = Duration::from_mins(10);

/// The recent topics with their messages.
#[derive(Debug)]
pub(crate) struct Aggregator {
    topics: LruCache<Topic, Recent>,
}

#[derive(Debug)]
struct Recent {
    last: Instant,
    messages: Vec<String>,
}

impl Default for Aggregator {
    fn default() -> Self {
        Self {
            topics: LruCache::new(CACHE_SIZE),
        }
    }
}

impl Aggregator {
    /// Reports whether an event of the topic with this message must be combined with other events of the topic.
    pub(crate) fn must_combine(&mut self, topic: &Topic, message: &str, now: Instant) -> bool {
        let new = || Recent {
            last: now,
            messages: Vec::new(),
        };
        let recent = self.topics.get_or_insert_mut_ref(topic, new);
        if now.saturating_duration_since(recent.last) > MAX_INTERVAL {
            recent.messages.clear();
        }
        recent.last = now;
        if recent.messages.iter().any(|known| known == message) {
            return false;
        }
        if recent.messages.len() >= MAX_SEPARATE {
            return true;
        }
        recent.messages.push(message.to_owned());
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::occurrence;

    fn topic(reason: &'static str) -> Topic {
        Topic::of(&occurrence(reason, ""))
    }

    /// Returns the number of new messages that have their own events.
    fn separate_messages(
        aggregator: &mut Aggregator,
        topic: &Topic,
        from: usize,
        now: Instant,
    ) -> usize {
        let messages = (from..from + 100).map(|n| format!("message {n}"));
        messages
            .filter(|message| !aggregator.must_combine(topic, message, now))
            .count()
    }

    #[test]
    fn tenth_message_is_combined() {
        let (mut aggregator, now, topic) =
            (Aggregator::default(), Instant::now(), topic("BackOff"));
        for n in 1..=9 {
            assert!(!aggregator.must_combine(&topic, &n.to_string(), now));
        }
        assert!(aggregator.must_combine(&topic, "10", now));
        assert!(aggregator.must_combine(&topic, "10", now));
    }

    #[test]
    fn known_messages_stay_separate() {
        let (mut aggregator, now, topic) =
            (Aggregator::default(), Instant::now(), topic("BackOff"));
        assert_eq!(separate_messages(&mut aggregator, &topic, 0, now), 9);
        for n in 0..9 {
            assert!(!aggregator.must_combine(&topic, &format!("message {n}"), now));
        }
    }

    #[test]
    fn topics_are_independent() {
        let (mut aggregator, now) = (Aggregator::default(), Instant::now());
        for topic in [topic("BackOff"), topic("Killing")] {
            assert_eq!(separate_messages(&mut aggregator, &topic, 0, now), 9);
        }
    }

    #[test]
    fn topic_restarts_after_ten_minutes_without_events() {
        let (mut aggregator, start, topic) =
            (Aggregator::default(), Instant::now(), topic("BackOff"));
        assert_eq!(separate_messages(&mut aggregator, &topic, 0, start), 9);
        // The pause starts at the last message, even if that message was combined.
        let later = start + MAX_INTERVAL;
        assert_eq!(separate_messages(&mut aggregator, &topic, 100, later), 0);
        let later = later + MAX_INTERVAL;
        assert_eq!(separate_messages(&mut aggregator, &topic, 200, later), 0);
        let later = later + MAX_INTERVAL + Duration::from_secs(1);
        assert_eq!(separate_messages(&mut aggregator, &topic, 300, later), 9);
    }

    #[test]
    fn least_recently_used_entries_are_evicted() {
        let (mut aggregator, now) = (Aggregator::default(), Instant::now());
        let topic = |n: usize| Topic::of(&occurrence("BackOff", "").of(&n.to_string()));
        for n in 0..CACHE_SIZE.get() {
            separate_messages(&mut aggregator, &topic(n), 0, now);
        }
        assert_eq!(separate_messages(&mut aggregator, &topic(0), 100, now), 0);
        separate_messages(&mut aggregator, &topic(CACHE_SIZE.get()), 0, now);
        assert_eq!(aggregator.topics.len(), CACHE_SIZE.get());
        assert_eq!(separate_messages(&mut aggregator, &topic(0), 200, now), 0);
        assert_eq!(separate_messages(&mut aggregator, &topic(1), 200, now), 9);
    }
}
