//! The fast-changing half of a snapshot: free capacity in blocks of clusters.
//!
//! A change of a cluster copies only its block. A block has a column of integers for each resource, with one lane
//! for each cluster.

use std::sync::Arc;

use super::capacity::Models;
use super::row::Row;
use crate::resource_vector::in_units;

/// The number of clusters in a block.
pub(crate) const BLOCK: usize = 128;

/// The index of a resource name in a snapshot.
pub(crate) type ResourceId = usize;

/// The rows of up to [`BLOCK`] clusters with consecutive ordinals.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub(crate) rows: Vec<Arc<Row>>,
    /// Free pods, at least 0.
    pub(crate) pods: [i64; BLOCK],
    /// The free amount of each resource, at least 0: thousandths of cpu, whole units of other resources.
    pub(crate) free: Vec<[i64; BLOCK]>,
    /// A bit for each cluster with a resource model.
    pub(crate) modelled: u128,
}

impl Block {
    pub(crate) fn new(rows: Vec<Arc<Row>>, resource: impl Fn(&str) -> Option<ResourceId>) -> Self {
        let mut block = Self {
            pods: [0; BLOCK],
            free: Vec::new(),
            modelled: 0,
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
        if capacity.models == Models::Absent {
            self.modelled &= !bit;
        } else {
            self.modelled |= bit;
        }
    }
}
