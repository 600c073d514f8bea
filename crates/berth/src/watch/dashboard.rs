//! The state of all bindings and clusters that `berth watch` shows. [`Dashboard::apply`] updates the state after a
//! watch event, and returns the visible changes as [`News`].

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use berth_api::Cluster;
use berth_api::binding::{BindingStatus, ResourceHealth};
use berth_api::placement::ReplicaSchedulingType;
use berth_api::well_known::{
    CLUSTER_PROPAGATION_POLICY_NAME, CONDITION_READY, CONDITION_SCHEDULED, PROPAGATION_POLICY_NAME,
};
use berth_scheduler::binding::{Binding, BindingKey};
use kube::ResourceExt as _;
use serde_json::Value;

use super::source::WatchEvent;

/// The shown state of one binding.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Row {
    /// Kind of the resource, such as `Deployment`.
    pub(super) kind: String,
    /// Name of the policy that has claimed the resource. Empty if no policy has claimed it.
    pub(super) policy: String,
    /// Names of the bindings that depend on this binding (`spec.requiredBy`). This binding is placed in their clusters.
    pub(super) follows: Vec<String>,
    /// Desired replicas. `None` if the resource has no replicas.
    pub(super) desired: Option<DesiredReplicas>,
    /// State in each assigned cluster, and in each cluster from which the binding is being evicted.
    pub(super) places: BTreeMap<String, ClusterState>,
    /// Message of the last failed scheduling. `None` if the binding is scheduled.
    pub(super) failure: Option<String>,
}

/// Desired replicas of a binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DesiredReplicas {
    /// The total number of replicas in all clusters.
    InAll(i32),
    /// The number of replicas in each cluster, for the replica scheduling type `Duplicated`.
    InEach(i32),
}

impl DesiredReplicas {
    fn of(binding: &Binding) -> Option<Self> {
        let spec = &binding.spec;
        let placement = spec.placement.as_ref();
        let is_duplicated =
            placement.is_some_and(|p| p.scheduling_type() == ReplicaSchedulingType::Duplicated);
        let desired = if is_duplicated {
            Self::InEach
        } else {
            Self::InAll
        };
        spec.is_workload().then(|| desired(spec.replicas))
    }
}

impl fmt::Display for DesiredReplicas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InAll(replicas) => write!(f, "{replicas}"),
            Self::InEach(replicas) => write!(f, "{replicas} each"),
        }
    }
}

/// State of a binding in a cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ClusterState {
    /// Assigned replicas. `None` while the binding is being evicted from the cluster.
    pub(super) replicas: Option<i32>,
    /// Ready replicas that the member reports.
    pub(super) ready: Option<i64>,
    /// Health that the member reports.
    pub(super) health: Option<ResourceHealth>,
}

impl ClusterState {
    /// Reports whether the binding is being evicted from the cluster.
    pub(super) fn is_leaving(&self) -> bool {
        self.replicas.is_none()
    }
}

impl Row {
    fn of(binding: &Binding) -> Self {
        let annotation = |name: &str| binding.metadata.annotations.as_ref()?.get(name).cloned();
        let policy = annotation(PROPAGATION_POLICY_NAME)
            .or_else(|| annotation(CLUSTER_PROPAGATION_POLICY_NAME));
        let mut places: BTreeMap<String, ClusterState> = BTreeMap::new();
        for target in &binding.spec.clusters {
            places.entry(target.name.clone()).or_default().replicas = Some(target.replicas);
        }
        // A required resource is placed in the clusters of the bindings that depend on it, and has no replicas.
        for target in binding.spec.required_by.iter().flat_map(|s| &s.clusters) {
            let place = places.entry(target.name.clone()).or_default();
            place.replicas.get_or_insert(0);
        }
        for task in &binding.spec.graceful_eviction_tasks {
            places.entry(task.from_cluster.clone()).or_default();
        }
        for item in &binding.status.aggregated_status {
            if let Some(place) = places.get_mut(&item.cluster_name) {
                place.ready = item.status.as_ref().and_then(ready);
                place.health.clone_from(&item.health);
            }
        }
        Self {
            kind: binding.spec.resource.kind.clone(),
            policy: policy.unwrap_or_default(),
            follows: binding
                .spec
                .required_by
                .iter()
                .map(|snapshot| snapshot.name.clone())
                .collect(),
            desired: DesiredReplicas::of(binding),
            places,
            failure: failure(&binding.status),
        }
    }

    /// Returns the sum of the ready replicas in all clusters. Returns `None` if no cluster has reported ready replicas.
    pub(super) fn ready(&self) -> Option<i64> {
        let reported = self.places.values().filter_map(|place| place.ready);
        reported.reduce(|sum, ready| sum + ready)
    }

    fn targets(&self) -> BTreeMap<String, i32> {
        let places = self.places.iter();
        places
            .filter_map(|(name, place)| Some((name.clone(), place.replicas?)))
            .collect()
    }
}

/// Returns the ready replicas from a member's status. The field depends on the kind of the resource.
fn ready(status: &Value) -> Option<i64> {
    let fields = ["readyReplicas", "numberReady", "succeeded", "ready"];
    fields.iter().find_map(|field| status[field].as_i64())
}

