//! The progress of the lists of the watches. It shows whether every watch has completed its first list.

use std::collections::HashSet;

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
    /// Watches with at least one complete list.
    synced: HashSet<Source>,
}

impl ListProgress {
    /// Records a complete list of a watch.
    pub(crate) fn complete(&mut self, source: Source) {
        self.synced.insert(source);
    }

    /// Reports whether every watch has completed at least one list.
    pub(crate) fn all_complete(&self) -> bool {
        self.synced.len() == 3
    }
}
