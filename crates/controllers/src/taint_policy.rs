//! ClusterTaintPolicies: clusters get and lose taints as their conditions change.
//!
//! One task watches clusters and policies and writes, one cluster after another: there are few of them, and their
//! conditions change seldom. Which taints a cluster should have is a pure function, [`desired`]. It must not run beside
//! karmada-controller-manager with the gate `Failover`, which does the same.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use berth_api::taint_policy::{ClusterTaintPolicySpec, all_match};
use berth_api::{Cluster, ClusterTaintPolicy};
use berth_apimachinery::api_error::api_error_message;
use berth_events::{EventRecorder, Happening, Severity};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ObjectReference, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::ApiResource;
use kube::runtime::watcher;
use kube::{Client, ResourceExt as _};
use serde::Deserialize as _;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::informer::{Observation, inform};

/// How many observations may wait.
const INBOX: usize = 256;
/// The component that events name.
const COMPONENT: &str = "cluster-taint-policy-controller";
/// How long until a write that failed is tried again.
const AGAIN: Duration = Duration::from_secs(2);

/// Why it stopped although nobody asked it to.
#[derive(Debug, thiserror::Error)]
pub enum TaintPolicyError {
    /// One of its tasks panicked.
    #[error("a task of the cluster taint policy controller failed: {0}")]
    Task(#[from] tokio::task::JoinError),
}

/// The taints that a cluster should have, with policies in their order: what one adds a later one may remove. Taints are
/// the same when key and effect are; what nobody names stays.
pub fn desired(
    cluster: &Cluster,
    policies: &[&ClusterTaintPolicySpec],
    now: Timestamp,
) -> Vec<Taint> {
    let mut taints = cluster.spec.taints.clone();
    for policy in policies.iter().filter(|policy| policy.targets(cluster)) {
        if all_match(&policy.add_on_conditions, cluster) {
            for new in &policy.taints {
                if taints
                    .iter()
                    .any(|t| t.key == new.key && t.effect == new.effect)
                {
                    continue;
                }
                taints.push(Taint {
                    key: new.key.clone(),
                    value: new.value.clone().filter(|value| !value.is_empty()),
                    effect: new.effect.clone(),
                    time_added: Some(Time(whole_seconds(now))),
                });
            }
        }
        if all_match(&policy.remove_on_conditions, cluster) {
            let goes = |taint: &Taint| {
                let mut named = policy.taints.iter();
                named.any(|other| other.key == taint.key && other.effect == taint.effect)
            };
            taints.retain(|taint| !goes(taint));
        }
    }
    taints
}

fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Source {
    Clusters,
    Policies,
}

/// Runs until it is told to stop.
///
/// # Errors
/// When one of its tasks panics.
pub async fn run(client: Client, shutdown: CancellationToken) -> Result<(), TaintPolicyError> {
    // Everything below ends with this call, however it ends.
    let shutdown = shutdown.child_token();
    let guard = shutdown.clone().drop_guard();
    let (sender, inbox) = mpsc::channel(INBOX);
    let (events, event_writer) = EventRecorder::new(client.clone(), COMPONENT);
    let mut tasks = JoinSet::new();
    tasks.spawn(event_writer.run(shutdown.clone()));
    for (source, resource) in [
        (Source::Clusters, ApiResource::erase::<Cluster>(&())),
        (
            Source::Policies,
            ApiResource::erase::<ClusterTaintPolicy>(&()),
        ),
    ] {
        let api = Api::all_with(client.clone(), &resource);
        let message = move |observation| (source, observation);
        let (sender, shutdown) = (sender.clone(), shutdown.clone());
        tasks.spawn(inform(
            api,
            watcher::Config::default(),
            message,
            sender,
            shutdown,
        ));
    }
    let tainter = Tainter {
        clusters: Api::all(client),
        events,
        known: HashMap::new(),
        policies: BTreeMap::new(),
        listed: HashSet::new(),
    };
    tokio::select! {
        () = shutdown.cancelled() => {}
        () = tainter.run(inbox) => {}
    }
    drop(guard);
    while let Some(ended) = tasks.join_next().await {
        ended?;
    }
    Ok(())
}

struct Tainter {
    clusters: Api<Cluster>,
    events: EventRecorder,
    known: HashMap<String, Cluster>,
    /// In the order in which they were made.
    policies: BTreeMap<(Option<Timestamp>, String), ClusterTaintPolicySpec>,
    listed: HashSet<Source>,
}

impl Tainter {
    async fn run(mut self, mut inbox: mpsc::Receiver<(Source, Observation)>) {
        let mut due: HashSet<String> = HashSet::new();
        loop {
            let wait = async {
                if due.is_empty() {
                    std::future::pending::<()>().await;
                }
                tokio::time::sleep(AGAIN).await;
            };
            tokio::select! {
                seen = inbox.recv() => {
                    let Some((source, observation)) = seen else { return };
                    due.extend(self.see(source, observation));
                }
                () = wait => {}
            }
            if self.listed.len() < 2 {
                continue;
            }
            let mut failed = HashSet::new();
            for name in due.drain() {
                if !self.taint(&name).await {
                    failed.insert(name);
                }
            }
            due = failed;
        }
    }