fn failure(status: &BindingStatus) -> Option<String> {
    let condition = status
        .conditions
        .iter()
        .find(|c| c.type_ == CONDITION_SCHEDULED)?;
    (condition.status == "False").then(|| condition.message.clone())
}

/// A visible change of a binding or a cluster.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum News {
    /// A binding was listed or added.
    Binding(BindingKey, Box<Row>),
    /// The scheduler assigned other clusters or other numbers of replicas to a binding.
    Moved {
        key: BindingKey,
        from: BTreeMap<String, i32>,
        to: BTreeMap<String, i32>,
        with_replicas: bool,
    },
    /// The eviction of a binding from a cluster started.
    Leaving(BindingKey, String),
    /// The eviction of a binding from a cluster ended.
    Left(BindingKey, String),
    /// A member reported a changed status of a resource.
    Reported(BindingKey, String, ClusterState),
    /// The scheduler failed to place a binding.
    Failed(BindingKey, String),
    /// A binding was deleted.
    Gone(BindingKey),
    /// A cluster was listed or added, or its readiness changed. The flag is true if the cluster is ready.
    Cluster(String, bool),
    /// A cluster was deleted.
    ClusterGone(String),
}

/// State of all bindings and clusters.
#[derive(Debug, Default)]
pub(super) struct Dashboard {
    /// Clusters by name. The value is true if the cluster is ready.
    pub(super) clusters: BTreeMap<String, bool>,
    pub(super) rows: BTreeMap<BindingKey, Row>,
}

impl Dashboard {
    /// Applies a watch event, and returns the changes to show.
    pub(super) fn apply(&mut self, event: WatchEvent) -> Vec<News> {
        match event {
            WatchEvent::Binding(binding) => self.binding(&binding),
            WatchEvent::BindingGone(key) => self.gone(key).into_iter().collect(),
            WatchEvent::Bindings(kind, listed) => {
                let known = self.rows.keys().filter(|key| key.kind() == kind);
                let gone: Vec<BindingKey> =
                    known.filter(|key| !listed.contains(key)).cloned().collect();
                gone.into_iter().filter_map(|key| self.gone(key)).collect()
            }
            WatchEvent::Cluster(cluster) => self.cluster(&cluster).into_iter().collect(),
            WatchEvent::ClusterGone(name) => self.cluster_gone(name).into_iter().collect(),
            WatchEvent::Clusters(listed) => {
                let known: BTreeSet<String> = self.clusters.keys().cloned().collect();
                let gone = known.difference(&listed).cloned();
                gone.filter_map(|name| self.cluster_gone(name)).collect()
            }
        }
    }

    fn binding(&mut self, binding: &Binding) -> Vec<News> {
        let (key, row) = (binding.key.clone(), Row::of(binding));
        let Some(old) = self.rows.insert(key.clone(), row.clone()) else {
            return vec![News::Binding(key, Box::new(row))];
        };
        let mut news = Vec::new();
        let (from, to) = (old.targets(), row.targets());
        let left = |place: &(&String, &ClusterState)| place.1.is_leaving();
        let leaving = |row: &Row| -> BTreeSet<String> {
            let places = row.places.iter().filter(left);
            places.map(|(name, _)| name.clone()).collect()
        };
        let (was_leaving, is_leaving) = (leaving(&old), leaving(&row));
        let names = is_leaving.difference(&was_leaving);
        news.extend(names.map(|name| News::Leaving(key.clone(), name.clone())));
        if from != to {
            news.push(News::Moved {
                key: key.clone(),
                from,
                to,
                with_replicas: row.desired.is_some(),
            });
        }
        for (name, place) in &row.places {
            let before = old.places.get(name).cloned().unwrap_or_default();
            let is_reported = place.ready.is_some() || place.health.is_some();
            if is_reported && (&before.ready, &before.health) != (&place.ready, &place.health) {
                news.push(News::Reported(key.clone(), name.clone(), place.clone()));
            }
        }
        let names = was_leaving.difference(&is_leaving);
        news.extend(names.map(|name| News::Left(key.clone(), name.clone())));
        if let Some(failure) = row
            .failure
            .filter(|failure| old.failure.as_ref() != Some(failure))
        {
            news.push(News::Failed(key, failure));
        }
        news
    }

    fn gone(&mut self, key: BindingKey) -> Option<News> {
        self.rows.remove(&key).map(|_| News::Gone(key))
    }

    fn cluster(&mut self, cluster: &Cluster) -> Option<News> {
        let status = cluster.status.as_ref();
        let conditions = status
            .map(|status| status.conditions.as_slice())
            .unwrap_or_default();
        let mut conditions = conditions.iter();
        let ready = conditions.any(|c| c.type_ == CONDITION_READY && c.status == "True");
        let name = cluster.name_any();
        let before = self.clusters.insert(name.clone(), ready);
        (before != Some(ready)).then_some(News::Cluster(name, ready))
    }

    fn cluster_gone(&mut self, name: String) -> Option<News> {
        self.clusters.remove(&name).map(|_| News::ClusterGone(name))
    }
}

#[cfg(test)]
mod tests;
