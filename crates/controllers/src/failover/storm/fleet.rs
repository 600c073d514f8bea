//! The clusters of a storm.

use std::collections::HashMap;

use serde_json::json;

use super::{Clocks, Size};
use crate::failover::cluster::ClusterRecord;
use crate::failover::cluster::tests::cluster;

/// Seconds for which a cluster is lost.
const LOST: i64 = 150;
/// Seconds for which it is back before it is lost again.
const BACK: i64 = 120;
/// Seconds after which the controllers believe that a cluster is lost, or back.
const THRESHOLD: i64 = 30;
/// The second at which the storm begins.
const BEGIN: i64 = 60;

/// The kind of loss of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    /// The network between the control plane and the cluster fails. The pods run on.
    CutOff,
    /// The cluster fails with its pods.
    Failed,
}

/// The clusters, and what failover knows of them.
pub(super) struct Fleet {
    pub(super) records: HashMap<String, ClusterRecord>,
    pub(super) loss: Loss,
    size: Size,
    /// The second since which each cluster is connected, or not.
    since: Vec<(bool, i64)>,
    is_ready: Vec<bool>,
}

/// Returns the name of a cluster.
pub(super) fn name(number: usize) -> String {
    format!("m{number}")
}

impl Fleet {
    pub(super) fn new(size: Size, loss: Loss, clocks: Clocks) -> Self {
        let mut fleet = Self {
            records: HashMap::new(),
            loss,
            size,
            since: vec![(true, -1000); size.clusters],
            is_ready: vec![true; size.clusters],
        };
        for number in 0..size.clusters {
            fleet.record(number, -1000, clocks);
        }
        fleet
    }

    /// Advances the clusters to a second.
    pub(super) fn advance(&mut self, second: i64, clocks: Clocks) {
        for number in 0..self.size.flapping {
            let is_connected = self.is_connected_at(number, second);
            if is_connected != self.since[number].0 {
                self.since[number] = (is_connected, second);
            }
            let lasts = second - self.since[number].1;
            if is_connected != self.is_ready[number] && lasts >= THRESHOLD {
                self.is_ready[number] = is_connected;
                self.record(number, second, clocks);
            }
        }
    }

    fn is_connected_at(&self, number: usize, second: i64) -> bool {
        // The clusters are lost within half a minute.
        let offset =
            i64::try_from(number).unwrap() * 30 / i64::try_from(self.size.flapping).unwrap();
        let time = second - BEGIN - offset;
        time < 0 || second >= self.size.storm || time % (LOST + BACK) >= LOST
    }

    /// Reports whether the control plane reaches a cluster.
    pub(super) fn is_connected(&self, number: usize) -> bool {
        self.since[number].0
    }

    /// Returns the second since which the pods of a cluster run, or `None` while they do not.
    pub(super) fn runs_since(&self, number: usize) -> Option<i64> {
        let (is_connected, since) = self.since[number];
        match self.loss {
            Loss::CutOff => Some(-1000),
            Loss::Failed => is_connected.then_some(since),
        }
    }

    /// Reports whether the control plane believes that a cluster is ready.
    pub(super) fn is_ready(&self, number: usize) -> bool {
        self.is_ready[number]
    }

    /// Returns the number of clusters.
    pub(super) fn len(&self) -> usize {
        self.size.clusters
    }

    fn record(&mut self, number: usize, since: i64, clocks: Clocks) {
        let name = name(number);
        let (ready, taints) = if self.is_ready[number] {
            ("True", json!([]))
        } else {
            (
                "False",
                json!([{ "key": "not-ready", "effect": "NoExecute" }]),
            )
        };
        let object = cluster(&name, ready, since, &taints);
        let earlier = self.records.get(&name);
        let record = ClusterRecord::new(object, earlier, clocks.wall, clocks.now);
        self.records.insert(name, record);
    }
}