    /// Takes something in; the clusters that it concerns.
    fn see(&mut self, source: Source, observation: Observation) -> Vec<String> {
        match observation {
            Observation::Listed(there) => {
                match source {
                    Source::Clusters => self.known.retain(|name, _| there.contains("", name)),
                    Source::Policies => self
                        .policies
                        .retain(|(_, name), _| there.contains("", name)),
                }
                self.listed.insert(source);
                self.known.keys().cloned().collect()
            }
            Observation::Applied(object) => self.applied(source, &object),
            Observation::Deleted(object) => {
                let name = object.name_any();
                match source {
                    Source::Clusters => drop(self.known.remove(&name)),
                    // Its taints stay.
                    Source::Policies => self.policies.retain(|(_, known), _| *known != name),
                }
                Vec::new()
            }
            Observation::Unserved => Vec::new(),
        }
    }

    fn applied(&mut self, source: Source, object: &DynamicObject) -> Vec<String> {
        let name = object.name_any();
        match source {
            Source::Clusters => {
                let read = serde_json::to_value(object).and_then(Cluster::deserialize);
                let Ok(cluster) = read else {
                    tracing::warn!(cluster = name, "cannot read a cluster: it gets no taints");
                    self.known.remove(&name);
                    return Vec::new();
                };
                let conditions = |cluster: &Cluster| {
                    let status = cluster.status.as_ref();
                    status
                        .map(|status| status.conditions.clone())
                        .unwrap_or_default()
                };
                let before = self.known.get(&name).map(conditions);
                let changed = before.as_ref() != Some(&conditions(&cluster));
                self.known.insert(name.clone(), cluster);
                // As in Karmada, a taint that somebody takes away by hand comes back with the next condition.
                if changed { vec![name] } else { Vec::new() }
            }
            Source::Policies => {
                let Ok(spec) = ClusterTaintPolicySpec::deserialize(&object.data["spec"]) else {
                    tracing::warn!(policy = name, "cannot read a ClusterTaintPolicy");
                    return Vec::new();
                };
                let made = object.creation_timestamp().map(|time| time.0);
                let key = (made, name);
                if self.policies.get(&key) == Some(&spec) {
                    return Vec::new();
                }
                // Of one that was deleted and made again the watch may have missed the end.
                self.policies.retain(|(_, known), _| *known != key.1);
                self.policies.insert(key, spec);
                self.known.keys().cloned().collect()
            }
        }
    }

