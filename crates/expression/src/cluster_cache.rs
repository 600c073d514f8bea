//! A cache of clusters as CEL values, and of the results of expressions that do not read the binding. An entry is valid
//! until its Cluster object changes.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use berth_api::Cluster;
use berth_cel::Scope;
use berth_engine::ClusterView;

use super::budget::Budget;
use super::check::Paths;
use super::objects;

/// The cached clusters by name, and the time budget for reasons. A reason explains why a cluster does not pass the
/// filters.
#[derive(Default)]
pub(crate) struct ClusterCache {
    clusters: HashMap<String, CachedCluster>,
    /// The time budget of all evaluations that produce reasons in the current cycle, or `None` before the first such
    /// evaluation.
    reasons: Option<Budget>,
}

impl std::fmt::Debug for ClusterCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ClusterCache")
            .field(&self.clusters.len())
            .finish()
    }
}

/// A cached cluster.
pub(crate) struct CachedCluster {
    /// A weak reference to the converted object. No other object can have the same address while this reference exists.
    object: Weak<Cluster>,
    /// The CEL scope with the functions and the variable `cluster`.
    pub(crate) scope: Scope<'static>,
    /// Results of the filter expressions that do not read the binding, by the index of the expression.
    pub(crate) filter: HashMap<usize, Result<(), Arc<str>>>,
    pub(crate) score: HashMap<usize, Result<i64, Arc<str>>>,
}

impl ClusterCache {
    /// Resets the time budget for reasons.
    pub(crate) fn begin_cycle(&mut self) {
        self.reasons = None;
    }

    /// Returns the time budget for reasons in the current cycle. The first call of a cycle starts the time.
    pub(crate) fn reasons_budget(&mut self) -> Budget {
        *self.reasons.get_or_insert_with(Budget::begin)
    }

    /// Returns a cached cluster. Converts its object if the object is new or has changed.
    ///
    /// # Errors
    /// If the object is missing or cannot be converted.
    pub(crate) fn get(
        &mut self,
        view: &ClusterView<'_>,
        reads: &Paths,
    ) -> Result<&mut CachedCluster, String> {
        let object = view.object().ok_or("the cluster's object is missing")?;
        let is_stale = self
            .clusters
            .get(view.name())
            .is_none_or(|cached| !std::ptr::eq(cached.object.as_ptr(), Arc::as_ptr(object)));
        if is_stale {
            let cached = CachedCluster {
                object: Arc::downgrade(object),
                scope: objects::cluster(object, reads)?,
                filter: HashMap::new(),
                score: HashMap::new(),
            };
            self.clusters.insert(view.name().to_owned(), cached);
        }
        self.clusters
            .get_mut(view.name())
            .ok_or_else(|| "the cluster is not cached".to_owned())
    }

    /// Removes the clusters that no longer exist if the cache has more than `clusters` entries.
    pub(crate) fn drop_removed(&mut self, clusters: usize) {
        if self.clusters.len() > clusters {
            self.clusters
                .retain(|_, cached| cached.object.strong_count() > 0);
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.clusters.len()
    }
}
