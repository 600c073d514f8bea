//! State that plugins pass from one extension point to the next within a scheduling cycle.

use std::any::Any;
use std::fmt;

/// The values that plugins store within one scheduling cycle, keyed by type. Each plugin uses its own type.
///
/// Each attempt of the engine starts with an empty state. The engine returns the state of the last attempt with the
/// decision, so that plugins can read it at the points that the scheduler runs afterwards.
#[derive(Default)]
pub struct CycleState {
    /// The values, at most one of each type. There are few values, so a list is sufficient.
    entries: Vec<Box<dyn Any + Send>>,
}

impl CycleState {
    /// Creates an empty state.
    pub fn new() -> Self {
        Self::default()
    }

    /// Stores a value. Returns the previous value of the same type.
    pub fn insert<T: Any + Send>(&mut self, value: T) -> Option<T> {
        if let Some(kept) = self.get_mut() {
            return Some(std::mem::replace(kept, value));
        }
        self.entries.push(Box::new(value));
        None
    }

    /// Returns the value of this type.
    pub fn get<T: Any + Send>(&self) -> Option<&T> {
        self.entries.iter().find_map(|entry| entry.downcast_ref())
    }

    /// Returns a mutable reference to the value of this type.
    pub fn get_mut<T: Any + Send>(&mut self) -> Option<&mut T> {
        self.entries
            .iter_mut()
            .find_map(|entry| entry.downcast_mut())
    }

    /// Removes and returns the value of this type.
    pub fn remove<T: Any + Send>(&mut self) -> Option<T> {
        let index = self.entries.iter().position(|entry| entry.is::<T>())?;
        let value = self.entries.swap_remove(index);
        value.downcast().ok().map(|value| *value)
    }
}

impl fmt::Debug for CycleState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CycleState")
            .field("entries", &self.entries.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_stored_by_type() {
        #[derive(Debug, PartialEq)]
        struct Count(u32);
        let mut state = CycleState::new();
        assert_eq!(state.get::<Count>(), None);
        assert_eq!(state.insert(Count(1)), None);
        assert_eq!(state.insert("text"), None);
        assert_eq!(state.insert(Count(2)), Some(Count(1)));
        if let Some(count) = state.get_mut::<Count>() {
            count.0 += 1;
        }
        assert_eq!(state.get(), Some(&Count(3)));
        assert_eq!(state.get(), Some(&"text"));
        assert_eq!(state.remove(), Some(Count(3)));
        assert_eq!(state.remove::<Count>(), None);
    }
}
