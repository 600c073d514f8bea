//! A fixture for tests of extenders: a control plane with four clusters, a scheduler with extenders, and bindings to
//! schedule.

use berth_api::well_known::CONDITION_SCHEDULED;
use berth_api::{Cluster, ResourceBinding};
use berth_e2e::{BareControlPlane, RunningScheduler, eventually};
use berth_scheduler::Options;
use berth_scheduler::config::{Declared, Document, ProfileFlags, SchedulerConfiguration};
use berth_scheduler::framework::Registry;
use serde_json::{Value, json};

/// A control plane with four clusters and no scheduler.
pub(crate) struct Plane {
    pub(crate) bare: BareControlPlane,
}

/// A control plane with four clusters and a scheduler.
pub(crate) struct Fixture {
    pub(crate) bare: BareControlPlane,
    pub(crate) scheduler: RunningScheduler,
}

/// The result of scheduling a binding: its clusters, or the reason and the message of its `Scheduled` condition.
pub(crate) type Outcome = Result<Vec<String>, (String, String)>;

impl Plane {
    pub(crate) async fn start() -> Self {
        let clusters: Vec<_> = (1..=4).map(cluster).collect();
        let bare = BareControlPlane::start(&clusters).await;
        Self { bare }
    }

    /// Starts a scheduler with these extenders.
    pub(crate) fn with_extenders(self, extenders: Value) -> Fixture {
        self.with_configuration(json!({ "extenders": extenders }))
    }

    /// Starts a scheduler with this configuration.
    pub(crate) fn with_configuration(self, text: Value) -> Fixture {
        self.with_plugins(Registry::new(), text)
    }

    /// Starts a scheduler with these plugins and this configuration.
    pub(crate) fn with_plugins(self, registry: Registry, mut text: Value) -> Fixture {
        let Self { bare } = self;
        text["apiVersion"] = json!("scheduler.config.berth/v1alpha1");
        text["kind"] = json!("SchedulerConfiguration");
        let document = Document::read("test", &text.to_string()).unwrap();
        let configuration: SchedulerConfiguration = document.parse().unwrap();
        let flags = ProfileFlags {
            scheduler_name: Some("default-scheduler".to_owned()),
            plugins: None,
        };
        let options = Options {
            registry,
            declared: Declared::from_document(document, configuration, flags).unwrap(),
            ..Options::embedded()
        };
        let scheduler = RunningScheduler::start(options, bare.client.clone());
        Fixture { bare, scheduler }
    }
}

impl Fixture {
    /// Starts a control plane with four clusters and a scheduler with these extenders.
    pub(crate) async fn start(extenders: Value) -> Self {
        Plane::start().await.with_extenders(extenders)
    }

    /// Creates a binding, and waits for its first [`Outcome`].
    pub(crate) async fn schedule(&self, binding: &ResourceBinding) -> Outcome {
        self.bare.bind(binding).await;
        self.outcome(binding.metadata.name.as_deref().unwrap())
            .await
    }

    /// Waits until a binding has a `Scheduled` condition, and returns its [`Outcome`].
    pub(crate) async fn outcome(&self, name: &str) -> Outcome {
        let api = self.bare.bindings("default");
        eventually(&format!("the condition of {name}"), async || {
            let binding = api.get(name).await.map_err(|error| error.to_string())?;
            let status = binding.status.unwrap_or_default();
            let mut conditions = status.conditions.into_iter();
            let scheduled = conditions.find(|condition| condition.type_ == CONDITION_SCHEDULED);
            let scheduled = scheduled.ok_or("it has none")?;
            let clusters = binding.spec.clusters.into_iter();
            Ok::<_, String>(if scheduled.status == "True" {
                let mut names: Vec<_> = clusters.map(|cluster| cluster.name).collect();
                names.sort_unstable();
                Ok(names)
            } else {
                Err((scheduled.reason, scheduled.message))
            })
        })
        .await
    }

    pub(crate) async fn stop(self) {
        self.scheduler.stop().await.unwrap();
        self.bare.stop().await;
    }
}

/// Returns a ready cluster named `m` plus its number.
fn cluster(number: u32) -> Cluster {
    let condition = |kind: &str| {
        json!({ "type": kind, "status": "True", "reason": "Ok", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z" })
    };
    serde_json::from_value(json!({
        "metadata": { "name": format!("m{number}"), "labels": { "number": number.to_string() } },
        "spec": { "syncMode": "Push" },
        "status": {
            "apiEnablements": [
                { "groupVersion": "apps/v1", "resources": [{ "name": "deployments", "kind": "Deployment" }] },
                { "groupVersion": "v1", "resources": [{ "name": "configmaps", "kind": "ConfigMap" }] },
            ],
            "conditions": [condition("Ready"), condition("CompleteAPIEnablements")],
        },
    }))
    .unwrap()
}

/// Returns a binding of a Deployment. Its placement selects all clusters.
pub(crate) fn to_all_clusters(name: &str) -> ResourceBinding {
    binding(name, "apps/v1", "Deployment", json!({}))
}

/// Returns a binding of a Deployment. Its placement selects one cluster, which is the cluster with the best score.
pub(crate) fn to_best_cluster(name: &str) -> ResourceBinding {
    let one = json!([{ "spreadByField": "cluster", "minGroups": 1, "maxGroups": 1 }]);
    binding(
        name,
        "apps/v1",
        "Deployment",
        json!({ "spreadConstraints": one }),
    )
}

/// Returns a binding of a ConfigMap. Its placement selects all clusters.
pub(crate) fn config_map(name: &str) -> ResourceBinding {
    binding(name, "v1", "ConfigMap", json!({}))
}

fn binding(name: &str, api_version: &str, kind: &str, placement: Value) -> ResourceBinding {
    let replicas = i32::from(kind == "Deployment");
    serde_json::from_value(json!({
        "metadata": { "name": name, "namespace": "default",
            "labels": { "propagationpolicy.karmada.io/permanent-id": "p" } },
        "spec": {
            "resource": { "apiVersion": api_version, "kind": kind, "namespace": "default",
                "name": name, "uid": format!("uid-of-{name}") },
            "replicas": replicas, "placement": placement,
        },
    }))
    .unwrap()
}
