//! The ClusterTaintPolicy controller: adds and removes taints of clusters as their conditions change.
//!
//! The desired taints are a pure function, [`desired`]. If the taints are not set, or evict nothing, the controller
//! records an event about each policy. Do not run this controller together with
//! karmada-controller-manager with the feature gate `Failover`, which adds and removes the same taints.

use berth_apimachinery::api_error::{api_error_message, has_code};
use berth_apimachinery::timestamp::whole_seconds;
use std::sync::Arc;
use std::time::Duration;

use berth_api::taint_policy::{ClusterTaintPolicySpec, all_match};
use berth_api::{Cluster, ClusterTaintPolicy};
use berth_events::{Event, EventRecorder, Severity};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ObjectReference, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::api::{Api, Patch, PatchParams};
use kube::core::ApiResource;
use kube::{Client, ResourceExt as _};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::cluster::taints::describe;
use crate::monitor::Monitor;
use crate::monitor::queue_meter::QueueMeter;
use crate::reconciler::informer::WatchEvent;
use crate::reconciler::store::{Change, Former, Store};
use crate::reconciler::work_queue::{Priority, Timers, WorkQueue};
use crate::reconciler::{ControllerError, Inputs, Reconciler, Runtime, Workers};

/// The name of this component in events and metrics.
const COMPONENT: &str = "cluster-taint-policy-controller";
/// Maximum number of clusters written at the same time.
const WORKERS: usize = 4;
/// The delay before a failed write is repeated.
const RETRY_DELAY: Duration = Duration::from_secs(2);

/// Returns the desired taints of a cluster. Policies apply in order: a later policy may remove a taint that an earlier
/// policy adds. Two taints are equal if their keys and effects are equal. A taint that no policy lists is kept.
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
            let is_listed = |taint: &Taint| {
                let mut listed = policy.taints.iter();
                listed.any(|other| other.key == taint.key && other.effect == taint.effect)
            };
            taints.retain(|taint| !is_listed(taint));
        }
    }
    taints
}

/// The effect of ClusterTaintPolicies, which depends on the flags of the controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The controller sets taints, and taints evict bindings.
    TaintsAndEvictions,
    /// The controller sets taints, which evict no bindings.
    Taints,
    /// None, because the feature gate `Failover` is off.
    GateIsOff,
    /// None, because `--controllers` disables this controller.
    ControllerIsOff,
}

impl Effect {
    fn sets_taints(self) -> bool {
        matches!(self, Self::TaintsAndEvictions | Self::Taints)
    }

    /// Returns the message about a policy that does not have its full effect.
    fn notice(self, policy: &ClusterTaintPolicySpec) -> Option<&'static str> {
        match self {
            Self::TaintsAndEvictions => None,
            Self::Taints => policy.taints.iter().any(|taint| taint.effect == "NoExecute").then_some(
                "the NoExecute taints of the policy evict no bindings: start the controllers with --enable-no-execute-taint-eviction=true and with the controller cluster",
            ),
            Self::GateIsOff => Some(
                "the policy sets no taints, because the feature gate Failover is off: start the controllers with --feature-gates=Failover=true, and for evictions with --enable-no-execute-taint-eviction=true",
            ),
            Self::ControllerIsOff => Some(
                "the policy sets no taints, because the controller clustertaintpolicy is off: add it to --controllers",
            ),
        }
    }
}

/// A watched resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Source {
    Clusters,
    Policies,
}

impl Source {
    const ALL: [Self; 2] = [Self::Clusters, Self::Policies];

    fn resource(self) -> ApiResource {
        match self {
            Self::Clusters => ApiResource::erase::<Cluster>(&()),
            Self::Policies => ApiResource::erase::<ClusterTaintPolicy>(&()),
        }
    }
}

/// Runs the cluster taint policy controller until the token is cancelled.
///
/// # Errors
/// When one of its tasks panics.
pub async fn run(
    client: Client,
    effect: Effect,
    monitor: Monitor,
    shutdown: CancellationToken,
) -> Result<(), ControllerError> {
    let mut runtime = Runtime::new(client.clone(), COMPONENT, &monitor, &shutdown);
    let inputs = runtime.inputs();
    let events = inputs.record_events(COMPONENT);
    let sources = Source::ALL.into_iter();
    for source in sources.filter(|source| effect.sets_taints() || *source == Source::Policies) {
        inputs.watch(&source.resource(), move |event| (source, event));
    }
    let controller = TaintController::new(client, events, effect, monitor.queue(COMPONENT));
    runtime
        .run("cluster taint policy controller", controller, WORKERS)
        .await
}

struct TaintController {
    api: Api<Cluster>,
    events: EventRecorder,
    effect: Effect,
    clusters: Store<Cluster>,
    policies: Store<ClusterTaintPolicy>,
    queue: WorkQueue<String, ()>,
}

/// The result of a write.
struct Outcome {
    /// The cluster as it was before the write.
    cluster: Arc<Cluster>,
    result: Result<Cluster, kube::Error>,
}

