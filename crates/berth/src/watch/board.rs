//! What is known, and what is new in what was seen.

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

use super::source::Seen;

/// A binding.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Row {
    /// `Deployment`, and so on.
    pub(super) kind: String,
    /// The name of the policy; empty where none is known.
    pub(super) policy: String,
    /// The bindings that it follows, by name.
    pub(super) follows: Vec<String>,
    /// The replicas asked for; none where the resource has none.
    pub(super) wanted: Option<Wanted>,
    /// Where it is, and where it is leaving.
    pub(super) places: BTreeMap<String, Place>,
    /// Why it is not scheduled.
    pub(super) failure: Option<String>,
}

/// The replicas that a binding asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// By all its clusters together.
    InAll(i32),
    /// By each of its clusters, as the placement `Duplicated` does.
    InEach(i32),
}

impl Wanted {
    fn of(binding: &Binding) -> Option<Self> {
        let spec = &binding.spec;
        let placement = spec.placement.as_ref();
        let is_duplicated =
            placement.is_some_and(|p| p.scheduling_type() == ReplicaSchedulingType::Duplicated);
        let wanted = if is_duplicated {
            Self::InEach
        } else {
            Self::InAll
        };
        spec.is_workload().then(|| wanted(spec.replicas))
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InAll(replicas) => write!(f, "{replicas}"),
            Self::InEach(replicas) => write!(f, "{replicas} each"),
        }
    }
}

/// A binding in a cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Place {
    /// Its replicas there; none while it is leaving.
    pub(super) replicas: Option<i32>,
    /// How many of them are ready, where that was reported.
    pub(super) ready: Option<i64>,
    /// How it is, where that was reported.
    pub(super) health: Option<ResourceHealth>,
}

impl Place {
    /// Whether the old copy waits for the new ones.
    pub(super) fn is_leaving(&self) -> bool {
        self.replicas.is_none()
    }
}

impl Row {
    fn of(binding: &Binding) -> Self {
        let annotation = |name: &str| binding.metadata.annotations.as_ref()?.get(name).cloned();
        let policy = annotation(PROPAGATION_POLICY_NAME)
            .or_else(|| annotation(CLUSTER_PROPAGATION_POLICY_NAME));
        let mut places: BTreeMap<String, Place> = BTreeMap::new();
        for target in &binding.spec.clusters {
            places.entry(target.name.clone()).or_default().replicas = Some(target.replicas);
        }
        // What follows others is where they are; it has no replicas of its own.
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
            wanted: Wanted::of(binding),
            places,
            failure: failure(&binding.status),
        }
    }

    /// How many replicas are ready in all places; none where nothing was reported.
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

/// Ready replicas, by the field that the kind has for them.
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

/// What is new.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum News {
    /// A binding that was there, or came.
    Binding(BindingKey, Box<Row>),
    /// A binding has another place; both with replicas where it has any.
    Moved {
        key: BindingKey,
        from: BTreeMap<String, i32>,
        to: BTreeMap<String, i32>,
        with_replicas: bool,
    },
    /// A binding is being taken off a cluster.
    Leaving(BindingKey, String),
    /// The old copy may go.
    Left(BindingKey, String),
    /// A member reports something else of a binding.
    Reported(BindingKey, String, Place),
    /// A binding cannot be placed.
    Failed(BindingKey, String),
    /// A binding is gone.
    Gone(BindingKey),
    /// A cluster that was there, or came, or changed: whether it is ready.
    Cluster(String, bool),
    /// A cluster is gone.
    ClusterGone(String),
}

/// What is known.
#[derive(Debug, Default)]
pub(super) struct Board {
    pub(super) clusters: BTreeMap<String, bool>,
    pub(super) rows: BTreeMap<BindingKey, Row>,
}

