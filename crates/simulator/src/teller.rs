//! Who tells of what was done. Of a controller that makes a thousand pods nobody reads a thousand events: what differs from
//! others by its message alone is told ten times, and counted after that, as client-go does it.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use berth_events::{EventRecorder, Happening};

use crate::telling::Told;

/// So many messages of a kind are told one by one.
const ONE_BY_ONE: usize = 10;
/// What was told before that does not count.
const SPAN: Duration = Duration::from_mins(10);
/// How many kinds of messages are remembered.
const REMEMBERED: usize = 4096;

/// Tells.
pub(crate) struct Teller {
    recorder: EventRecorder,
    similar: Similar,
}

impl Teller {
    pub(crate) fn new(recorder: EventRecorder) -> Self {
        Self {
            recorder,
            similar: Similar::default(),
        }
    }

    /// Says whether there is more urgent work under way.
    pub(crate) fn set_busy(&self, busy: bool) {
        self.recorder.set_busy(busy);
    }

    pub(crate) fn tell(&mut self, told: Vec<Told>) {
        for Told { by, mut happening } in told {
            self.similar.combine(&mut happening, jiff::Timestamp::now());
            self.recorder.of(by).record(happening);
        }
    }
}

/// Messages that have the object, the severity and the reason in common.
struct Kind {
    since: jiff::Timestamp,
    messages: HashSet<String>,
    /// What stands for all that came after those.
    combined: Option<String>,
}

/// What was told lately.
#[derive(Default)]
struct Similar {
    kinds: HashMap<(String, bool, &'static str), Kind>,
}

impl Similar {
    /// Gives the message of one too many like it another one, always the same.
    fn combine(&mut self, happening: &mut Happening, now: jiff::Timestamp) {
        let uid = happening.object.uid.clone().unwrap_or_default();
        let is_good = happening.severity == berth_events::Severity::Normal;
        let key = (uid, is_good, happening.reason);
        let is_old = |kind: &Kind| now.duration_since(kind.since).unsigned_abs() > SPAN;
        if self.kinds.len() >= REMEMBERED && !self.kinds.contains_key(&key) {
            self.kinds.retain(|_, kind| !is_old(kind));
            if self.kinds.len() >= REMEMBERED {
                self.kinds.clear();
            }
        }
        let new = || Kind {
            since: now,
            messages: HashSet::new(),
            combined: None,
        };
        let kind = self.kinds.entry(key).or_insert_with(new);
        if is_old(kind) {
            *kind = new();
        }
        kind.since = now;
        if kind.messages.contains(&happening.message) {
            return;
        }
        if kind.messages.len() < ONE_BY_ONE {
            kind.messages.insert(happening.message.clone());
            return;
        }
        let message = &happening.message;
        let combined = kind
            .combined
            .get_or_insert_with(|| format!("(combined from similar events): {message}"));
        happening.message.clone_from(combined);
    }
}

#[cfg(test)]
mod tests {
    use berth_events::Severity;
    use k8s_openapi::api::core::v1::ObjectReference;

    use super::*;

    fn told(similar: &mut Similar, uid: &str, message: String, second: i64) -> String {
        let mut happening = Happening {
            object: ObjectReference {
                uid: Some(uid.to_owned()),
                ..ObjectReference::default()
            },
            severity: Severity::Normal,
            reason: "SuccessfulCreate",
            message,
        };
        let now = jiff::Timestamp::from_second(second).unwrap();
        similar.combine(&mut happening, now);
        happening.message
    }

    #[test]
    fn ten_are_told_one_by_one_and_the_others_together() {
        let mut similar = Similar::default();
        let all: HashSet<String> = (0..1000)
            .map(|n| told(&mut similar, "a", format!("Created pod: {n}"), 0))
            .collect();
        assert_eq!(all.len(), 11);
        assert!(all.contains("(combined from similar events): Created pod: 10"));
        // What was told is told again as it was, and others have their own ten.
        assert_eq!(
            told(&mut similar, "a", "Created pod: 3".to_owned(), 1),
            "Created pod: 3"
        );
        assert_eq!(
            told(&mut similar, "b", "Created pod: x".to_owned(), 1),
            "Created pod: x"
        );
        // After a while it begins anew.
        assert_eq!(
            told(&mut similar, "a", "Created pod: y".to_owned(), 700),
            "Created pod: y"
        );
    }

    #[test]
    fn not_everything_is_remembered() {
        let mut similar = Similar::default();
        for n in 0..=REMEMBERED {
            told(&mut similar, &n.to_string(), "x".to_owned(), 0);
        }
        assert!(similar.kinds.len() <= REMEMBERED);
    }
}
