//! Bindings that wait for their turn to be evicted, first come, first served.

use std::collections::{HashSet, VecDeque};
use std::time::Instant;

use super::pace::Pace;
use crate::binding_key::BindingKey;

/// A line with a pace of its own.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) pace: Pace,
    order: VecDeque<BindingKey>,
    members: HashSet<BindingKey>,
}

impl Line {
    /// An empty one.
    pub(super) fn new(pace: Pace) -> Self {
        Self {
            pace,
            order: VecDeque::new(),
            members: HashSet::new(),
        }
    }

    /// Lets a binding stand in line, if it does not yet.
    pub(super) fn join(&mut self, key: &BindingKey) {
        if self.members.insert(key.clone()) {
            self.order.push_back(key.clone());
        }
    }

    /// The next one, which leaves the line.
    pub(super) fn call(&mut self) -> Option<BindingKey> {
        let key = self.order.pop_front()?;
        self.members.remove(&key);
        Some(key)
    }

    /// When the next one may be called; nothing where nobody waits.
    pub(super) fn opens(&self, now: Instant) -> Option<Instant> {
        (!self.order.is_empty()).then(|| self.pace.wait(now).unwrap_or(now))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn key(name: &str) -> BindingKey {
        BindingKey {
            namespace: "n".to_owned(),
            name: name.to_owned(),
        }
    }

    #[test]
    fn each_is_called_once_and_in_turn() {
        let (mut line, now) = (Line::new(Pace::new(Duration::from_secs(2))), Instant::now());
        assert_eq!(line.opens(now), None);
        for name in ["b", "a", "b"] {
            line.join(&key(name));
        }
        assert_eq!(line.opens(now), Some(now));
        line.pace.take(now);
        assert_eq!(line.opens(now), Some(now + Duration::from_secs(2)));
        assert_eq!(line.call(), Some(key("b")));
        assert_eq!(line.call(), Some(key("a")));
        assert_eq!(line.call(), None);
    }
}
