//! The progress of the lists of the watches. It shows whether every watch has completed its first list, and which
//! objects a complete list contains.

use std::collections::{HashMap, HashSet};

/// One of the three watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Source {
    Clusters,
    Bindings,
    ClusterBindings,
}

/// The progress of the lists of all watches.
#[derive(Debug, Default)]
pub(crate) struct ListProgress {
    /// Names in each list that is not complete yet.
    listed: HashMap<Source, HashSet<String>>,
    /// Watches with at least one complete list.
    synced: HashSet<Source>,
}

impl ListProgress {
    pub(crate) fn start(&mut self, source: Source) {
        self.listed.insert(source, HashSet::new());
    }

    /// Adds a name to the current list of a watch. Has no effect after the list is complete.
    pub(crate) fn add(&mut self, source: Source, name: impl FnOnce() -> String) {
        if let Some(names) = self.listed.get_mut(&source) {
            names.insert(name());
        }
    }

    /// Completes the current list of a watch, and returns the names in this list.
    pub(crate) fn complete(&mut self, source: Source) -> HashSet<String> {
        self.synced.insert(source);
        self.listed.remove(&source).unwrap_or_default()
    }

    /// Reports whether every watch has completed at least one list.
    pub(crate) fn all_complete(&self) -> bool {
        self.synced.len() == 3
    }
}
