//! The aggregator, which combines events that differ only in their messages.

use std::time::Duration;

use lru::LruCache;
use tokio::time::Instant;

use crate::subject::{REMEMBERED, Topic};

/// The number of different messages of a topic that are not combined.
pub(crate) const AS_THEY_ARE: usize = 9;
/// The time without events after which a topic starts over.
pub(crate) const SILENCE: Duration = Duration::from_mins(10);

/// The recent topics.
#[derive(Debug)]
pub(crate) struct Similar {
    topics: LruCache<Topic, Lately>,
}

#[derive(Debug)]
struct Lately {
    last: Instant,
    messages: Vec<String>,
}

impl Default for Similar {
    fn default() -> Self {
        Self {
            topics: LruCache::new(REMEMBERED),
        }
    }
}

impl Similar {
    /// Reports whether an event of the topic with this message must be combined with others.
    pub(crate) fn is_one_too_many(&mut self, topic: &Topic, message: &str, now: Instant) -> bool {
        let new = || Lately {
            last: now,
            messages: Vec::new(),
        };
        let lately = self.topics.get_or_insert_mut_ref(topic, new);
        if now.saturating_duration_since(lately.last) > SILENCE {
            lately.messages.clear();
        }
        lately.last = now;
        if lately.messages.iter().any(|known| known == message) {
            return false;
        }
        if lately.messages.len() >= AS_THEY_ARE {
            return true;
        }
        lately.messages.push(message.to_owned());
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples::told;

    fn topic(reason: &'static str) -> Topic {
        Topic::of(&told(reason, ""))
    }

    /// Returns the number of new messages that are not combined.
    fn as_they_are(similar: &mut Similar, topic: &Topic, from: usize, now: Instant) -> usize {
        let messages = (from..from + 100).map(|n| format!("message {n}"));
        messages
            .filter(|message| !similar.is_one_too_many(topic, message, now))
            .count()
    }

    #[test]
    fn nine_messages_are_told_as_they_are_and_the_tenth_is_one_too_many() {
        let (mut similar, now, topic) = (Similar::default(), Instant::now(), topic("BackOff"));
        for n in 1..=9 {
            assert!(!similar.is_one_too_many(&topic, &n.to_string(), now));
        }
        assert!(similar.is_one_too_many(&topic, "10", now));
        assert!(similar.is_one_too_many(&topic, "10", now), "again");
    }

    #[test]
    fn a_message_that_was_told_as_it_is_stays_as_it_is() {
        let (mut similar, now, topic) = (Similar::default(), Instant::now(), topic("BackOff"));
        assert_eq!(as_they_are(&mut similar, &topic, 0, now), 9);
        for n in 0..9 {
            assert!(!similar.is_one_too_many(&topic, &format!("message {n}"), now));
        }
    }

    #[test]
    fn each_topic_has_nine_of_its_own() {
        let (mut similar, now) = (Similar::default(), Instant::now());
        for topic in [topic("BackOff"), topic("Killing")] {
            assert_eq!(as_they_are(&mut similar, &topic, 0, now), 9);
        }
    }

    #[test]
    fn a_topic_begins_anew_after_more_than_ten_minutes_of_silence() {
        let (mut similar, start, topic) = (Similar::default(), Instant::now(), topic("BackOff"));
        assert_eq!(as_they_are(&mut similar, &topic, 0, start), 9);
        // The pause is counted from the last message, combined or not.
        let later = start + SILENCE;
        assert_eq!(as_they_are(&mut similar, &topic, 100, later), 0);
        let later = later + SILENCE;
        assert_eq!(as_they_are(&mut similar, &topic, 200, later), 0);
        let later = later + SILENCE + Duration::from_secs(1);
        assert_eq!(as_they_are(&mut similar, &topic, 300, later), 9);
    }

    #[test]
    fn what_was_of_use_longest_ago_is_forgotten_first() {
        let (mut similar, now) = (Similar::default(), Instant::now());
        let topic = |n: usize| Topic::of(&told("BackOff", "").of(&n.to_string()));
        for n in 0..REMEMBERED.get() {
            as_they_are(&mut similar, &topic(n), 0, now);
        }
        assert_eq!(as_they_are(&mut similar, &topic(0), 100, now), 0);
        as_they_are(&mut similar, &topic(REMEMBERED.get()), 0, now);
        assert_eq!(similar.topics.len(), REMEMBERED.get());
        assert_eq!(as_they_are(&mut similar, &topic(0), 200, now), 0);
        assert_eq!(as_they_are(&mut similar, &topic(1), 200, now), 9);
    }
}
