//! A cache of clusters as CEL values, and of the results of expressions that do not read the binding. An entry is valid
//! until its Cluster object changes. If an expression reads scores, an entry is also valid only until a score changes or
//! expires, and if an expression reads the age of a score, only in the same second.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Weak};

use berth_api::Cluster;
use berth_api::cluster_score::ClusterScores;
use berth_cel::Scope;
use berth_engine::ClusterView;
use k8s_openapi::jiff::Timestamp;

use super::budget::Budget;
use super::check::{Paths, ReadScores};
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
    /// The scores from which the entry was made, or `None` if no expression reads scores.
    scores: Option<CachedScores>,
    /// The CEL scope with the functions and the variable `cluster`.
    pub(crate) scope: Scope<'static>,
    /// Results of the filter expressions that do not read the binding, by the index of the expression.
    pub(crate) filter: HashMap<usize, Result<(), Arc<str>>>,
    pub(crate) score: HashMap<usize, Result<i64, Arc<str>>>,
}

/// The version of the scores in a cached cluster.
struct CachedScores {
    /// A weak reference to the scores, or `None` if the cluster has none.
    scores: Option<Weak<ClusterScores>>,
    /// The period in which no score expires.
    period: Range<Timestamp>,
    /// The second for which the ages were computed, or `None` if no expression reads an age.
    second: Option<i64>,
}

impl CachedScores {
    /// Returns the version at a time, or `None` if no expression reads scores.
    fn new(view: &ClusterView<'_>, reads: &Paths, now: Timestamp) -> Option<Self> {
        if matches!(reads.scores(), ReadScores::Named(names) if names.is_empty()) {
            return None;
        }
        let scores = view.scores();
        Some(Self {
            scores: scores.map(Arc::downgrade),
            period: scores.map_or(Timestamp::MIN..Timestamp::MAX, |scores| {
                scores.unchanged_period(now)
            }),
            second: reads.reads_age().then_some(now.as_second()),
        })
    }

    fn is_current(&self, view: &ClusterView<'_>, now: Timestamp) -> bool {
        let same_scores = match (&self.scores, view.scores()) {
            (Some(cached), Some(scores)) => std::ptr::eq(cached.as_ptr(), Arc::as_ptr(scores)),
            (None, None) => true,
            _ => false,
        };
        same_scores
            && self.period.contains(&now)
            && self.second.is_none_or(|second| second == now.as_second())
    }
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

    /// Returns a cached cluster for a decision at `now`. Converts its object and scores if they are new or have changed.
    ///
    /// # Errors
    /// If the object is missing or cannot be converted.
    pub(crate) fn get(
        &mut self,
        view: &ClusterView<'_>,
        reads: &Paths,
        now: Timestamp,
    ) -> Result<&mut CachedCluster, String> {
        let object = view.object().ok_or("the cluster's object is missing")?;
        let is_current = |cached: &CachedCluster| {
            std::ptr::eq(cached.object.as_ptr(), Arc::as_ptr(object))
                && cached
                    .scores
                    .as_ref()
                    .is_none_or(|scores| scores.is_current(view, now))
        };
        if !self.clusters.get(view.name()).is_some_and(is_current) {
            let scores = CachedScores::new(view, reads, now);
            let read = scores.as_ref().and_then(|_| view.scores());
            let cached = CachedCluster {
                object: Arc::downgrade(object),
                scope: objects::cluster(object, read.map(|scores| &**scores), now, reads)?,
                scores,
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
