//! What is known of clusters: their objects as expressions see them, and the answers that depend on nothing else.
//! Both last as long as the object.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use berth_api::Cluster;
use berth_core::ClusterView;
use kube_cel::cel::Context;

use super::check::Paths;
use super::functions::Pass;
use super::objects;

/// The clusters that have been looked at, by name, and how long reasons may still be looked for.
#[derive(Default)]
pub(super) struct Known {
    clusters: HashMap<String, KnownCluster>,
    /// Bounds the evaluations for the reasons of the cycle at hand; None before the first of them.
    reasons: Option<Pass>,
}

impl std::fmt::Debug for Known {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Known").field(&self.clusters.len()).finish()
    }
}

/// A cluster that has been looked at.
pub(super) struct KnownCluster {
    /// Whose place in memory is not given to another object as long as this is here.
    object: Weak<Cluster>,
    /// The functions and the variable `cluster`.
    pub(super) scope: Context<'static>,
    /// Answers that the binding has no part in, by the place of the expression.
    pub(super) filter: HashMap<usize, Result<(), Arc<str>>>,
    pub(super) score: HashMap<usize, Result<i64, Arc<str>>>,
}

impl Known {
    /// A cycle begins: none of its reasons has been asked for.
    pub(super) fn begin_cycle(&mut self) {
        self.reasons = None;
    }

    /// What all evaluations for the reasons of a cycle share.
    pub(super) fn reasons(&mut self) -> Pass {
        *self.reasons.get_or_insert_with(Pass::begin)
    }

    /// A cluster, as it is now.
    ///
    /// # Errors
    /// When its object is not there, or cannot be converted.
    pub(super) fn of(
        &mut self,
        view: &ClusterView<'_>,
        reads: &Paths,
    ) -> Result<&mut KnownCluster, String> {
        let object = view
            .object()
            .ok_or("the cluster's object is not there to be read")?;
        let is_new = self
            .clusters
            .get(view.name())
            .is_none_or(|known| !std::ptr::eq(known.object.as_ptr(), Arc::as_ptr(object)));
        if is_new {
            let known = KnownCluster {
                object: Arc::downgrade(object),
                scope: objects::cluster(object, reads)?,
                filter: HashMap::new(),
                score: HashMap::new(),
            };
            self.clusters.insert(view.name().to_owned(), known);
        }
        self.clusters
            .get_mut(view.name())
            .ok_or_else(|| "the cluster was lost".to_owned())
    }

    /// Forgets clusters that are gone, once there are more than `clusters`.
    pub(super) fn tidy(&mut self, clusters: usize) {
        if self.clusters.len() > clusters {
            self.clusters
                .retain(|_, known| known.object.strong_count() > 0);
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.clusters.len()
    }
}
