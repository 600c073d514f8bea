//! A range of things, each of which belongs to at most one service.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::Ipv4Addr;

use crate::store::Key;

/// What a range consists of.
pub(super) trait Item: Copy + Eq + Hash + Ord {
    /// So many steps behind this one.
    fn plus(self, steps: u32) -> Self;
    /// How many steps lead to another one.
    fn steps_to(self, other: Self) -> u32;
}

impl Item for i64 {
    fn plus(self, steps: u32) -> Self {
        self + Self::from(steps)
    }

    fn steps_to(self, other: Self) -> u32 {
        u32::try_from(other - self).unwrap_or(0)
    }
}

impl Item for Ipv4Addr {
    fn plus(self, steps: u32) -> Self {
        Self::from_bits(self.to_bits().saturating_add(steps))
    }

    fn steps_to(self, other: Self) -> u32 {
        other.to_bits().saturating_sub(self.to_bits())
    }
}

/// Why something cannot be had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refusal {
    Taken,
    /// It is not of the range, and what is.
    Outside(String),
}

#[derive(Debug)]
pub(super) struct Pool<T> {
    first: T,
    last: T,
    /// What the items are called, and how the range is written.
    shown: String,
    holders: HashMap<T, Key>,
    /// What is asked for by writes under way: by whom, and by how many of them.
    asked: HashMap<T, (Key, usize)>,
}

impl<T: Item> Pool<T> {
    pub(super) fn new(first: T, last: T, title: &str, range: &str) -> Self {
        Self {
            first,
            last,
            shown: format!("The range of valid {title} is {range}"),
            holders: HashMap::new(),
            asked: HashMap::new(),
        }
    }

    /// Sets an item aside.
    pub(super) fn ask(&mut self, item: T, key: &Key) -> Result<(), Refusal> {
        // A service keeps what it has, wherever that came from.
        if self.holders.get(&item).is_some_and(|holder| holder == key) {
            self.note(item, key);
            return Ok(());
        }
        if item < self.first || item > self.last {
            return Err(Refusal::Outside(self.shown.clone()));
        }
        if !self.is_free(item, key) {
            return Err(Refusal::Taken);
        }
        self.note(item, key);
        Ok(())
    }

    /// Sets any free item aside.
    pub(super) fn any(&mut self, key: &Key) -> Option<T> {
        let count = self.first.steps_to(self.last) + 1;
        let [a, b, c, d, ..] = *uuid::Uuid::new_v4().as_bytes();
        let start = u32::from_be_bytes([a, b, c, d]) % count;
        let free = |item: &T| !self.holders.contains_key(item) && !self.asked.contains_key(item);
        let found = (0..count)
            .map(|step| self.first.plus((start + step) % count))
            .find(free)?;
        self.note(found, key);
        Some(found)
    }

    /// Ends what [`Self::ask`] or [`Self::any`] began.
    pub(super) fn give_back(&mut self, item: T) {
        if let Some((_, times)) = self.asked.get_mut(&item) {
            *times -= 1;
            if *times == 0 {
                self.asked.remove(&item);
            }
        }
    }

    pub(super) fn hold(&mut self, item: T, key: &Key) {
        self.holders.insert(item, key.clone());
    }

    pub(super) fn release(&mut self, item: T) {
        self.holders.remove(&item);
    }

    fn is_free(&self, item: T, key: &Key) -> bool {
        let asked = self.asked.get(&item);
        !self.holders.contains_key(&item) && asked.is_none_or(|(by, _)| by == key)
    }

    fn note(&mut self, item: T, key: &Key) {
        let (_, times) = self.asked.entry(item).or_insert_with(|| (key.clone(), 0));
        *times += 1;
    }
}
