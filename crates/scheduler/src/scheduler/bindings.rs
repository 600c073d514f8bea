//! The store of the scheduler task: the latest known state of each binding, and whether a write of the binding is
//! unfinished.

use std::collections::HashMap;
use std::sync::Arc;

use berth_api::{Binding, BindingKey, BindingKind};
use berth_component_base::list_watch::Listing;

use crate::raw_binding::RawBinding;

/// The latest known states of bindings, by key.
#[derive(Debug, Default)]
pub(super) struct Bindings(HashMap<BindingKey, Entry>);

#[derive(Debug)]
struct Entry {
    binding: Arc<Binding>,
    /// Newest generation that a write of this scheduler produced.
    own_generation: i64,
    /// True while a plan of the binding is being written.
    writing: bool,
    /// Newest watch event that arrived during the write.
    pending: Option<RawBinding>,
}

/// Effect of [`Bindings::apply`].
#[derive(Debug)]
pub(super) enum AppliedBinding {
    /// The binding is new.
    Added(Arc<Binding>),
    /// The binding replaced an older state.
    Changed {
        old: Arc<Binding>,
        new: Arc<Binding>,
    },
    /// The known state is newer, so it was kept.
    Outdated,
}

impl Bindings {
    /// Returns a binding.
    pub(super) fn get(&self, key: &BindingKey) -> Option<&Arc<Binding>> {
        self.0.get(key).map(|entry| &entry.binding)
    }

    /// Returns all bindings.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&BindingKey, &Arc<Binding>)> {
        self.0.iter().map(|(key, entry)| (key, &entry.binding))
    }

    /// Returns the number of bindings.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the newest generation of a binding that a write of this scheduler produced.
    pub(super) fn own_generation(&self, key: &BindingKey) -> i64 {
        self.0.get(key).map_or(0, |entry| entry.own_generation)
    }

    /// Returns a watch event if it must be decoded now. Drops an outdated event. An event during a write most likely
    /// results from this write, so it stays undecoded until [`Self::end_write`].
    pub(super) fn receive(&mut self, key: &BindingKey, raw: RawBinding) -> Option<RawBinding> {
        let Some(entry) = self.0.get_mut(key) else {
            return Some(raw);
        };
        if raw.is_outdated_by(&entry.binding) {
            return None;
        }
        if entry.writing {
            entry.pending = Some(raw);
            return None;
        }
        Some(raw)
    }

    /// Marks a binding as being written.
    pub(super) fn begin_write(&mut self, key: &BindingKey) {
        if let Some(entry) = self.0.get_mut(key) {
            entry.writing = true;
        }
    }

    /// Ends a write and returns the newest watch event that arrived during the write.
    pub(super) fn end_write(&mut self, key: &BindingKey) -> Option<RawBinding> {
        let entry = self.0.get_mut(key)?;
        entry.writing = false;
        entry.pending.take()
    }

    /// Reports whether a binding is at least as new as its known state.
    pub(super) fn is_news(&self, binding: &Binding) -> bool {
        self.get(&binding.key)
            .is_none_or(|stored| binding.at_least_as_new_as(stored))
    }

    /// Adds or replaces a binding, unless the known state is newer. `own_generation` is the generation that a
    /// write of this scheduler produced, or 0.
    pub(super) fn apply(&mut self, binding: Binding, own_generation: i64) -> AppliedBinding {
        let Some(entry) = self.0.get_mut(&binding.key) else {
            let binding = Arc::new(binding);
            self.0.insert(
                binding.key.clone(),
                Entry {
                    binding: Arc::clone(&binding),
                    own_generation,
                    writing: false,
                    pending: None,
                },
            );
            return AppliedBinding::Added(binding);
        };
        if entry.binding.metadata.uid == binding.metadata.uid {
            entry.own_generation = entry.own_generation.max(own_generation);
        } else {
            entry.own_generation = own_generation;
        }
        if !binding.at_least_as_new_as(&entry.binding) {
            return AppliedBinding::Outdated;
        }
        let new = Arc::new(binding);
        let old = std::mem::replace(&mut entry.binding, Arc::clone(&new));
        AppliedBinding::Changed { old, new }
    }

    /// Removes a deleted binding.
    pub(super) fn remove(&mut self, key: &BindingKey) -> Option<Arc<Binding>> {
        self.0.remove(key).map(|entry| entry.binding)
    }

    /// Returns the known bindings of one kind that a complete list does not contain.
    pub(super) fn missing_from(&self, listing: &Listing, kind: BindingKind) -> Vec<BindingKey> {
        self.0
            .keys()
            .filter(|key| {
                let namespace = key.namespace.as_deref().unwrap_or_default();
                key.kind() == kind && !listing.contains(namespace, &key.name)
            })
            .cloned()
            .collect()
    }
}