impl Board {
    /// Takes something in, and says what is new about it.
    pub(super) fn see(&mut self, seen: Seen) -> Vec<News> {
        match seen {
            Seen::Binding(binding) => self.binding(&binding),
            Seen::BindingGone(key) => self.gone(key).into_iter().collect(),
            Seen::Bindings(kind, there) => {
                let known = self.rows.keys().filter(|key| key.kind() == kind);
                let gone: Vec<BindingKey> =
                    known.filter(|key| !there.contains(key)).cloned().collect();
                gone.into_iter().filter_map(|key| self.gone(key)).collect()
            }
            Seen::Cluster(cluster) => self.cluster(&cluster).into_iter().collect(),
            Seen::ClusterGone(name) => self.cluster_gone(name).into_iter().collect(),
            Seen::Clusters(there) => {
                let known: BTreeSet<String> = self.clusters.keys().cloned().collect();
                let gone = known.difference(&there).cloned();
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
        let left = |place: &(&String, &Place)| place.1.is_leaving();
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
                with_replicas: row.wanted.is_some(),
            });
        }
        for (name, place) in &row.places {
            let before = old.places.get(name).cloned().unwrap_or_default();
            let said = place.ready.is_some() || place.health.is_some();
            if said && (&before.ready, &before.health) != (&place.ready, &place.health) {
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
mod tests {
    use berth_api::ResourceBinding;
    use serde_json::json;

    use super::super::lines;
    use super::*;

    fn binding(clusters: &Value, tasks: &Value, status: &Value) -> Seen {
        let binding: ResourceBinding = serde_json::from_value(json!({
            "metadata": { "name": "web-deployment", "namespace": "shop",
                "annotations": { "propagationpolicy.karmada.io/name": "web" } },
            "spec": {
                "resource": { "apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web" },
                "replicas": 2, "clusters": clusters, "gracefulEvictionTasks": tasks },
            "status": status,
        }))
        .unwrap();
        Seen::Binding(Box::new(binding.into()))
    }

    fn told(board: &mut Board, seen: Seen) -> Vec<String> {
        let time = jiff::Timestamp::from_second(0).unwrap();
        let news = board.see(seen);
        let lines = news.iter().map(|news| lines::line(&time, news).to_string());
        lines
            .map(|line| line.split_once("  ").unwrap().1.to_owned())
            .collect()
    }

    #[test]
    fn the_life_of_a_binding_is_told() {
        let mut board = Board::default();
        let (none, on_m1) = (json!([]), json!([{ "name": "m1", "replicas": 2 }]));
        let on_m2 = json!([{ "name": "m2", "replicas": 2 }]);
        let task = json!([{ "fromCluster": "m1", "reason": "r", "producer": "p" }]);
        let reports = |cluster: &str, ready: i64, health: &str| {
            json!({ "aggregatedStatus": [{ "clusterName": cluster, "health": health,
                "status": { "readyReplicas": ready } }] })
        };
        let unfit = json!({ "conditions": [{ "type": "Scheduled", "status": "False", "reason": "NoClusterFit",
            "message": "0/2 clusters are available", "lastTransitionTime": "2026-01-01T00:00:00Z" }] });
        for (seen, expected) in [
            (
                binding(&none, &none, &json!({})),
                &["shop/web-deployment  there       Deployment of policy web, 2 replicas: nowhere"]
                    [..],
            ),
            (
                binding(&none, &none, &unfit),
                &["shop/web-deployment  not placed  0/2 clusters are available"],
            ),
            (
                binding(&on_m1, &none, &json!({})),
                &["shop/web-deployment  placed      m1:2"],
            ),
            (
                binding(&on_m1, &none, &reports("m1", 1, "Unhealthy")),
                &["shop/web-deployment  reported    m1 1/2 ready, Unhealthy"],
            ),
            (binding(&on_m1, &none, &reports("m1", 1, "Unhealthy")), &[]),
            (
                binding(&on_m1, &none, &reports("m1", 2, "Healthy")),
                &["shop/web-deployment  reported    m1 2/2 ready, Healthy"],
            ),
            (
                binding(&on_m2, &task, &reports("m1", 2, "Healthy")),
                &[
                    "shop/web-deployment  leaving     m1, when the new copies are healthy",
                    "shop/web-deployment  moved       m1:2 -> m2:2",
                ],
            ),
            (
                binding(&on_m2, &none, &reports("m2", 2, "Healthy")),
                &[
                    "shop/web-deployment  reported    m2 2/2 ready, Healthy",
                    "shop/web-deployment  left        m1",
                ],
            ),
            (
                Seen::Bindings("ClusterResourceBinding", BTreeSet::new()),
                &[],
            ),
            (
                Seen::Bindings("ResourceBinding", BTreeSet::new()),
                &["shop/web-deployment  gone"],
            ),
        ] {
            assert_eq!(told(&mut board, seen), expected);
        }
    }

    #[test]
    fn duplicated_replicas_are_those_of_each_cluster() {
        let binding = |placement: Value| {
            let binding: ResourceBinding = serde_json::from_value(json!({
                "metadata": { "name": "web", "namespace": "shop" },
                "spec": {
                    "resource": { "apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web" },
                    "replicas": 2, "placement": placement,
                    "clusters": [{ "name": "m1", "replicas": 2 }, { "name": "m2", "replicas": 2 }] },
            }))
            .unwrap();
            Seen::Binding(Box::new(binding.into()))
        };
        let divided = json!({ "replicaScheduling": { "replicaSchedulingType": "Divided" } });
        for (placement, expected) in [
            (json!({}), "2 replicas in each cluster: m1 ?/2, m2 ?/2"),
            (divided, "2 replicas: m1 ?/2, m2 ?/2"),
        ] {
            let line = told(&mut Board::default(), binding(placement)).remove(0);
            assert!(line.ends_with(&format!("Deployment, {expected}")), "{line}");
        }
    }

    #[test]
    fn what_follows_another_binding_is_where_that_is() {
        let mut board = Board::default();
        let settings = |clusters: &Value| {
            let binding: ResourceBinding = serde_json::from_value(json!({
                "metadata": { "name": "settings-configmap", "namespace": "shop" },
                "spec": {
                    "resource": { "apiVersion": "v1", "kind": "ConfigMap", "namespace": "shop", "name": "settings" },
                    "requiredBy": [{ "namespace": "shop", "name": "web-deployment", "clusters": clusters }] },
            }))
            .unwrap();
            Seen::Binding(Box::new(binding.into()))
        };
        let on = |cluster: &str| json!([{ "name": cluster, "replicas": 2 }]);
        for (seen, expected) in [
            (
                settings(&on("m1")),
                "shop/settings-configmap  there       ConfigMap follows web-deployment: m1",
            ),
            (
                settings(&on("m2")),
                "shop/settings-configmap  moved       m1 -> m2",
            ),
        ] {
            assert_eq!(told(&mut board, seen), [expected]);
        }
    }

    #[test]
    fn clusters_are_told_of_when_their_readiness_changes() {
        let mut board = Board::default();
        let cluster = |ready: &str| {
            let cluster = json!({ "metadata": { "name": "m1" }, "spec": { "syncMode": "Push" },
                "status": { "conditions": [{ "type": "Ready", "status": ready, "reason": "r", "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z" }] } });
            Seen::Cluster(Box::new(serde_json::from_value(cluster).unwrap()))
        };
        for (seen, expected) in [
            (cluster("True"), &["m1  cluster     ready"][..]),
            (cluster("True"), &[]),
            (cluster("Unknown"), &["m1  cluster     not ready"]),
            (Seen::Clusters(BTreeSet::new()), &["m1  cluster     gone"]),
        ] {
            assert_eq!(told(&mut board, seen), expected);
        }
    }
}
