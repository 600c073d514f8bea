//! The scene of the failover tests: a control plane with clusters, a scheduler, and the failover controllers.

use std::time::Duration;

use berth_api::binding::GracefulEvictionTask;
use berth_api::{Cluster, ResourceBinding};
use berth_controllers::ControllerError;
use berth_controllers::failover::{self, FailoverOptions, TaintEviction};
use berth_controllers::monitor::Monitor;
use berth_e2e::{BareControlPlane, RunningScheduler, eventually};
use berth_metrics::Format;
use berth_scheduler::Options;
use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Returns options that enable evictions by taints, with a high rate.
pub(crate) fn fast_options() -> FailoverOptions {
    FailoverOptions {
        taint_eviction: Some(TaintEviction {
            rate: 1000.0,
            ..TaintEviction::default()
        }),
        graceful_eviction_timeout: Duration::from_hours(1),
        ..FailoverOptions::default()
    }
}

/// A running control plane, scheduler and failover.
pub(crate) struct Scene {
    pub(crate) bare: BareControlPlane,
    scheduler: RunningScheduler,
    failover: Option<JoinHandle<Result<(), ControllerError>>>,
    monitor: Monitor,
    cancel: CancellationToken,
}

fn cluster(name: &str) -> Cluster {
    let condition = |kind: &str| {
        json!({ "type": kind, "status": "True", "reason": "Ok", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z" })
    };
    serde_json::from_value(json!({
        "metadata": { "name": name },
        "spec": { "syncMode": "Push" },
        "status": {
            "apiEnablements": [{ "groupVersion": "apps/v1",
                "resources": [{ "name": "deployments", "kind": "Deployment" }] }],
            "conditions": [condition("Ready"), condition("CompleteAPIEnablements")],
            "resourceSummary": { "allocatable": { "cpu": "100", "memory": "1Ti", "pods": "1000" } },
        },
    }))
    .unwrap()
}

/// Returns a placement that selects one cluster and has these tolerations.
pub(crate) fn one_cluster(tolerations: &Value) -> Value {
    json!({
        "clusterTolerations": tolerations,
        "spreadConstraints": [{ "spreadByField": "cluster", "minGroups": 1, "maxGroups": 1 }],
    })
}

/// Returns a binding of a Deployment with two replicas, with the fields that the detector sets.
pub(crate) fn binding(name: &str, placement: &Value, failover: &Value) -> ResourceBinding {
    serde_json::from_value(json!({
        "metadata": { "name": name, "namespace": "default",
            "labels": { "propagationpolicy.karmada.io/permanent-id": "p" } },
        "spec": {
            "resource": { "apiVersion": "apps/v1", "kind": "Deployment",
                "namespace": "default", "name": name, "uid": format!("uid-of-{name}") },
            "replicas": 2,
            "placement": placement,
            "failover": failover,
            "propagateDeps": true,
        },
    }))
    .unwrap()
}

impl Scene {
    /// Starts a control plane, a scheduler and failover. The names of the clusters are `m1`, `m2` and so on.
    pub(crate) async fn start(clusters: usize, options: FailoverOptions) -> Self {
        let fleet: Vec<Cluster> = (1..=clusters).map(|n| cluster(&format!("m{n}"))).collect();
        let bare = BareControlPlane::start(&fleet).await;
        let cancel = CancellationToken::new();
        let client = bare.remote_client().await;
        let monitor = Monitor::default();
        Self {
            scheduler: RunningScheduler::start(Options::embedded(), client.clone()),
            failover: Some(tokio::spawn(failover::run(
                client,
                options,
                monitor.clone(),
                cancel.clone(),
            ))),
            monitor,
            cancel,
            bare,
        }
    }

    /// Stops failover. [`Self::restart`] starts it again.
    pub(crate) async fn stop_failover(&mut self) {
        self.cancel.cancel();
        if let Some(failover) = self.failover.take() {
            failover.await.unwrap().unwrap();
        }
    }

    /// Restarts failover with other options.
    pub(crate) async fn restart(&mut self, options: FailoverOptions) {
        self.stop_failover().await;
        self.cancel = CancellationToken::new();
        let client = self.bare.remote_client().await;
        self.monitor = Monitor::default();
        self.failover = Some(tokio::spawn(failover::run(
            client,
            options,
            self.monitor.clone(),
            self.cancel.clone(),
        )));
    }

    pub(crate) async fn stop(mut self) {
        self.stop_failover().await;
        self.scheduler.stop().await.unwrap();
        self.bare.stop().await;
    }

    pub(crate) async fn get(&self, name: &str) -> ResourceBinding {
        self.bare.bindings("default").get(name).await.unwrap()
    }

    /// Waits until the current generation of a binding is scheduled, and returns its clusters.
    pub(crate) async fn wait_until_placed(&self, name: &str) -> Vec<String> {
        eventually("the binding to be placed", async || {
            let binding = self.get(name).await;
            let status = binding.status.clone().unwrap_or_default();
            let observed = status.scheduler_observed_generation == binding.metadata.generation;
            let clusters = targets(&binding);
            if observed && !clusters.is_empty() {
                Ok(clusters)
            } else {
                Err(format!("{:?}", binding.spec))
            }
        })
        .await
    }

    /// Waits until a binding is evicted from the cluster `from` and placed again. Returns its new clusters.
    pub(crate) async fn wait_until_moved(&self, name: &str, from: &str) -> Vec<String> {
        eventually("the eviction of the binding", async || {
            let clusters = targets(&self.get(name).await);
            if clusters.iter().any(|cluster| cluster == from) {
                Err("not yet")
            } else {
                Ok(())
            }
        })
        .await;
        self.wait_until_placed(name).await
    }

    /// Waits until the graceful eviction tasks of a binding satisfy `wanted`, and returns these tasks.
    pub(crate) async fn wait_for_tasks(
        &self,
        name: &str,
        wanted: impl Fn(&[GracefulEvictionTask]) -> bool,
    ) -> Vec<GracefulEvictionTask> {
        eventually("the eviction tasks", async || {
            let tasks = self.get(name).await.spec.graceful_eviction_tasks;
            if wanted(&tasks) {
                Ok(tasks)
            } else {
                Err(format!("{tasks:?}"))
            }
        })
        .await
    }

    /// Waits until failover has handled all earlier changes of bindings. For this, creates a binding with an eviction
    /// task that failover removes at once, and waits for the removal.
    pub(crate) async fn wait_until_drained_up_to_now(&self) {
        let mut marker = binding("marker", &one_cluster(&json!([])), &json!({}));
        let task = json!({ "fromCluster": "gone", "reason": "Manual", "producer": "test",
            "suppressDeletion": false });
        marker.spec.graceful_eviction_tasks = vec![serde_json::from_value(task).unwrap()];
        self.bare.bind(&marker).await;
        self.wait_for_tasks("marker", <[_]>::is_empty).await;
    }

    /// Waits until the metrics of failover contain this line.
    pub(crate) async fn wait_for_metric(&self, line: &str) {
        eventually(line, async || {
            let text = Format::Text.render(|registry| self.monitor.register(registry));
            if text.lines().any(|found| found == line) {
                Ok(())
            } else {
                Err(text)
            }
        })
        .await;
    }

    /// Replaces the taints of a cluster.
    pub(crate) async fn taint(&self, name: &str, taints: &Value) {
        let patch = Patch::Merge(json!({ "spec": { "taints": taints } }));
        let parameters = PatchParams::default();
        let clusters = self.bare.clusters();
        clusters.patch(name, &parameters, &patch).await.unwrap();
    }

    /// Sets the condition `Ready` of a cluster.
    pub(crate) async fn report_ready(&self, name: &str, ready: bool) {
        let conditions = json!([{ "type": "Ready", "status": if ready { "True" } else { "False" },
            "reason": "Test", "message": "", "lastTransitionTime": jiff::Timestamp::now() }]);
        let patch = Patch::Merge(json!({ "status": { "conditions": conditions } }));
        let (clusters, parameters) = (self.bare.clusters(), PatchParams::default());
        clusters
            .patch_status(name, &parameters, &patch)
            .await
            .unwrap();
    }

    /// Changes the replicas of a binding.
    pub(crate) async fn scale(&self, name: &str, replicas: i32) {
        let patch = Patch::Merge(json!({ "spec": { "replicas": replicas } }));
        let (bindings, parameters) = (self.bare.bindings("default"), PatchParams::default());
        bindings.patch(name, &parameters, &patch).await.unwrap();
    }

    /// Waits until a binding has these clusters and replicas.
    pub(crate) async fn wait_for_clusters(&self, name: &str, wanted: &[(&str, i32)]) {
        eventually(&format!("clusters {wanted:?} of {name}"), async || {
            let mut clusters = self.get(name).await.spec.clusters;
            clusters.sort_by(|a, b| a.name.cmp(&b.name));
            let found: Vec<(&str, i32)> = clusters
                .iter()
                .map(|cluster| (cluster.name.as_str(), cluster.replicas))
                .collect();
            if found == wanted {
                Ok(())
            } else {
                Err(format!("{found:?}"))
            }
        })
        .await;
    }

    /// Writes the health of a resource in its clusters into the status of its binding.
    pub(crate) async fn report(&self, name: &str, health: &[(&str, &str)]) {
        let items: Vec<Value> = health
            .iter()
            .map(|(cluster, health)| json!({ "clusterName": cluster, "health": health }))
            .collect();
        self.report_items(name, &json!(items)).await;
    }

    /// Replaces the aggregated status of a binding.
    pub(crate) async fn report_items(&self, name: &str, items: &Value) {
        let patch = Patch::Merge(json!({ "status": { "aggregatedStatus": items } }));
        let bindings = self.bare.bindings("default");
        let parameters = PatchParams::default();
        bindings
            .patch_status(name, &parameters, &patch)
            .await
            .unwrap();
    }

    /// Waits until a binding and its template both have an event with this reason and message.
    pub(crate) async fn wait_for_event(&self, reason: &str, message: &str) {
        let events: Api<Event> = Api::namespaced(self.bare.client.clone(), "default");
        eventually(message, async || {
            let all = events.list(&ListParams::default()).await.unwrap().items;
            let is_recorded_for = |kind: &str| {
                all.iter().any(|event| {
                    event.reason.as_deref() == Some(reason)
                        && event.message.as_deref() == Some(message)
                        && event.involved_object.kind.as_deref() == Some(kind)
                })
            };
            if is_recorded_for("ResourceBinding") && is_recorded_for("Deployment") {
                Ok(())
            } else {
                Err(format!("{all:?}"))
            }
        })
        .await;
    }

    /// Waits for events with this reason about clusters, and returns their messages.
    pub(crate) async fn wait_for_cluster_events(&self, reason: &str) -> Vec<String> {
        let events: Api<Event> = Api::namespaced(self.bare.client.clone(), "default");
        eventually("the events", async || {
            let all = events.list(&ListParams::default()).await.unwrap().items;
            let found = all.into_iter().filter(|event| {
                event.reason.as_deref() == Some(reason)
                    && event.involved_object.kind.as_deref() == Some("Cluster")
            });
            let mut messages: Vec<String> = found.filter_map(|event| event.message).collect();
            messages.sort_by_key(|message| !message.contains("Key:"));
            if messages.is_empty() {
                Err("none")
            } else {
                Ok(messages)
            }
        })
        .await
    }
}

/// Returns the clusters of a binding.
pub(crate) fn targets(binding: &ResourceBinding) -> Vec<String> {
    let targets = binding.spec.clusters.iter();
    targets.map(|target| target.name.clone()).collect()
}
