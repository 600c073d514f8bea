//! Columns of the table of nodes. Each node has a slot, which is its index in all columns.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

/// Index of a node in the columns.
pub(super) type Slot = usize;

/// The identifier of an absent value.
const ABSENT: u32 = 0;

/// A column of values that many nodes share, such as the values of a label. Equal values are stored once, so that a
/// condition is evaluated once for each distinct value.
#[derive(Debug)]
pub(super) struct ValueColumn<V> {
    identifiers: HashMap<Arc<V>, u32>,
    /// The distinct values with their numbers of nodes, by identifier. Index [`ABSENT`] is unused.
    values: Vec<Option<(Arc<V>, usize)>>,
    free: Vec<u32>,
    by_slot: Vec<u32>,
}

impl<V> Default for ValueColumn<V> {
    fn default() -> Self {
        Self {
            identifiers: HashMap::new(),
            values: vec![None],
            free: Vec::new(),
            by_slot: Vec::new(),
        }
    }
}

impl<V: Eq + Hash> ValueColumn<V> {
    /// Sets or removes the value of a node.
    pub(super) fn set(&mut self, slot: Slot, value: Option<V>) {
        let identifier = value.map_or(ABSENT, |value| self.acquire(value));
        if self.by_slot.len() <= slot {
            self.by_slot.resize(slot + 1, ABSENT);
        }
        let previous = std::mem::replace(&mut self.by_slot[slot], identifier);
        self.release(previous);
    }

    /// Returns the value of a node.
    pub(super) fn get(&self, slot: Slot) -> Option<&V> {
        let identifier = *self.by_slot.get(slot)?;
        let (value, _) = self.values[identifier as usize].as_ref()?;
        Some(value)
    }

    /// Reports whether no node has a value.
    pub(super) fn is_empty(&self) -> bool {
        self.identifiers.is_empty()
    }

    /// Removes the nodes from a selection whose value does not satisfy the condition. `None` stands for an absent
    /// value.
    pub(super) fn restrict(&self, selection: &mut [bool], condition: impl Fn(Option<&V>) -> bool) {
        let verdicts: Vec<bool> = self
            .values
            .iter()
            .map(|entry| condition(entry.as_ref().map(|(value, _)| &**value)))
            .collect();
        for (slot, is_selected) in selection.iter_mut().enumerate() {
            let identifier = self.by_slot.get(slot).copied().unwrap_or(ABSENT);
            *is_selected &= verdicts[identifier as usize];
        }
    }

    fn acquire(&mut self, value: V) -> u32 {
        if let Some(identifier) = self.identifiers.get(&value).copied() {
            if let Some((_, nodes)) = &mut self.values[identifier as usize] {
                *nodes += 1;
            }
            return identifier;
        }
        let value = Arc::new(value);
        let entry = Some((Arc::clone(&value), 1));
        let identifier = if let Some(identifier) = self.free.pop() {
            self.values[identifier as usize] = entry;
            identifier
        } else {
            self.values.push(entry);
            u32::try_from(self.values.len() - 1).unwrap_or(u32::MAX)
        };
        self.identifiers.insert(value, identifier);
        identifier
    }

    fn release(&mut self, identifier: u32) {
        let entry = &mut self.values[identifier as usize];
        if let Some((value, nodes)) = entry {
            *nodes -= 1;
            if *nodes == 0 {
                self.identifiers.remove(value);
                *entry = None;
                self.free.push(identifier);
            }
        }
    }
}

/// A column of the allocatable and the requested amounts of a resource.
#[derive(Debug, Default)]
pub(super) struct ResourceColumn {
    by_slot: Vec<Amount>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Amount {
    allocatable: i64,
    requested: i64,
}

impl ResourceColumn {
    /// Returns the free amount of a node without some of its requests. It is at least 0.
    pub(super) fn free_without(&self, slot: Slot, requests: i64) -> i64 {
        let amount = self.by_slot.get(slot).copied().unwrap_or_default();
        let requested = amount.requested.saturating_sub(requests);
        amount.allocatable.saturating_sub(requested).max(0)
    }

    /// Reports whether a node has any of the resource, free or not.
    pub(super) fn has_allocatable(&self, slot: Slot) -> bool {
        let amount = self.by_slot.get(slot);
        amount.is_some_and(|amount| amount.allocatable > 0)
    }

    pub(super) fn set_allocatable(&mut self, slot: Slot, allocatable: i64) {
        self.amount(slot).allocatable = allocatable;
    }

    pub(super) fn add_requested(&mut self, slot: Slot, requested: i64) {
        let amount = self.amount(slot);
        amount.requested = amount.requested.saturating_add(requested);
    }

    pub(super) fn clear(&mut self, slot: Slot) {
        if let Some(amount) = self.by_slot.get_mut(slot) {
            *amount = Amount::default();
        }
    }

    fn amount(&mut self, slot: Slot) -> &mut Amount {
        if self.by_slot.len() <= slot {
            self.by_slot.resize(slot + 1, Amount::default());
        }
        &mut self.by_slot[slot]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_no_node_are_forgotten() {
        let mut column = ValueColumn::default();
        for round in 0..100 {
            column.set(3, Some(round));
            column.set(1, Some(round));
        }
        assert_eq!((column.get(1), column.get(0)), (Some(&99), None));
        assert!(column.values.len() <= 3, "{}", column.values.len());
        column.set(1, None);
        column.set(3, None);
        assert!(column.is_empty());
    }

    #[test]
    fn conditions_also_apply_to_absent_values() {
        let mut column = ValueColumn::default();
        column.set(1, Some("a"));
        column.set(2, Some("b"));
        let selected = |condition: fn(Option<&&str>) -> bool| {
            let mut selection = vec![true, true, true, true];
            selection[2] = false;
            column.restrict(&mut selection, condition);
            selection
        };
        assert_eq!(
            selected(|value| value == Some(&"a")),
            [false, true, false, false]
        );
        assert_eq!(
            selected(|value| value.is_none()),
            [true, false, false, true]
        );
    }
}