impl Reconciler for TaintController {
    type Event = (Source, WatchEvent);
    type Outcome = Outcome;

    fn handle_event(&mut self, (source, event): Self::Event, _: &mut Inputs<Self::Event>) {
        let is_list = matches!(event, WatchEvent::Listed(_));
        match source {
            Source::Clusters => self.handle_cluster_event(event),
            Source::Policies => self.handle_policy_event(event),
        }
        if is_list {
            self.enqueue_all();
        }
    }

    fn handle_outcome(&mut self, outcome: Outcome, _: &mut Inputs<Self::Event>) {
        let Outcome { cluster, result } = outcome;
        let name = cluster.name_any();
        match result {
            Ok(stored) => {
                self.queue.finish(&name);
                let message = format!(
                    "Update Cluster({name}) with taints({}) succeed",
                    describe(&stored.spec.taints)
                );
                self.record(&cluster, Severity::Normal, "TaintClusterSucceed", message);
                // The written Cluster replaces the known Cluster only if the watch has not delivered another version.
                if let Some(known) = self.clusters.objects.get_mut(&name)
                    && known.resource_version() == cluster.resource_version()
                {
                    *known = Arc::new(stored);
                }
            }
            Err(error) if has_code(&error, 404) => self.queue.finish(&name),
            Err(error) => {
                if !has_code(&error, 409) {
                    let message = api_error_message(&error);
                    self.record(&cluster, Severity::Warning, "TaintClusterFailed", message);
                }
                self.queue.retry(&name, (), &error);
            }
        }
    }

    fn timers(&mut self) -> Option<&mut dyn Timers> {
        Some(&mut self.queue)
    }

    fn dispatch(&mut self, workers: &mut Workers<Outcome>) {
        if !(self.clusters.has_synced && self.policies.has_synced) {
            return;
        }
        while workers.has_free() {
            let Some((name, ())) = self.queue.next() else {
                return;
            };
            self.reconcile(&name, workers);
        }
    }
}

impl TaintController {
    fn new(client: Client, events: EventRecorder, effect: Effect, meter: QueueMeter) -> Self {
        Self {
            api: Api::all(client),
            events,
            effect,
            clusters: Store::new(|name, error| {
                tracing::warn!(cluster = name, %error, "cannot read a Cluster: it gets no taints");
                Former::Removed
            }),
            policies: Store::new(|name, error| {
                tracing::warn!(policy = name, %error, "cannot read a ClusterTaintPolicy: it is ignored");
                Former::Kept
            }),
            queue: WorkQueue::with_retry_delays(RETRY_DELAY, RETRY_DELAY).metered(meter),
        }
    }

    fn enqueue_all(&mut self) {
        for name in self.clusters.objects.keys() {
            self.queue.push(name.clone(), (), Priority::High);
        }
    }

    fn handle_cluster_event(&mut self, event: WatchEvent) {
        for Change { name, old, new } in self.clusters.handle(event) {
            // As in Karmada, only a changed condition is handled. A manually removed taint is added again with the next
            // such change.
            if let Some(new) = new
                && old.as_deref().map(conditions) != Some(conditions(&new))
            {
                self.queue.push(name, (), Priority::High);
            }
        }
    }

    fn handle_policy_event(&mut self, event: WatchEvent) {
        for Change { old, new, .. } in self.policies.handle(event) {
            // The taints that a deleted policy added are kept.
            let Some(new) = new else {
                continue;
            };
            let is_changed = old.is_none_or(|old| {
                old.spec != new.spec || old.creation_timestamp() != new.creation_timestamp()
            });
            if is_changed {
                self.record_notice(&new);
                self.enqueue_all();
            }
        }
    }

    /// Returns the policies in the order of their creation, then by name.
    fn policies_in_order(&self) -> Vec<&ClusterTaintPolicySpec> {
        let mut policies: Vec<_> = self.policies.objects.values().collect();
        policies.sort_by_key(|policy| policy.creation_timestamp().map(|time| time.0));
        policies.into_iter().map(|policy| &policy.spec).collect()
    }

    /// Logs and records an event if a policy does not have its full effect.
    fn record_notice(&self, policy: &ClusterTaintPolicy) {
        let Some(message) = self.effect.notice(&policy.spec) else {
            return;
        };
        let name = policy.name_any();
        tracing::warn!(policy = name, "{message}");
        let object = ObjectReference {
            api_version: Some("policy.karmada.io/v1alpha1".to_owned()),
            kind: Some("ClusterTaintPolicy".to_owned()),
            name: Some(name),
            uid: policy.uid(),
            ..ObjectReference::default()
        };
        self.events.record(Event {
            object,
            severity: Severity::Warning,
            reason: "ClusterTaintPolicyWithoutEffect",
            message: message.to_owned(),
        });
    }

