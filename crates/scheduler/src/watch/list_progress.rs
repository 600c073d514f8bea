//! The progress of the lists of the watches. It shows whether every watch has completed its first list.

use std::collections::HashSet;

/// One of the watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Source {
    Clusters,
    Bindings,
    ClusterBindings,
    Quotas,
    ClusterQueues,
    Namespaces,
    Scores,
}

/// The progress of the lists of all watches.
#[derive(Debug)]
pub(crate) struct ListProgress {
    /// Watches without a complete list.
    missing: HashSet<Source>,
}

impl Default for ListProgress {
    /// Creates the progress of the watches of clusters and bindings, which every scheduler has.
    fn default() -> Self {
        Self {
            missing: HashSet::from([Source::Clusters, Source::Bindings, Source::ClusterBindings]),
        }
    }
}

impl ListProgress {
    /// Adds a watch whose list must be complete, too.
    pub(crate) fn expect(&mut self, source: Source) {
        self.missing.insert(source);
    }

    /// Records a complete list of a watch.
    pub(crate) fn complete(&mut self, source: Source) {
        self.missing.remove(&source);
    }

    /// Reports whether every watch has completed at least one list.
    pub(crate) fn all_complete(&self) -> bool {
        self.missing.is_empty()
    }
}
