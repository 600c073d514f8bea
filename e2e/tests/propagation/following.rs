//! What a Deployment names follows it: ConfigMaps, Secrets, ServiceAccounts, volume claims.

use berth_api::ResourceBinding;
use berth_api::names::binding_reference_key;
use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, ListParams};
use serde_json::{Value, json};

use crate::fleet::{Fleet, NAMESPACE};
use crate::manifests::{config_map, deployment, policy, with_spec};
use berth_e2e::eventually;

/// A Deployment that names one object of each kind.
fn naming(name: &str) -> Value {
    let mut deployment = deployment(name, 1);
    deployment["spec"]["template"]["spec"] = json!({
        "serviceAccountName": "robot",
        "containers": [{ "name": "main", "image": "nginx:1",
            "envFrom": [{ "configMapRef": { "name": "settings" } }] }],
        "volumes": [
            { "name": "a", "secret": { "secretName": "password" } },
            { "name": "b", "persistentVolumeClaim": { "claimName": "data" } }] });
    deployment
}

/// What it names.
fn named() -> [Value; 4] {
    [
        config_map("settings"),
        json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "password" },
            "stringData": { "password": "secret" } }),
        json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "robot" } }),
        json!({ "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": "data" },
            "spec": { "accessModes": ["ReadWriteOnce"],
                "resources": { "requests": { "storage": "1Gi" } } } }),
    ]
}

fn with_dependencies(template: &Value, clusters: &[&str]) -> Value {
    with_spec(policy(template, clusters), json!({ "propagateDeps": true }))
}

/// A Deployment that names a ConfigMap, and no more.
fn reader(name: &str, config_map: &str) -> Value {
    let mut deployment = deployment(name, 1);
    let container = &mut deployment["spec"]["template"]["spec"]["containers"][0];
    container["envFrom"] = json!([{ "configMapRef": { "name": config_map } }]);
    deployment
}

/// Waits until the binding of a ConfigMap is as wanted.
async fn attached(
    fleet: &Fleet,
    name: &str,
    what: &str,
    wanted: impl Fn(&ResourceBinding) -> bool,
) -> ResourceBinding {
    let name = format!("{name}-configmap");
    fleet
        .until_typed(&fleet.bindings(), &name, what, wanted)
        .await
}

/// Who a binding says it is required by.
fn parents(binding: &ResourceBinding) -> Vec<&str> {
    let snapshots = binding.spec.required_by.iter();
    snapshots.map(|snapshot| snapshot.name.as_str()).collect()
}

