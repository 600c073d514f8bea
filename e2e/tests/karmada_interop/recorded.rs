//! Takeover of recorded objects that Karmada's programs wrote. Berth's controllers and scheduler must keep these
//! objects, and the controllers must create the recorded Works.
//!
//! The recordings are in `e2e/data/karmada_interop`. They contain the objects in the middle of the
//! [`scenario`](crate::scenario), which ran once with Karmada's scheduler and once with Karmada's controllers.
//! `cargo run -p berth-e2e --bin record objects` records them again.

use std::collections::BTreeMap;

use berth_api::Cluster;
use berth_controllers::detector::{self, DetectorOptions};
use berth_controllers::monitor::Monitor;
use berth_controllers::propagation::{self, PropagationOptions, StaleStatus};
use berth_controllers::recent_templates::RecentTemplates;
use berth_e2e::objects::{api, handle};
use berth_e2e::{BareControlPlane, RunningScheduler, eventually};
use berth_scheduler::Options;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::manifests::{config_map, policy};

const BINDINGS: [&str; 2] = ["bindings", "clusterBindings"];

/// A recording: a JSON object with a list of objects for each kind.
struct Recording(Value);

impl Recording {
    fn of_karmadas_scheduler() -> Self {
        Self::parse(include_str!(
            "../../data/karmada_interop/karmada-scheduler.json"
        ))
    }

    fn of_karmadas_controllers() -> Self {
        Self::parse(include_str!(
            "../../data/karmada_interop/karmada-controllers.json"
        ))
    }

    fn parse(text: &str) -> Self {
        Self(serde_json::from_str(text).unwrap())
    }

    fn of(&self, kind: &str) -> Vec<Value> {
        self.0[kind].as_array().unwrap().clone()
    }

    fn templates(&self) -> Vec<Value> {
        ["deployments", "configMaps", "clusterRoles"]
            .map(|kind| self.of(kind))
            .concat()
    }

    fn bindings(&self) -> Vec<Value> {
        BINDINGS.map(|kind| self.of(kind)).concat()
    }

    fn policies(&self) -> Vec<Value> {
        ["policies", "clusterPolicies"]
            .map(|kind| self.of(kind))
            .concat()
    }

    /// Returns the Works of bindings. Omits the Works that Karmada's controllers create for each member.
    fn works(&self) -> Vec<Value> {
        let mut works = self.of("works");
        works.retain(|work| {
            work["metadata"]["annotations"]
                .as_object()
                .is_some_and(|all| {
                    all.keys()
                        .any(|key| key.ends_with("resourcebinding.karmada.io/name"))
                })
        });
        works
    }

    /// Replaces a text in all recorded objects.
    fn replaced(self, from: &str, to: &str) -> Self {
        Self::parse(&self.0.to_string().replace(from, to))
    }
}

/// Starts a control plane with the clusters of a recording. No servers of these clusters exist.
async fn control_plane(recording: &Recording) -> BareControlPlane {
    let mut clusters = recording.of("clusters");
    for cluster in &mut clusters {
        cluster["metadata"] = json!({ "name": cluster["metadata"]["name"] });
    }
    let clusters: Vec<Cluster> = serde_json::from_value(json!(clusters)).unwrap();
    let bare = BareControlPlane::start(&clusters).await;
    let members = clusters
        .iter()
        .filter_map(|cluster| cluster.metadata.name.as_deref());
    let namespaces: Vec<String> = members.map(berth_api::names::execution_namespace).collect();
    bare.add_namespaces(&namespaces).await;
    bare
}

/// Stores an object with its status, and returns the stored object. Changes the replicas repeatedly until the object
/// has its recorded generation.
async fn store(bare: &BareControlPlane, recorded: &Value) -> Value {
    let mut object = recorded.clone();
    let metadata = object["metadata"].as_object_mut().unwrap();
    for assigned in [
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "generation",
        "managedFields",
    ] {
        metadata.remove(assigned);
    }
    let (api, name) = handle(&bare.client, &object);
    let generation = recorded["metadata"]["generation"].as_i64().unwrap_or(1);
    let counted = match object["kind"].as_str().unwrap() {
        "Deployment" => Some("replicas"),
        kind if kind.ends_with("Binding") => Some("replicas"),
        _ => None,
    };
    let wanted = counted.map(|field| object["spec"][field].clone());
    if let (Some(field), true) = (counted, generation > 1) {
        object["spec"][field] = json!(1000);
    }
    let typed: DynamicObject = serde_json::from_value(object.clone()).unwrap();
    let parameters = PatchParams::default();
    let mut stored = api.create(&PostParams::default(), &typed).await.unwrap();
    for step in 2..=generation {
        let Some(field) = counted else { break };
        let value = if step == generation {
            wanted.clone()
        } else {
            Some(json!(1000 + step))
        };
        let patch = Patch::Merge(json!({ "spec": { field: value } }));
        stored = api.patch(&name, &parameters, &patch).await.unwrap();
    }
    if !object["status"].is_null() {
        let patch = Patch::Merge(json!({ "status": object["status"] }));
        stored = api.patch_status(&name, &parameters, &patch).await.unwrap();
    }
    serde_json::to_value(stored).unwrap()
}

