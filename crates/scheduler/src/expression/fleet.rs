//! What is known of clusters: their objects as expressions see them, and the answers that depend on nothing else.
//! Both last as long as the object.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use berth_api::Cluster;
use berth_core::ClusterView;
use kube_cel::cel::Context;

use super::objects;
use super::program::Paths;

/// The clusters that have been looked at, by name.
#[derive(Default)]
pub(super) struct Known(HashMap<String, KnownCluster>);

impl std::fmt::Debug for Known {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Known").field(&self.0.len()).finish()
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
            .0
            .get(view.name())
            .is_none_or(|known| !std::ptr::eq(known.object.as_ptr(), Arc::as_ptr(object)));
        if is_new {
            let known = KnownCluster {
                object: Arc::downgrade(object),
                scope: objects::cluster(object, reads)?,
                filter: HashMap::new(),
                score: HashMap::new(),
            };
            self.0.insert(view.name().to_owned(), known);
        }
        self.0
            .get_mut(view.name())
            .ok_or_else(|| "the cluster was lost".to_owned())
    }

    /// Forgets clusters that are gone, once there are more than `clusters`.
    pub(super) fn tidy(&mut self, clusters: usize) {
        if self.0.len() > clusters {
            self.0.retain(|_, known| known.object.strong_count() > 0);
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}