    /// Starts a write of a cluster's taints if the desired taints differ from the current ones.
    fn reconcile(&mut self, name: &String, workers: &mut Workers<Outcome>) {
        let Some(cluster) = self.clusters.objects.get(name).cloned() else {
            self.queue.finish(name);
            return;
        };
        let taints = desired(&cluster, &self.policies_in_order(), Timestamp::now());
        if taints == cluster.spec.taints {
            self.queue.finish(name);
            return;
        }
        self.queue.start(name.clone());
        let (api, name) = (self.api.clone(), name.clone());
        workers.start(async move {
            let patch = Patch::Merge(json!({
                "metadata": { "resourceVersion": cluster.resource_version() },
                "spec": { "taints": taints } }));
            let parameters = PatchParams {
                field_manager: Some("berth-taint-policy".to_owned()),
                ..PatchParams::default()
            };
            let result = api.patch(&name, &parameters, &patch).await;
            Outcome { cluster, result }
        });
    }

    fn record(&self, cluster: &Cluster, severity: Severity, reason: &'static str, message: String) {
        let object = ObjectReference {
            api_version: Some("cluster.karmada.io/v1alpha1".to_owned()),
            kind: Some("Cluster".to_owned()),
            name: Some(cluster.name_any()),
            uid: cluster.uid(),
            ..ObjectReference::default()
        };
        self.events.record(Event {
            object,
            severity,
            reason,
            message,
        });
    }
}

fn conditions(cluster: &Cluster) -> &[Condition] {
    let status = cluster.status.as_ref();
    status.map_or(&[], |status| &status.conditions)
}

#[cfg(test)]
mod tests {
    use kube::api::DynamicObject;
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
    fn taints_are_added_and_removed_with_conditions() {
        let now = Timestamp::from_second(0).unwrap();
        let down = json!({ "key": "down", "effect": "NoExecute" });
        let since =
            json!({ "key": "down", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z" });
        let other = json!({ "key": "down", "effect": "NoSchedule" });
        let added =
            json!({ "key": "down", "effect": "NoExecute", "timeAdded": "1970-01-01T00:00:00Z" });
        for (about, ready, before, after) in [
            ("not ready", "False", json!([other]), json!([other, added])),
            ("still not ready", "Unknown", json!([since]), json!([since])),
            ("ready again", "True", json!([since, other]), json!([other])),
            ("ready", "True", json!([]), json!([])),
        ] {
            let found = desired(&cluster(ready, &before), &[&policy(&down)], now);
            assert_eq!(serde_json::to_value(found).unwrap(), after, "{about}");
        }
    }

    #[tokio::test]
    async fn a_recreated_policy_replaces_the_deleted_one() {
        let silent = tower::service_fn(|_: http::Request<kube::client::Body>| async {
            std::future::pending::<Result<http::Response<kube::client::Body>, std::io::Error>>()
                .await
        });
        let client = Client::new(silent, "default");
        let events = EventRecorder::new(client.clone(), COMPONENT).0;
        let mut controller = TaintController::new(
            client,
            events,
            Effect::TaintsAndEvictions,
            QueueMeter::default(),
        );
        for (day, key) in [("01", "down"), ("02", "other")] {
            let object: DynamicObject = serde_json::from_value(json!({
                "metadata": { "name": "p", "creationTimestamp": format!("2026-01-{day}T00:00:00Z") },
                "spec": policy(&json!({ "key": key, "effect": "NoExecute" })) }))
            .unwrap();
            controller.handle_policy_event(WatchEvent::Applied(Box::new(object)));
        }
        let keys: Vec<&str> = controller
            .policies_in_order()
            .into_iter()
            .flat_map(|spec| spec.taints.iter().map(|taint| taint.key.as_str()))
            .collect();
        assert_eq!(keys, ["other"]);
    }

    #[test]
    fn a_policy_without_effect_is_reported_with_the_missing_flag() {
        let policy_with = |effect: &str| policy(&json!({ "key": "down", "effect": effect }));
        for (effect, taint, flag) in [
            (Effect::TaintsAndEvictions, "NoExecute", None),
            (Effect::Taints, "NoSchedule", None),
            (
                Effect::Taints,
                "NoExecute",
                Some("--enable-no-execute-taint-eviction=true"),
            ),
            (
                Effect::GateIsOff,
                "NoSchedule",
                Some("--feature-gates=Failover=true"),
            ),
            (Effect::ControllerIsOff, "NoSchedule", Some("--controllers")),
        ] {
            let notice = effect.notice(&policy_with(taint));
            assert_eq!(notice.is_some(), flag.is_some(), "{effect:?} {taint}");
            assert!(
                notice
                    .unwrap_or_default()
                    .contains(flag.unwrap_or_default())
            );
        }
    }

    #[test]
    fn clusters_that_a_policy_does_not_target_are_unchanged() {
        let down = json!({ "key": "down", "effect": "NoExecute" });
        let mut policy = policy(&down);
        policy.target_clusters =
            Some(serde_json::from_value(json!({ "clusterNames": ["m2"] })).unwrap());
        let now = Timestamp::from_second(0).unwrap();
        assert!(desired(&cluster("False", &json!([])), &[&policy], now).is_empty());
    }
}