/// Stores the templates of a recording. Returns the recording with the UIDs of the stored templates. The bindings in it
/// name the resource versions of the stored templates.
async fn store_templates(bare: &BareControlPlane, mut recording: Recording) -> Recording {
    for template in recording.templates() {
        let stored = store(bare, &template).await;
        let uid = |object: &Value| object["metadata"]["uid"].as_str().unwrap().to_owned();
        recording = recording.replaced(&uid(&template), &uid(&stored));
        for kind in BINDINGS {
            for binding in recording.0[kind].as_array_mut().unwrap() {
                let resource = &mut binding["spec"]["resource"];
                if resource["uid"] == stored["metadata"]["uid"] {
                    resource["resourceVersion"] = stored["metadata"]["resourceVersion"].clone();
                }
            }
        }
    }
    recording
}

/// Returns the current resource versions of these objects.
async fn versions(bare: &BareControlPlane, objects: &[Value]) -> BTreeMap<String, String> {
    let mut versions = BTreeMap::new();
    for object in objects {
        let (api, name) = handle(&bare.client, object);
        let stored = api.get(&name).await.unwrap();
        let key = format!(
            "{} {} {name}",
            object["kind"], object["metadata"]["namespace"]
        );
        versions.insert(key, stored.metadata.resource_version.unwrap());
    }
    versions
}

/// Returns the fields of a Work that two servers must set equally. A fixed text replaces the permanent id of the Work.
fn comparable(work: &Value) -> Value {
    let mut work = json!({
        "name": work["metadata"]["name"], "namespace": work["metadata"]["namespace"],
        "labels": work["metadata"]["labels"], "annotations": work["metadata"]["annotations"],
        "finalizers": work["metadata"]["finalizers"], "spec": work["spec"],
    });
    let id = "work.karmada.io/permanent-id";
    work["labels"][id] = json!("its own");
    work["spec"]["workload"]["manifests"][0]["metadata"]["labels"][id] = json!("its own");
    work
}

/// Lists all Works. The request may fail for a moment after the CustomResourceDefinition was created.
async fn works(bare: &BareControlPlane) -> Result<BTreeMap<String, Value>, String> {
    let api = api(&bare.client, "work.karmada.io/v1alpha1", "Work", None);
    let all = api.list(&ListParams::default()).await;
    let all = all.map_err(|error| error.to_string())?;
    let all = all
        .items
        .into_iter()
        .map(|work| comparable(&serde_json::to_value(work).unwrap()));
    Ok(all
        .map(|work| (format!("{}/{}", work["namespace"], work["name"]), work))
        .collect())
}

/// The running controllers of Berth that create bindings from policies, and Works from bindings.
struct Controllers {
    cancel: CancellationToken,
    running: Vec<JoinHandle<()>>,
}

impl Controllers {
    fn start(bare: &BareControlPlane) -> Self {
        let cancel = CancellationToken::new();
        let observed = RecentTemplates::default();
        let templates = observed.clone();
        let (client, token) = (bare.client.clone(), cancel.clone());
        let propagating = tokio::spawn(async move {
            // The recording has no members, so that its clusters are never ready.
            let options = PropagationOptions {
                stale_status: StaleStatus::Count,
                ..PropagationOptions::default()
            };
            propagation::run(client, options, observed, Monitor::default(), token)
                .await
                .unwrap();
        });
        let (client, token) = (bare.client.clone(), cancel.clone());
        let detecting = tokio::spawn(async move {
            let options = DetectorOptions::parse("", &["kube-.*".to_owned()]).unwrap();
            detector::run(client, options, templates, Monitor::default(), token)
                .await
                .unwrap();
        });
        Self {
            cancel,
            running: vec![propagating, detecting],
        }
    }

    async fn stop(self) {
        self.cancel.cancel();
        for task in self.running {
            task.await.unwrap();
        }
    }
}

