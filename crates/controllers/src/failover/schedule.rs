//! The schedule of failover: the earliest time at which each binding is examined.

use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use berth_api::BindingKey;

/// Bindings, ordered by the time of their next examination.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    by_time: BTreeMap<(Instant, u64), BindingKey>,
    entries: HashMap<BindingKey, (Instant, u64)>,
    tickets: u64,
}

impl Schedule {
    /// Schedules a binding, unless it is already scheduled for an earlier time.
    pub(super) fn add(&mut self, key: BindingKey, time: Instant) {
        let known = self.entries.get(&key);
        if known.is_some_and(|(known, _)| *known <= time) {
            return;
        }
        self.remove(&key);
        self.tickets += 1;
        self.by_time.insert((time, self.tickets), key.clone());
        self.entries.insert(key, (time, self.tickets));
    }

    /// Removes a binding.
    pub(super) fn remove(&mut self, key: &BindingKey) {
        if let Some(entry) = self.entries.remove(key) {
            self.by_time.remove(&entry);
        }
    }

    /// Returns the earliest scheduled time.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.by_time.first_key_value().map(|((time, _), _)| *time)
    }

    /// Removes and returns the first binding if its time is not after `now`.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<BindingKey> {
        let entry = self.by_time.first_entry()?;
        if entry.key().0 > now {
            return None;
        }
        let key = entry.remove();
        self.entries.remove(&key);
        Some(key)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_binding_is_due_once_at_its_earliest_time() {
        let key = |name: &str| BindingKey::new("n", name);
        let (mut schedule, start) = (Schedule::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        for (name, seconds) in [("a", 3), ("b", 2), ("a", 1), ("b", 5)] {
            schedule.add(key(name), at(seconds));
        }
        assert_eq!(schedule.next_due(), Some(at(1)));
        assert_eq!(schedule.pop_due(start), None);
        assert_eq!(schedule.pop_due(at(9)), Some(key("a")));
        schedule.remove(&key("b"));
        assert_eq!(schedule.pop_due(at(9)), None);
        assert_eq!(schedule.next_due(), None);
    }
}
