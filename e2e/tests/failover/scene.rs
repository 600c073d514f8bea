//! A fleet, a scheduler, and failover.

use std::time::Duration;

use berth_api::binding::GracefulEvictionTask;
use berth_api::{Cluster, ResourceBinding};
use berth_controllers::ControllerError;
use berth_controllers::failover::{self, FailoverOptions, TaintEviction};
use berth_e2e::{Bare, Running, eventually};
use berth_scheduler::Options;
use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Evictions by taints, as fast as a test likes it.
pub(crate) fn quick() -> FailoverOptions {
    FailoverOptions {
        taint_eviction: Some(TaintEviction {
            rate: 1000.0,
            ..TaintEviction::default()
        }),
        graceful_eviction_timeout: Duration::from_hours(1),
        ..FailoverOptions::default()
    }
}

/// Two clusters, or more.
pub(crate) struct Scene {
    pub(crate) bare: Bare,
    scheduler: Running,
    failover: JoinHandle<Result<(), ControllerError>>,
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

/// A placement on one of all clusters, with these tolerations.
pub(crate) fn on_one(tolerations: &Value) -> Value {
    json!({
        "clusterTolerations": tolerations,
        "spreadConstraints": [{ "spreadByField": "cluster", "minGroups": 1, "maxGroups": 1 }],
    })
}

/// A binding of a Deployment with two replicas, as the detector makes it.
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
    /// So many clusters, `m1` and so on.
    pub(crate) async fn start(clusters: usize, options: FailoverOptions) -> Self {
        let fleet: Vec<Cluster> = (1..=clusters).map(|n| cluster(&format!("m{n}"))).collect();
        let bare = Bare::start(&fleet).await;
        let cancel = CancellationToken::new();
        let client = bare.remote_client().await;
        Self {
            scheduler: Running::start(Options::embedded(), client.clone()),
            failover: tokio::spawn(failover::run(client, options, cancel.clone())),
            cancel,
            bare,
        }
    }

    /// The same control plane with failover started anew.
    pub(crate) async fn restart(&mut self, options: FailoverOptions) {
        self.cancel.cancel();
        (&mut self.failover).await.unwrap().unwrap();
        self.cancel = CancellationToken::new();
        let client = self.bare.remote_client().await;
        self.failover = tokio::spawn(failover::run(client, options, self.cancel.clone()));
    }

    pub(crate) async fn stop(self) {
        self.cancel.cancel();
        self.failover.await.unwrap().unwrap();
        self.scheduler.stop().await.unwrap();
        self.bare.stop().await;
    }

    pub(crate) async fn get(&self, name: &str) -> ResourceBinding {
        self.bare.bindings("default").get(name).await.unwrap()
    }

    /// Waits until the binding has been scheduled as it is, and returns its clusters.
    pub(crate) async fn placed(&self, name: &str) -> Vec<String> {
        eventually("the binding to be placed", async || {
            let binding = self.get(name).await;
            let status = binding.status.clone().unwrap_or_default();
            let seen = status.scheduler_observed_generation == binding.metadata.generation;
            let clusters = targets(&binding);
            if seen && !clusters.is_empty() {
                Ok(clusters)
            } else {
                Err(format!("{:?}", binding.spec))
            }
        })
        .await
    }

    /// Waits until the binding has left a cluster and is placed elsewhere; returns the place.
    pub(crate) async fn moved(&self, name: &str, from: &str) -> Vec<String> {
        eventually("the binding to leave", async || {
            let clusters = targets(&self.get(name).await);
            if clusters.iter().any(|cluster| cluster == from) {
                Err("not yet")
            } else {
                Ok(())
            }
        })
        .await;
        self.placed(name).await
    }

    /// Waits until its eviction tasks are such, and returns them.
    pub(crate) async fn tasks(
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

    pub(crate) async fn taint(&self, name: &str, taints: &Value) {
        let patch = Patch::Merge(json!({ "spec": { "taints": taints } }));
        let parameters = PatchParams::default();
        let clusters = self.bare.clusters();
        clusters.patch(name, &parameters, &patch).await.unwrap();
    }

    /// Reports the health of a binding in its clusters.
    pub(crate) async fn report(&self, name: &str, health: &[(&str, &str)]) {
        let items: Vec<Value> = health
            .iter()
            .map(|(cluster, health)| json!({ "clusterName": cluster, "health": health }))
            .collect();
        self.report_items(name, &json!(items)).await;
    }

    /// Reports of a binding what its clusters say.
    pub(crate) async fn report_items(&self, name: &str, items: &Value) {
        let patch = Patch::Merge(json!({ "status": { "aggregatedStatus": items } }));
        let bindings = self.bare.bindings("default");
        let parameters = PatchParams::default();
        bindings
            .patch_status(name, &parameters, &patch)
            .await
            .unwrap();
    }

    /// Waits until events of this reason are told of the binding and of its template; returns their messages.
    pub(crate) async fn told(&self, reason: &str) -> Vec<String> {
        let events: Api<Event> = Api::namespaced(self.bare.client.clone(), "default");
        eventually("the events", async || {
            let all = events.list(&ListParams::default()).await.unwrap().items;
            let found: Vec<&Event> = all
                .iter()
                .filter(|event| event.reason.as_deref() == Some(reason))
                .collect();
            let of = |kind: &str| {
                let mut found = found.iter();
                found.any(|event| event.involved_object.kind.as_deref() == Some(kind))
            };
            if of("ResourceBinding") && of("Deployment") {
                Ok(found
                    .iter()
                    .filter_map(|event| event.message.clone())
                    .collect())
            } else {
                Err(format!("{} of them", found.len()))
            }
        })
        .await
    }

    /// Waits until events of this reason are told of a cluster, at least one; returns their messages.
    pub(crate) async fn told_of_clusters(&self, reason: &str) -> Vec<String> {
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

pub(crate) fn targets(binding: &ResourceBinding) -> Vec<String> {
    let targets = binding.spec.clusters.iter();
    targets.map(|target| target.name.clone()).collect()
}
