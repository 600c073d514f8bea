//! The scene of the tests of gangs and preemption: a control plane with the member cluster m1, whose capacity a test
//! sets, and a scheduler with an example configuration.

use std::path::Path;

use berth_api::{Cluster, ResourceBinding};
use berth_e2e::events::{self, Wanted};
use berth_e2e::{BareControlPlane, RunningScheduler, eventually, sample};
use berth_scheduler::Options;
use berth_scheduler::config::{DeclaredProfiles, Document, ProfileFlags, SchedulerConfiguration};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

/// A running control plane with one cluster. The scheduler may not run yet.
pub(crate) struct Scene {
    pub(crate) bare: BareControlPlane,
    scheduler: Option<RunningScheduler>,
}

impl Scene {
    /// Starts a control plane with the cluster m1 and no scheduler.
    pub(crate) async fn with_cores(cores: u32) -> Self {
        Self {
            bare: BareControlPlane::start(&[cluster(cores)]).await,
            scheduler: None,
        }
    }

    /// Starts a control plane with the cluster m1, and a scheduler with the configuration of an example.
    pub(crate) async fn start(cores: u32, example: &str) -> Self {
        let mut scene = Self::with_cores(cores).await;
        scene.start_scheduler(&configuration(example));
        scene
    }

    /// Starts a scheduler with this configuration.
    pub(crate) fn start_scheduler(&mut self, configuration: &str) {
        let client = self.bare.client.clone();
        self.start_scheduler_with(client, configuration);
    }

    /// Starts a scheduler with this client and this configuration.
    pub(crate) fn start_scheduler_with(&mut self, client: Client, configuration: &str) {
        let document = Document::read("test", configuration).unwrap();
        let configuration: SchedulerConfiguration = document.parse().unwrap();
        let flags = ProfileFlags::default();
        let options = Options {
            declared: DeclaredProfiles::from_document(document, configuration, flags).unwrap(),
            ..Options::embedded()
        };
        self.scheduler = Some(RunningScheduler::start(options, client));
    }

    /// Stops the scheduler.
    pub(crate) async fn stop_scheduler(&mut self) {
        if let Some(scheduler) = self.scheduler.take() {
            scheduler.stop().await.unwrap();
        }
    }

    /// Creates the Deployment that a binding propagates.
    pub(crate) async fn create_template(&self, name: &str, labels: Value, resources: Value) {
        let deployment: Deployment = serde_json::from_value(json!({
            "metadata": { "name": name, "namespace": "default", "labels": labels },
            "spec": {
                "selector": { "matchLabels": { "app": name } },
                "template": {
                    "metadata": { "labels": { "app": name } },
                    "spec": { "containers": [
                        { "name": "main", "image": "nginx", "resources": resources }] },
                },
            },
        }))
        .unwrap();
        let api: Api<Deployment> = Api::namespaced(self.bare.client.clone(), "default");
        api.create(&PostParams::default(), &deployment)
            .await
            .unwrap();
    }