    /// Gives a cluster the taints that it should have; whether that is done.
    async fn taint(&mut self, name: &str) -> bool {
        let Some(cluster) = self.known.get(name) else {
            return true;
        };
        let policies: Vec<&ClusterTaintPolicySpec> = self.policies.values().collect();
        let taints = desired(cluster, &policies, Timestamp::now());
        if taints == cluster.spec.taints {
            return true;
        }
        let patch = Patch::Merge(json!({
            "metadata": { "resourceVersion": cluster.resource_version() },
            "spec": { "taints": taints } }));
        let parameters = PatchParams {
            field_manager: Some("berth-taint-policy".to_owned()),
            ..PatchParams::default()
        };
        let object = ObjectReference {
            api_version: Some("cluster.karmada.io/v1alpha1".to_owned()),
            kind: Some("Cluster".to_owned()),
            name: Some(name.to_owned()),
            uid: cluster.uid(),
            ..ObjectReference::default()
        };
        match self.clusters.patch(name, &parameters, &patch).await {
            Ok(stored) => {
                let message = format!(
                    "Update Cluster({name}) with taints({}) succeed",
                    listed(&stored.spec.taints)
                );
                self.known.insert(name.to_owned(), stored);
                self.events.record(Happening {
                    object,
                    severity: Severity::Normal,
                    reason: "TaintClusterSucceed",
                    message,
                });
                true
            }
            // The watch brings what is newer.
            Err(kube::Error::Api(status)) if status.code == 409 => false,
            Err(kube::Error::Api(status)) if status.code == 404 => true,
            Err(error) => {
                tracing::warn!(cluster = name, %error, "cannot taint a cluster, trying again later");
                self.events.record(Happening {
                    object,
                    severity: Severity::Warning,
                    reason: "TaintClusterFailed",
                    message: api_error_message(&error),
                });
                false
            }
        }
    }
}

/// `{Key:a,Value:b,Effect:c}` and so on, or that there is none.
fn listed(taints: &[Taint]) -> String {
    let taints: Vec<String> = taints
        .iter()
        .map(|taint| match taint.value.as_deref() {
            None | Some("") => format!("{{Key:{},Effect:{}}}", taint.key, taint.effect),
            Some(value) => {
                format!(
                    "{{Key:{},Value:{value},Effect:{}}}",
                    taint.key, taint.effect
                )
            }
        })
        .collect();
    if taints.is_empty() {
        "cluster now does not have taints".to_owned()
    } else {
        format!("cluster now has taints([{}])", taints.join(","))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn cluster(ready: &str, taints: &Value) -> Cluster {
        serde_json::from_value(json!({
            "metadata": { "name": "m1" }, "spec": { "syncMode": "Push", "taints": taints },
            "status": { "conditions": [{ "type": "Ready", "status": ready, "reason": "r", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z" }] } }))
        .unwrap()
    }

    fn policy(taint: &Value) -> ClusterTaintPolicySpec {
        let ready = |operator: &str| json!([{ "conditionType": "Ready", "operator": operator, "statusValues": ["True"] }]);
        serde_json::from_value(json!({
            "addOnConditions": ready("NotIn"), "removeOnConditions": ready("In"), "taints": [taint] }))
        .unwrap()
    }

    #[test]
    fn taints_come_and_go_with_conditions() {
        let now = Timestamp::from_second(0).unwrap();
        let down = json!({ "key": "down", "effect": "NoExecute" });
        let since =
            json!({ "key": "down", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z" });
        let other = json!({ "key": "down", "effect": "NoSchedule" });
        let added =
            json!({ "key": "down", "effect": "NoExecute", "timeAdded": "1970-01-01T00:00:00Z" });
        for (about, ready, before, after) in [
            ("it fails", "False", json!([other]), json!([other, added])),
            ("it still fails", "Unknown", json!([since]), json!([since])),
            ("it is back", "True", json!([since, other]), json!([other])),
            ("it is well", "True", json!([]), json!([])),
        ] {
            let found = desired(&cluster(ready, &before), &[&policy(&down)], now);
            assert_eq!(serde_json::to_value(found).unwrap(), after, "{about}");
        }
    }

    #[tokio::test]
    async fn a_policy_that_is_made_again_counts_once() {
        let nobody = tower::service_fn(|_: http::Request<kube::client::Body>| async {
            std::future::pending::<Result<http::Response<kube::client::Body>, std::io::Error>>()
                .await
        });
        let client = Client::new(nobody, "default");
        let mut tainter = Tainter {
            clusters: Api::all(client.clone()),
            events: EventRecorder::new(client, COMPONENT).0,
            known: HashMap::new(),
            policies: BTreeMap::new(),
            listed: HashSet::new(),
        };
        for (day, key) in [("01", "down"), ("02", "other")] {
            let object = serde_json::from_value(json!({
                "metadata": { "name": "p", "creationTimestamp": format!("2026-01-{day}T00:00:00Z") },
                "spec": policy(&json!({ "key": key, "effect": "NoExecute" })) }))
            .unwrap();
            tainter.see(Source::Policies, Observation::Applied(Box::new(object)));
        }
        let keys: Vec<&str> = tainter
            .policies
            .values()
            .flat_map(|spec| spec.taints.iter().map(|taint| taint.key.as_str()))
            .collect();
        assert_eq!(keys, ["other"]);
    }

    #[test]
    fn other_clusters_are_left_alone() {
        let down = json!({ "key": "down", "effect": "NoExecute" });
        let mut policy = policy(&down);
        policy.target_clusters =
            Some(serde_json::from_value(json!({ "clusterNames": ["m2"] })).unwrap());
        let now = Timestamp::from_second(0).unwrap();
        assert!(desired(&cluster("False", &json!([])), &[&policy], now).is_empty());
    }
}
