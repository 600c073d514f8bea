//! The scene of the failover tests: a control plane with clusters, a scheduler, and the failover controllers.

use std::time::Duration;

use berth_api::binding::GracefulEvictionTask;
use berth_api::{Cluster, ResourceBinding};
use berth_controllers::ControllerError;
use berth_controllers::failover::{self, FailoverOptions, TaintEviction};
use berth_controllers::monitor::Monitor;
use berth_e2e::events::{self, Wanted};
use berth_e2e::{BareControlPlane, RunningScheduler, eventually, objects, sample};
use berth_metrics::Format;
use berth_scheduler::Options;
use kube::api::{Patch, PatchParams};
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

/// Returns a placement that selects one cluster and has these tolerations.
pub(crate) fn one_cluster(tolerations: &Value) -> Value {
    sample::merged(
        sample::on_best_cluster(),
        json!({ "clusterTolerations": tolerations }),
    )
}

/// Returns a binding of a Deployment with two replicas, with the fields that the detector sets.
pub(crate) fn binding(name: &str, placement: &Value, failover: &Value) -> ResourceBinding {
    let spec = json!({ "replicas": 2, "placement": placement, "failover": failover,
        "propagateDeps": true });
    sample::binding(name, json!({ "spec": spec }))
}

impl Scene {
    /// Starts a control plane, a scheduler and failover. The names of the clusters are `m1`, `m2` and so on.
    pub(crate) async fn start(clusters: usize, options: FailoverOptions) -> Self {
        let fleet: Vec<Cluster> = (1..=clusters)
            .map(|n| sample::cluster_with_capacity(&format!("m{n}"), 100, 1000))
            .collect();
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

    async fn wait_for(
        &self,
        name: &str,
        what: &str,
        wanted: impl Fn(&ResourceBinding) -> bool,
    ) -> ResourceBinding {
        objects::wait_for(&self.bare.bindings("default"), name, what, wanted).await
    }

    /// Waits until the current generation of a binding is scheduled, and returns its clusters.
    pub(crate) async fn wait_until_placed(&self, name: &str) -> Vec<String> {
        let is_placed = |binding: &ResourceBinding| {
            let status = binding.status.clone().unwrap_or_default();
            let observed = status.scheduler_observed_generation == binding.metadata.generation;
            observed && !binding.spec.clusters.is_empty()
        };
        targets(&self.wait_for(name, "placed", is_placed).await)
    }

    /// Waits until a binding is evicted from the cluster `from` and placed again. Returns its new clusters.
    pub(crate) async fn wait_until_moved(&self, name: &str, from: &str) -> Vec<String> {
        let is_evicted = |binding: &ResourceBinding| {
            let mut clusters = binding.spec.clusters.iter();
            clusters.all(|cluster| cluster.name != from)
        };
        self.wait_for(name, "its eviction", is_evicted).await;
        self.wait_until_placed(name).await
    }

    /// Waits until the graceful eviction tasks of a binding satisfy `wanted`, and returns these tasks.
    pub(crate) async fn wait_for_tasks(
        &self,
        name: &str,
        wanted: impl Fn(&[GracefulEvictionTask]) -> bool,
    ) -> Vec<GracefulEvictionTask> {
        let found = self
            .wait_for(name, "its eviction tasks", |binding| {
                wanted(&binding.spec.graceful_eviction_tasks)
            })
            .await;
        found.spec.graceful_eviction_tasks
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
        for kind in ["ResourceBinding", "Deployment"] {
            let wanted = Wanted {
                kind,
                reason,
                message,
                ..Wanted::default()
            };
            events::wait_for(&self.bare.client, "default", wanted).await;
        }
    }

    /// Waits for events with this reason about clusters, and returns their messages.
    pub(crate) async fn wait_for_cluster_events(&self, reason: &str) -> Vec<String> {
        let wanted = Wanted {
            kind: "Cluster",
            reason,
            ..Wanted::default()
        };
        events::wait_for(&self.bare.client, "default", wanted).await;
        let all = events::in_namespace(&self.bare.client, "default").await;
        let found = all.into_iter().filter(|event| wanted.matches(event));
        let mut messages: Vec<String> = found.filter_map(|event| event.message).collect();
        messages.sort_by_key(|message| !message.contains("Key:"));
        messages
    }
}

/// Returns the clusters of a binding.
pub(crate) fn targets(binding: &ResourceBinding) -> Vec<String> {
    let targets = binding.spec.clusters.iter();
    targets.map(|target| target.name.clone()).collect()
}
