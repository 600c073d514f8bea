//! The clusters of a simulation.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use berth_api::Cluster;
use serde_json::json;

use super::{Clocks, STEP};
use crate::failover::cluster::ClusterRecord;
use crate::failover::cluster::tests::cluster;

/// Seconds after which the controllers believe that a cluster is lost, or back.
const THRESHOLD: i64 = 30;
/// A second long before the simulation.
const LONG_AGO: i64 = -1000;

/// The kind of loss of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::failover) enum Loss {
    /// The network between the control plane and the cluster fails. The pods run on.
    CutOff,
    /// The cluster fails with its pods.
    Failed,
}

/// The clusters, and what failover knows of them.
pub(in crate::failover) struct Fleet {
    pub(in crate::failover) records: HashMap<String, ClusterRecord>,
    /// The Cluster objects.
    pub(super) objects: BTreeMap<String, Arc<Cluster>>,
    loss: Loss,
    members: Vec<Member>,
    /// The number of changes of the connections and of the Cluster objects.
    version: u64,
}

/// A cluster.
#[derive(Clone, Copy, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each of them changes independently of the others"
)]
struct Member {
    is_connected: bool,
    /// The second at which the connection last changed.
    changed_at: i64,
    /// True if the control plane believes that the cluster is ready.
    is_ready: bool,
    /// The second at which this last changed.
    ready_changed_at: i64,
    /// True while the cluster has a `NoExecute` taint of a user.
    is_tainted: bool,
    /// True while pods can pull their images.
    pulls_images: bool,
    /// The number of steps from one application of Works to the next.
    period: i64,
}

/// Returns the name of a cluster.
pub(super) fn name(number: usize) -> String {
    format!("m{number}")
}

impl Fleet {
    /// Returns ready clusters. Each applies Works after the given number of steps.
    pub(in crate::failover) fn new(periods: &[i64], loss: Loss, clocks: Clocks) -> Self {
        let members = periods.iter().map(|period| Member {
            is_connected: true,
            changed_at: LONG_AGO,
            is_ready: true,
            ready_changed_at: LONG_AGO,
            is_tainted: false,
            pulls_images: true,
            period: *period,
        });
        let mut fleet = Self {
            records: HashMap::new(),
            objects: BTreeMap::new(),
            loss,
            members: members.collect(),
            version: 0,
        };
        for number in 0..fleet.len() {
            fleet.record(number, clocks);
        }
        fleet
    }

    /// Disconnects a connected cluster, and connects another.
    pub(in crate::failover) fn toggle_connection(&mut self, number: usize, second: i64) {
        let member = &mut self.members[number];
        (member.is_connected, member.changed_at) = (!member.is_connected, second);
        self.version += 1;
    }

    /// Adds a `NoExecute` taint to a cluster without it, and removes it from another.
    pub(in crate::failover) fn toggle_taint(&mut self, number: usize, clocks: Clocks) {
        let member = &mut self.members[number];
        member.is_tainted = !member.is_tainted;
        self.record(number, clocks);
    }

    /// Lets the pods of a cluster fail to pull their images, or pull them again.
    pub(in crate::failover) fn toggle_images(&mut self, number: usize) {
        let member = &mut self.members[number];
        member.pulls_images = !member.pulls_images;
    }

    /// Observes which clusters have been lost, or back, for long enough.
    pub(super) fn observe(&mut self, second: i64, clocks: Clocks) {
        for number in 0..self.len() {
            let member = &mut self.members[number];
            let lasts = second - member.changed_at;
            if member.is_connected != member.is_ready && lasts >= THRESHOLD {
                (member.is_ready, member.ready_changed_at) = (member.is_connected, second);
                self.record(number, clocks);
            }
        }
    }

    /// Drops what the controllers remember of the clusters, and observes their objects again.
    pub(super) fn forget(&mut self, clocks: Clocks) {
        self.records.clear();
        for number in 0..self.len() {
            self.record(number, clocks);
        }
    }

    /// Reports whether the control plane reaches a cluster.
    pub(in crate::failover) fn is_connected(&self, number: usize) -> bool {
        self.members[number].is_connected
    }

    /// Reports whether a cluster has a taint of a user.
    pub(in crate::failover) fn is_tainted(&self, number: usize) -> bool {
        self.members[number].is_tainted
    }

    /// Reports whether the pods of a cluster can pull their images.
    pub(in crate::failover) fn pulls_images(&self, number: usize) -> bool {
        self.members[number].pulls_images
    }

    /// Returns the second at which the connection to a cluster last changed.
    pub(super) fn changed_at(&self, number: usize) -> i64 {
        self.members[number].changed_at
    }

    /// Reports whether a member applies its Works now.
    pub(super) fn applies(&self, number: usize, second: i64) -> bool {
        let Member {
            is_connected,
            period,
            ..
        } = self.members[number];
        is_connected && (second / STEP) % period == 0
    }

    /// Reports whether a member reports now. A slow member reports half of its period later than it applies.
    pub(super) fn reports(&self, number: usize, second: i64) -> bool {
        let Member {
            is_connected,
            period,
            ..
        } = self.members[number];
        is_connected && (second / STEP) % period == period / 2
    }

    /// Returns the second since which the pods of a cluster run, or `None` while they do not.
    pub(super) fn runs_since(&self, number: usize) -> Option<i64> {
        let member = self.members[number];
        match self.loss {
            Loss::CutOff => Some(LONG_AGO),
            Loss::Failed => member.is_connected.then_some(member.changed_at),
        }
    }

    /// Reports whether the control plane believes that a cluster is ready.
    pub(super) fn is_ready(&self, number: usize) -> bool {
        self.members[number].is_ready
    }

    /// Reports whether the scheduler may place replicas in a cluster.
    pub(super) fn fits(&self, number: usize) -> bool {
        self.is_ready(number) && !self.is_tainted(number)
    }

    /// Returns the number of changes of the connections and of the Cluster objects.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// Returns the number of clusters.
    pub(in crate::failover) fn len(&self) -> usize {
        self.members.len()
    }

    fn record(&mut self, number: usize, clocks: Clocks) {
        self.version += 1;
        let name = name(number);
        let member = self.members[number];
        let lost = (!member.is_ready).then_some("not-ready");
        let tainted = member.is_tainted.then_some("maintenance");
        let keys = lost.into_iter().chain(tainted);
        let taints: Vec<_> = keys
            .map(|key| json!({ "key": key, "effect": "NoExecute" }))
            .collect();
        let ready = if member.is_ready { "True" } else { "False" };
        let object = cluster(&name, ready, member.ready_changed_at, &json!(taints));
        self.objects.insert(name.clone(), Arc::new(object.clone()));
        let earlier = self.records.get(&name);
        let record = ClusterRecord::new(object, earlier, clocks.wall, clocks.now);
        self.records.insert(name, record);
    }
}