/// Sets the condition `Ready` of each cluster to false, so that the controllers do not wait for the cluster.
async fn mark_clusters_not_ready(bare: &BareControlPlane, recording: &Recording) {
    for cluster in recording.of("clusters") {
        let conditions = json!([{ "type": "Ready", "status": "False", "reason": "Test", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z" }]);
        let patch = Patch::Merge(json!({ "status": { "conditions": conditions } }));
        let name = cluster["metadata"]["name"].as_str().unwrap();
        bare.clusters()
            .patch_status(name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }
}

/// Checks that Berth's controllers create the recorded Works from the recorded templates, policies and bindings.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn berths_controllers_create_the_same_works_as_karmadas() {
    let recording = Recording::of_karmadas_controllers();
    let bare = control_plane(&recording).await;
    mark_clusters_not_ready(&bare, &recording).await;
    let recording = store_templates(&bare, recording).await;
    // Store the policies too, because the detector removes the claim of a missing policy from a template.
    for object in [recording.policies(), recording.bindings()].concat() {
        store(&bare, &object).await;
    }
    let expected: BTreeMap<String, Value> = recording
        .works()
        .iter()
        .map(comparable)
        .map(|work| (format!("{}/{}", work["namespace"], work["name"]), work))
        .collect();
    assert_eq!(
        expected.len(),
        5,
        "the recording must have two Works of web, and one Work of each other template"
    );
    let controllers = Controllers::start(&bare);
    eventually("the Works", async || {
        let made = works(&bare).await?;
        if made == expected {
            Ok(())
        } else {
            Err(format!("{made:#?}\ninstead of\n{expected:#?}"))
        }
    })
    .await;
    controllers.stop().await;
    bare.stop().await;
}

/// Checks that Berth's controllers leave the recorded templates, policies, bindings and Works unchanged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn berths_controllers_do_not_change_objects_of_karmadas_controllers() {
    let recording = Recording::of_karmadas_controllers();
    let bare = control_plane(&recording).await;
    mark_clusters_not_ready(&bare, &recording).await;
    let recording = store_templates(&bare, recording).await;
    let objects = [
        recording.policies(),
        recording.bindings(),
        recording.works(),
    ]
    .concat();
    for object in &objects {
        store(&bare, object).await;
    }
    let all = [recording.templates(), objects].concat();
    let before = versions(&bare, &all).await;
    let controllers = Controllers::start(&bare);
    // Create a new template last. When its binding has a Work, the controllers have handled all earlier objects.
    let last = config_map("zz-last");
    store(&bare, &last).await;
    store(&bare, &policy(&last, &json!({}))).await;
    let bindings = bare.bindings("default");
    eventually("the last binding", async || {
        let made = bindings.get_opt("zz-last-configmap").await;
        made.unwrap().map(drop).ok_or("not yet")
    })
    .await;
    let placed = Patch::Merge(json!({ "spec": { "clusters": [{ "name": "member1" }] } }));
    bindings
        .patch("zz-last-configmap", &PatchParams::default(), &placed)
        .await
        .unwrap();
    eventually("the last binding to have its Work", async || {
        let made = works(&bare).await?;
        let new = made.values().find(|work| {
            work["annotations"]["resourcebinding.karmada.io/name"] == "zz-last-configmap"
        });
        new.map(drop).ok_or_else(|| format!("{:?}", made.keys()))
    })
    .await;
    controllers.stop().await;
    let after = versions(&bare, &all).await;
    assert_eq!(before, after);
    bare.stop().await;
}

/// Checks that Berth's scheduler leaves all recorded bindings unchanged, and places a copy of a recorded binding as in
/// the recording.
async fn check_scheduler_keeps_bindings(recording: Recording) {
    let bare = control_plane(&recording).await;
    // Store the templates first, because bindings without their templates would be garbage-collected.
    let recording = store_templates(&bare, recording).await;
    for binding in recording.bindings() {
        store(&bare, &binding).await;
    }
    let before = versions(&bare, &recording.bindings()).await;
    // Store a copy of a recorded binding, without its clusters.
    let mut last = recording.of("bindings").pop().unwrap();
    let clusters = last["spec"]["clusters"].take();
    last["metadata"]["name"] = json!("zz-last");
    last["metadata"]["generation"] = json!(1);
    last["metadata"]["annotations"] = json!({});
    last["status"] = Value::Null;
    store(&bare, &last).await;
    let scheduler = RunningScheduler::start(Options::embedded(), bare.remote_client().await);
    let (api, name) = handle(&bare.client, &last);
    eventually(
        "the last binding to be placed as in the recording",
        async || {
            let binding = api.get(&name).await.unwrap();
            if binding.data["spec"]["clusters"] == clusters {
                Ok(())
            } else {
                Err(binding.data.to_string())
            }
        },
    )
    .await;
    scheduler.stop().await.unwrap();
    let after = versions(&bare, &recording.bindings()).await;
    assert_eq!(before, after);
    bare.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn berths_scheduler_keeps_placements_of_karmadas_scheduler() {
    check_scheduler_keeps_bindings(Recording::of_karmadas_scheduler()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn berths_scheduler_keeps_bindings_of_karmadas_controllers() {
    check_scheduler_keeps_bindings(Recording::of_karmadas_controllers()).await;
}
