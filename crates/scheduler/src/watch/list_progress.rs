//! Progress of the initial lists of the watches, and the objects that a new list no longer contains.

use std::collections::{HashMap, HashSet};

/// One of the three watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Source {
    Clusters,
    Bindings,
    ClusterBindings,
}

/// Progress of the watches' lists.
#[derive(Debug, Default)]
pub(crate) struct ListProgress {
    /// Names in the lists that are not complete yet.
    listed: HashMap<Source, HashSet<String>>,
    /// Watches with at least one complete list.
    synced: HashSet<Source>,
}

impl ListProgress {
    pub(crate) fn start(&mut self, source: Source) {
        self.listed.insert(source, HashSet::new());
    }

    /// Adds a name to the current list, if any.
    pub(crate) fn add(&mut self, source: Source, name: impl FnOnce() -> String) {
        if let Some(names) = self.listed.get_mut(&source) {
            names.insert(name());
        }
    }

    /// Completes a list and returns its names.
    pub(crate) fn complete(&mut self, source: Source) -> HashSet<String> {
        self.synced.insert(source);
        self.listed.remove(&source).unwrap_or_default()
    }

    /// Reports whether every watch has completed a list.
    pub(crate) fn all_complete(&self) -> bool {
        self.synced.len() == 3
    }
}
