//! Blocks of clusters in a snapshot: their records, and their free capacity in columns. Blocks change often.
//!
//! Clusters with consecutive ordinals form a block. A block has a column of integers for each resource. The lane of a
//! cluster is its index in these columns. After a change of a cluster, the next snapshot copies only the block of this
//! cluster.

use std::sync::Arc;

use berth_api::node_resources::in_units;

use super::capacity::Models;
use super::row::Row;

/// The number of clusters in a block.
pub(crate) const BLOCK: usize = 128;

/// The index of a resource's column in the blocks of a snapshot.
pub(crate) type ResourceId = usize;

/// The rows of up to [`BLOCK`] clusters with consecutive ordinals.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub(crate) rows: Vec<Arc<Row>>,
    /// The free pods of each cluster, at least 0.
    pub(crate) pods: [i64; BLOCK],
    /// The free amounts: one column for each [`ResourceId`]. Amounts are at least 0. They are in thousandths for cpu,
    /// and in whole units for other resources.
    pub(crate) free: Vec<[i64; BLOCK]>,
    /// The clusters that report node pools or resource models. The bit of a cluster is at its lane.
    pub(crate) reports_nodes: u128,
}

impl Block {
    pub(crate) fn new(rows: Vec<Arc<Row>>, resource: impl Fn(&str) -> Option<ResourceId>) -> Self {
        let mut block = Self {
            pods: [0; BLOCK],
            free: Vec::new(),
            reports_nodes: 0,
            rows: Vec::new(),
        };
        for (lane, row) in rows.iter().enumerate() {
            block.fill(lane, row, &resource);
        }
        block.rows = rows;
        block
    }

    /// Replaces the row of a changed cluster.
    pub(crate) fn replace(
        &mut self,
        lane: usize,
        row: Arc<Row>,
        resource: impl Fn(&str) -> Option<ResourceId>,
    ) {
        self.fill(lane, &row, &resource);
        if let Some(current) = self.rows.get_mut(lane) {
            *current = row;
        }
    }

    fn fill(&mut self, lane: usize, row: &Row, resource: &impl Fn(&str) -> Option<ResourceId>) {
        let capacity = &row.capacity;
        self.pods[lane] = capacity.pods.unwrap_or(0).max(0);
        for column in &mut self.free {
            column[lane] = 0;
        }
        for (name, quantity) in &capacity.free {
            if let Some(id) = resource(name) {
                if self.free.len() <= id {
                    self.free.resize(id + 1, [0; BLOCK]);
                }
                self.free[id][lane] = in_units(name, *quantity).max(0);
            }
        }
        let bit = 1 << lane;
        if capacity.models == Models::Absent && capacity.pools.is_none() {
            self.reports_nodes &= !bit;
        } else {
            self.reports_nodes |= bit;
        }
    }
}
