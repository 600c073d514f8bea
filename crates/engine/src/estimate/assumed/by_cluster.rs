//! The corrections of each cluster, in a map that is cheap to clone and to change.
//!
//! The scheduler keeps the corrections of the last decisions, and changes them after each decision. A change therefore
//! copies only the shard of its cluster.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Adjustments;

/// The number of shards: a fleet of 5,000 clusters has 80 clusters in each of them.
const SHARDS: usize = 64;

type Shard = Arc<BTreeMap<Arc<str>, Arc<Adjustments>>>;

/// Corrections by the name of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ByCluster {
    /// The shards, or nothing as long as there are no corrections.
    shards: Vec<Shard>,
}

/// Returns the shard of a cluster.
fn shard_of(cluster: &str) -> usize {
    let bytes = cluster.bytes();
    let hash = bytes.fold(0_usize, |hash, byte| {
        hash.wrapping_mul(31).wrapping_add(usize::from(byte))
    });
    hash % SHARDS
}

impl ByCluster {
    /// Returns the corrections of a cluster, to change them.
    pub(super) fn entry(&mut self, cluster: &str) -> &mut Adjustments {
        if self.shards.is_empty() {
            self.shards = vec![Shard::default(); SHARDS];
        }
        let shard = Arc::make_mut(&mut self.shards[shard_of(cluster)]);
        Arc::make_mut(shard.entry(cluster.into()).or_default())
    }

    /// Returns the corrections of a cluster.
    pub(super) fn get(&self, cluster: &str) -> Option<&Adjustments> {
        let shard = self.shards.get(shard_of(cluster))?;
        shard.get(cluster).map(|adjustments| &**adjustments)
    }

    /// Removes a cluster without corrections.
    pub(super) fn remove_if_empty(&mut self, cluster: &str) {
        let is_empty = self
            .get(cluster)
            .is_some_and(|adjustments| adjustments.is_empty() && adjustments.on_nodes.is_none());
        if is_empty && let Some(shard) = self.shards.get_mut(shard_of(cluster)) {
            Arc::make_mut(shard).remove(cluster);
        }
        if self.is_empty() {
            self.shards.clear();
        }
    }

    /// Reports whether there are no corrections.
    pub(super) fn is_empty(&self) -> bool {
        self.shards.iter().all(|shard| shard.is_empty())
    }

    /// Returns all corrections, sorted by cluster.
    pub(super) fn sorted(&self) -> Vec<(&str, &Adjustments)> {
        let all = self.shards.iter().flat_map(|shard| shard.iter());
        let mut all: Vec<_> = all
            .map(|(name, adjustments)| (&**name, &**adjustments))
            .collect();
        all.sort_unstable_by_key(|(name, _)| *name);
        all
    }
}
