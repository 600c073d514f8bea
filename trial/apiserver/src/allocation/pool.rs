//! A pool of the items of a range: node ports or IP addresses. Each item belongs to at most one Service.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::Ipv4Addr;

use crate::store::Key;

/// An item of a range: a node port or an IP address.
pub(super) trait Item: Copy + Eq + Hash + Ord {
    /// Returns the item at the distance `steps` after this item.
    fn plus(self, steps: u32) -> Self;
    /// Returns the distance to a later item.
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

/// Minimum number of items that are allocated last.
const LEAST_RESERVED: u32 = 16;

/// The reason for which an item is not available.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unavailable {
    Taken,
    /// The item is outside of the range. The text describes the range.
    Outside(String),
}

#[derive(Debug)]
pub(super) struct Pool<T> {
    first: T,
    last: T,
    /// The number of items at the start of the range that are allocated last, so that users can choose them.
    reserved_for_requests: u32,
    /// A description of the range for error messages.
    shown: String,
    allocated: HashMap<T, Key>,
    /// Items reserved by running writes, each with the key of its Service and the number of reservations.
    reserved: HashMap<T, (Key, usize)>,
}

impl<T: Item> Pool<T> {
    /// Creates a pool. As in Kubernetes, the first 1/`step` of the range, but at least [`LEAST_RESERVED`] and at most
    /// `most` items, is allocated last.
    pub(super) fn new(
        first: T,
        last: T,
        (step, most): (u32, u32),
        title: &str,
        range: &str,
    ) -> Self {
        let count = first.steps_to(last) + 1;
        let reserved_for_requests = (count / step).clamp(LEAST_RESERVED.min(most), most);
        Self {
            first,
            last,
            reserved_for_requests: reserved_for_requests.min(count),
            shown: format!("The range of valid {title} is {range}"),
            allocated: HashMap::new(),
            reserved: HashMap::new(),
        }
    }

    /// Reserves an item for a Service.
    pub(super) fn reserve_item(&mut self, item: T, key: &Key) -> Result<(), Unavailable> {
        // A Service keeps its stored items, even items outside of the range.
        if self.allocated.get(&item).is_some_and(|owner| owner == key) {
            self.add_reservation(item, key);
            return Ok(());
        }
        if item < self.first || item > self.last {
            return Err(Unavailable::Outside(self.shown.clone()));
        }
        if !self.is_free(item, key) {
            return Err(Unavailable::Taken);
        }
        self.add_reservation(item, key);
        Ok(())
    }

    /// Reserves any free item for a Service. Returns `None` if no item is free.
    pub(super) fn reserve_any(&mut self, key: &Key) -> Option<T> {
        let count = self.first.steps_to(self.last) + 1;
        let (lower, upper) = (
            self.reserved_for_requests,
            count - self.reserved_for_requests,
        );
        let [a, b, c, d, ..] = *uuid::Uuid::new_v4().as_bytes();
        let start = u32::from_be_bytes([a, b, c, d]) % upper.max(1);
        let free =
            |item: &T| !self.allocated.contains_key(item) && !self.reserved.contains_key(item);
        let found = (0..upper)
            .map(|step| lower + (start + step) % upper)
            .chain(0..lower)
            .map(|step| self.first.plus(step))
            .find(free)?;
        self.add_reservation(found, key);
        Some(found)
    }

    /// Removes one reservation of an item.
    pub(super) fn cancel(&mut self, item: T) {
        if let Some((_, times)) = self.reserved.get_mut(&item) {
            *times -= 1;
            if *times == 0 {
                self.reserved.remove(&item);
            }
        }
    }

    pub(super) fn allocate(&mut self, item: T, key: &Key) {
        self.allocated.insert(item, key.clone());
    }

    pub(super) fn release(&mut self, item: T) {
        self.allocated.remove(&item);
    }

    fn is_free(&self, item: T, key: &Key) -> bool {
        let reserved = self.reserved.get(&item);
        !self.allocated.contains_key(&item) && reserved.is_none_or(|(by, _)| by == key)
    }

    fn add_reservation(&mut self, item: T, key: &Key) {
        let (_, times) = self
            .reserved
            .entry(item)
            .or_insert_with(|| (key.clone(), 0));
        *times += 1;
    }
}
