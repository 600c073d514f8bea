//! What plugins hand on from point to point within a cycle.

use std::any::Any;
use std::fmt;

/// What plugins hand on within one cycle, by type: a plugin keeps a type of its own in it.
///
/// The engine hands it out with the decision, so that what follows the decision can carry it on.
#[derive(Default)]
pub struct CycleState {
    /// Few, if any: one for each plugin that hands something on.
    entries: Vec<Box<dyn Any + Send>>,
}

impl CycleState {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Keeps a value; returns the one of this type that was kept before.
    pub fn insert<T: Any + Send>(&mut self, value: T) -> Option<T> {
        if let Some(kept) = self.get_mut() {
            return Some(std::mem::replace(kept, value));
        }
        self.entries.push(Box::new(value));
        None
    }

    /// The value of this type.
    pub fn get<T: Any + Send>(&self) -> Option<&T> {
        self.entries.iter().find_map(|entry| entry.downcast_ref())
    }

    /// The value of this type, to be changed.
    pub fn get_mut<T: Any + Send>(&mut self) -> Option<&mut T> {
        self.entries
            .iter_mut()
            .find_map(|entry| entry.downcast_mut())
    }

    /// Takes the value of this type out.
    pub fn remove<T: Any + Send>(&mut self) -> Option<T> {
        let place = self.entries.iter().position(|entry| entry.is::<T>())?;
        let value = self.entries.swap_remove(place);
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
    fn values_are_kept_by_type() {
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