/// Waits until an event of this reason was told of an object; its message.
async fn told(fleet: &Fleet, kind: &str, name: &str, reason: &str) -> String {
    let events: Api<Event> = Api::namespaced(fleet.client.clone(), NAMESPACE);
    eventually(&format!("{reason} of {kind} {name}"), async || {
        let all = events.list(&ListParams::default()).await.unwrap().items;
        let mut all = all.into_iter().filter(|event| {
            let object = &event.involved_object;
            event.reason.as_deref() == Some(reason)
                && (object.kind.as_deref(), object.name.as_deref()) == (Some(kind), Some(name))
        });
        let found = all.next().and_then(|event| event.message);
        found.ok_or("not told")
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_deployment_names_goes_where_it_goes() {
    let fleet = Fleet::start(2).await;
    let (m1, m2) = (&fleet.members[0], &fleet.members[1]);
    let [settings, password, robot, data] = named();
    // Some are there before, some come later.
    for object in [&settings, &robot] {
        fleet.apply(object.clone()).await;
    }
    let web = naming("web");
    fleet.apply(web.clone()).await;
    let placing = with_dependencies(&web, &["m1"]);
    fleet.apply(placing.clone()).await;
    for object in [&web, &settings, &robot] {
        m1.has(object).await;
    }
    for object in [&password, &data] {
        fleet.apply(object.clone()).await;
        m1.has(object).await;
    }
    let message = told(&fleet, "Deployment", "web", "GetDependenciesSucceed").await;
    assert_eq!(
        message,
        "Get dependencies([\
         {APIVersion:v1 Kind:ConfigMap Namespace:default Name:settings LabelSelector:nil} \
         {APIVersion:v1 Kind:Secret Namespace:default Name:password LabelSelector:nil} \
         {APIVersion:v1 Kind:ServiceAccount Namespace:default Name:robot LabelSelector:nil} \
         {APIVersion:v1 Kind:PersistentVolumeClaim Namespace:default Name:data LabelSelector:nil}\
         ]) succeed."
    );
    let reason = "SyncScheduleResultToDependenciesSucceed";
    let message = told(&fleet, "ResourceBinding", "web-deployment", reason).await;
    assert_eq!(message, "Sync schedule results to dependencies succeed.");

    // Who names nothing is told of, too.
    let plain = deployment("plain", 1);
    fleet.apply(plain.clone()).await;
    fleet.apply(with_dependencies(&plain, &["m1"])).await;
    told(&fleet, "ResourceBinding", "plain-deployment", reason).await;
    let noted = fleet.bindings().get("plain-deployment").await.unwrap();
    let annotations = noted.metadata.annotations.unwrap();
    assert_eq!(
        annotations["resourcebinding.karmada.io/dependencies"],
        "null"
    );

    let binding = attached(&fleet, "settings", "attached", |_| true).await;
    let followed = fleet.bindings().get("web-deployment").await.unwrap();
    let labels = |binding: &ResourceBinding| binding.metadata.labels.clone().unwrap_or_default();
    let label = format!(
        "resourcebinding.karmada.io/depended-by-{}",
        binding_reference_key(NAMESPACE, "web-deployment")
    );
    let id = labels(&followed)["resourcebinding.karmada.io/permanent-id"].clone();
    assert_eq!(labels(&binding).get(&label), Some(&id));
    assert_eq!(binding.spec.placement, None);
    let owners = binding.metadata.owner_references.unwrap();
    assert_eq!(
        (owners[0].kind.as_str(), owners[0].controller),
        ("ConfigMap", Some(true))
    );
    let finalizers = followed.metadata.finalizers.unwrap();
    assert!(finalizers.contains(&"karmada.io/binding-dependencies-distributor".to_owned()));
    let status = binding.status.unwrap_or_default();
    let scheduled = status.conditions.iter().find(|c| c.type_ == "Scheduled");
    assert_eq!(scheduled, None, "nobody schedules what follows");

    // Edits arrive, and it follows to another place.
    fleet.edit(&settings, json!({ "data": { "a": "2" } })).await;
    m1.until(&settings, "edited", |map| map["data"]["a"] == "2")
        .await;
    let elsewhere = json!({ "spec": { "placement": {
        "clusterAffinity": { "clusterNames": ["m2"] } } } });
    fleet.edit(&placing, elsewhere).await;
    for object in [&web, &settings, &password, &robot, &data] {
        m2.has(object).await;
        m1.lacks(object).await;
    }
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_named_no_more_leaves_and_the_last_one_takes_it_along() {
    let mut fleet = Fleet::start(2).await;
    for name in ["settings", "other"] {
        fleet.apply(config_map(name)).await;
    }
    let (settings, other) = (config_map("settings"), config_map("other"));
    let (web, api) = (reader("web", "settings"), reader("api", "settings"));
    for (deployment, member) in [(&web, "m1"), (&api, "m2")] {
        fleet.apply(deployment.clone()).await;
        fleet.apply(with_dependencies(deployment, &[member])).await;
    }
    let both = ["api-deployment", "web-deployment"];
    let sorted = |binding: &ResourceBinding| {
        let mut names: Vec<String> = parents(binding).into_iter().map(str::to_owned).collect();
        names.sort();
        names
    };
    attached(&fleet, "settings", "required by both", |binding| {
        sorted(binding) == both
    })
    .await;
    fleet.members[0].has(&settings).await;
    fleet.members[1].has(&settings).await;

    // The template names something else; it did so while nobody looked.
    fleet.stop_controllers().await;
    fleet
        .edit(&web, json!({ "spec": reader("web", "other")["spec"] }))
        .await;
    fleet.start_controllers();
    fleet.members[0].has(&other).await;
    fleet.members[0].lacks(&settings).await;
    let binding = attached(&fleet, "settings", "required by one", |binding| {
        parents(binding) == ["api-deployment"]
    })
    .await;
    let labels = binding.metadata.labels.unwrap();
    let depended = labels.keys().filter(|key| key.contains("depended-by"));
    assert_eq!(depended.count(), 1);

    // One that goes, and one whose policy does not want it any more.
    fleet.delete(&web).await;
    fleet.members[0].lacks(&other).await;
    let placing = with_dependencies(&api, &["m2"]);
    fleet
        .edit(&placing, json!({ "spec": { "propagateDeps": false } }))
        .await;
    fleet.members[1].lacks(&settings).await;
    fleet.members[1].has(&api).await;
    fleet
        .until_typed(
            &fleet.bindings(),
            "api-deployment",
            "unguarded",
            |binding| {
                let finalizers = binding.metadata.finalizers.iter().flatten();
                !finalizers
                    .into_iter()
                    .any(|name| name.contains("dependencies-distributor"))
            },
        )
        .await;
    let left = attached(&fleet, "settings", "left by all", |binding| {
        parents(binding).is_empty()
    })
    .await;
    assert_eq!(left.spec.preserve_resources_on_deletion, None);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_wants_more_gets_it_and_the_others_are_told() {
    let fleet = Fleet::start(1).await;
    let settings = config_map("settings");
    fleet.apply(settings.clone()).await;
    let (web, api) = (reader("web", "settings"), reader("api", "settings"));
    let plain = with_dependencies(&web, &["m1"]);
    let greedy = json!({ "conflictResolution": "Overwrite", "preserveResourcesOnDeletion": true });
    let greedy = with_spec(with_dependencies(&api, &["m1"]), greedy);
    for object in [&web, &api, &plain, &greedy] {
        fleet.apply(object.clone()).await;
    }
    let wants = |overwrite: bool, preserve: bool| {
        move |binding: &ResourceBinding| {
            let resolution = binding.spec.conflict_resolution.as_ref();
            resolution.is_some_and(|value| (value.as_str() == "Overwrite") == overwrite)
                && binding.spec.preserve_resources_on_deletion == Some(preserve)
        }
    };
    attached(&fleet, "settings", "wants all", wants(true, true)).await;
    let conflict = "DependencyPolicyConflict";
    let message = told(&fleet, "ResourceBinding", "settings-configmap", conflict).await;
    assert_eq!(
        message,
        "Dependency policy conflict detected: ConflictResolution conflicted (Overwrite vs Abort); \
         PreserveResourcesOnDeletion conflicted (true vs false)."
    );
    fleet
        .edit(
            &greedy,
            json!({ "spec": { "conflictResolution": "Abort" } }),
        )
        .await;
    attached(&fleet, "settings", "wants less", wants(false, true)).await;
    fleet.delete(&api).await;
    attached(&fleet, "settings", "wants nothing", wants(false, false)).await;
    fleet.members[0].has(&settings).await;
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_policy_places_itself_goes_to_its_places_and_to_those_of_others() {
    let fleet = Fleet::start(2).await;
    let settings = config_map("settings");
    fleet.apply(settings.clone()).await;
    let web = reader("web", "settings");
    fleet.apply(web.clone()).await;
    fleet.apply(with_dependencies(&web, &["m1"])).await;
    fleet.members[0].has(&settings).await;
    let own = policy(&settings, &["m2"]);
    fleet.apply(own.clone()).await;
    fleet.members[1].has(&settings).await;
    let binding = attached(&fleet, "settings", "both", |binding| {
        !binding.spec.clusters.is_empty()
    })
    .await;
    assert_eq!(parents(&binding), ["web-deployment"]);
    fleet.delete(&web).await;
    fleet.members[0].lacks(&settings).await;
    fleet.members[1].has(&settings).await;
    fleet.stop().await;
}