    /// Sends a merge patch of a binding.
    pub(crate) async fn edit(&self, name: &str, change: Value) {
        let api = self.bare.bindings("default");
        let patch = Patch::Merge(change);
        api.patch(name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    /// Writes into the status of a binding that its resource is healthy in m1.
    pub(crate) async fn report_healthy(&self, name: &str) {
        let status = json!({ "status": { "aggregatedStatus": [
            { "clusterName": "m1", "health": "Healthy" }] } });
        let api = self.bare.bindings("default");
        let patch = Patch::Merge(status);
        api.patch_status(name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    /// Writes the total and the allocated CPU cores into the status of m1.
    pub(crate) async fn report_capacity(&self, cores: u32, allocated: u32) {
        let patch =
            Patch::Merge(json!({ "status": { "resourceSummary": summary(cores, allocated) } }));
        let api = self.bare.clusters();
        api.patch_status("m1", &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    /// Waits until a binding is placed.
    pub(crate) async fn wait_until_placed(&self, name: &str) {
        self.wait_for(name, |binding, condition| {
            condition.status == "True" && !binding.spec.clusters.is_empty()
        })
        .await;
    }

    /// Waits until a binding has no cluster and its condition `Scheduled` is false, with a message that contains
    /// `message`.
    pub(crate) async fn wait_until_unplaced(&self, name: &str, message: &str) -> ResourceBinding {
        self.wait_for(name, |binding, condition| {
            condition.status == "False"
                && condition.message.contains(message)
                && binding.spec.clusters.is_empty()
        })
        .await
    }

    /// Waits until a member of a gang is rejected, because this member or another member does not fit.
    pub(crate) async fn wait_until_rejected(&self, name: &str) {
        self.wait_for(name, |binding, condition| {
            let reports = |text| condition.message.contains(text);
            binding.spec.clusters.is_empty()
                && (reports("does not fit") || reports("not enough") || reports("was rejected"))
        })
        .await;
    }

    /// Waits until a binding and its condition `Scheduled` satisfy `wanted`, and returns the binding.
    pub(crate) async fn wait_for(
        &self,
        name: &str,
        wanted: impl Fn(&ResourceBinding, &Condition) -> bool,
    ) -> ResourceBinding {
        eventually(&format!("the condition of {name}"), async || {
            let binding = self.bare.bindings("default").get(name).await;
            let binding = binding.map_err(|error| error.to_string())?;
            let conditions = binding.status.iter().flat_map(|status| &status.conditions);
            let mut scheduled = conditions.filter(|condition| condition.type_ == "Scheduled");
            match scheduled.next() {
                Some(condition) if wanted(&binding, condition) => Ok(binding.clone()),
                condition => Err(format!("{condition:?} on {:?}", binding.spec.clusters)),
            }
        })
        .await
    }

    /// Waits until the scheduler has processed the current state of a binding.
    pub(crate) async fn wait_until_processed(&self, name: &str) {
        // Wait for a binding that is created now, because the scheduler processes it after the earlier binding. An
        // unschedulable binding has no observed generation to wait for.
        let marker = format!("after-{name}");
        let mut after = binding(&marker, 0, json!({}));
        after.spec.replicas = 0;
        self.bare.bind(&after).await;
        self.wait_for(&marker, |_, condition| condition.status == "True")
            .await;
    }

    /// Waits for an event about a binding, with this reason and a message that contains `message`.
    pub(crate) async fn wait_for_event(&self, name: &str, reason: &str, message: &str) {
        let wanted = Wanted {
            kind: "ResourceBinding",
            name,
            reason,
            text: message,
            ..Wanted::default()
        };
        events::wait_for(&self.bare.client, "default", wanted).await;
    }

    pub(crate) async fn stop(mut self) {
        self.stop_scheduler().await;
        self.bare.stop().await;
    }
}

/// Returns the configuration of an example in `examples`.
pub(crate) fn configuration(example: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    std::fs::read_to_string(root.join(example).join("config.yaml")).unwrap()
}

/// Returns a resource summary with these total and allocated CPU cores.
fn summary(cores: u32, allocated: u32) -> Value {
    json!({ "allocatable": { "cpu": cores.to_string(), "pods": "110" },
        "allocated": { "cpu": allocated.to_string() } })
}

fn cluster(cores: u32) -> Cluster {
    let summary = json!({ "status": { "resourceSummary": summary(cores, 0) } });
    sample::cluster("m1", summary)
}

/// Returns a binding of a Deployment, each of whose replicas requests one CPU core. `changes` is merged into the
/// binding.
pub(crate) fn binding(name: &str, replicas: i32, changes: Value) -> ResourceBinding {
    let spec = json!({
        "replicas": replicas,
        "replicaRequirements": { "resourceRequest": { "cpu": "1" } },
        "placement": sample::by_available_replicas(),
    });
    sample::binding(name, sample::merged(json!({ "spec": spec }), changes))
}
