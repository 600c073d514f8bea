//! Tests of `propagateDeps`, with which a policy propagates a Deployment together with its dependencies: ConfigMaps,
//! Secrets, ServiceAccounts and volume claims. The binding of a dependency is called attached. Its field `requiredBy`
//! lists the bindings of the Deployments that need the dependency.

use berth_api::ResourceBinding;
use berth_api::names::binding_reference_key;
use berth_e2e::Objects as _;
use berth_e2e::events::{self, Wanted};
use berth_e2e::objects::wait_for;

use serde_json::{Value, json};

use crate::fleet::{Fleet, NAMESPACE};
use crate::manifests::{config_map, deployment, policy, with_spec};

/// Returns a Deployment that refers to a ConfigMap, a Secret, a ServiceAccount and a volume claim.
fn deployment_with_references(name: &str) -> Value {
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

/// Returns the objects that [`deployment_with_references`] refers to.
fn referenced_objects() -> [Value; 4] {
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

/// Returns a policy that propagates a template and its dependencies.
fn with_dependencies(template: &Value, clusters: &[&str]) -> Value {
    with_spec(policy(template, clusters), json!({ "propagateDeps": true }))
}

/// Returns a Deployment that refers to a ConfigMap only.
fn config_map_reader(name: &str, config_map: &str) -> Value {
    let mut deployment = deployment(name, 1);
    let container = &mut deployment["spec"]["template"]["spec"]["containers"][0];
    container["envFrom"] = json!([{ "configMapRef": { "name": config_map } }]);
    deployment
}

/// Waits until the binding of a ConfigMap satisfies a condition, and returns the binding.
async fn wait_for_attached(
    fleet: &Fleet,
    name: &str,
    what: &str,
    wanted: impl Fn(&ResourceBinding) -> bool,
) -> ResourceBinding {
    let name = format!("{name}-configmap");
    wait_for(&fleet.bindings(), &name, what, wanted).await
}

/// Returns the names of the bindings in `requiredBy`.
fn parents(binding: &ResourceBinding) -> Vec<&str> {
    let snapshots = binding.spec.required_by.iter();
    snapshots.map(|snapshot| snapshot.name.as_str()).collect()
}

/// Waits for an event with this reason about an object, and returns its message.
async fn wait_for_event(fleet: &Fleet, kind: &str, name: &str, reason: &str) -> String {
    let wanted = Wanted {
        kind,
        name,
        reason,
        ..Wanted::default()
    };
    events::wait_for_message(&fleet.client, NAMESPACE, wanted).await
}

/// Dependencies are created in the members of their Deployment, and move with it to another member.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dependencies_follow_their_deployment() {
    let fleet = Fleet::start(2).await;
    let (m1, m2) = (&fleet.members[0], &fleet.members[1]);
    let [settings, password, robot, data] = referenced_objects();
    // Two dependencies exist before the Deployment. The other two are created later.
    for object in [&settings, &robot] {
        fleet.apply(object.clone()).await;
    }
    let web = deployment_with_references("web");
    fleet.apply(web.clone()).await;
    let placing = with_dependencies(&web, &["m1"]);
    fleet.apply(placing.clone()).await;
    for object in [&web, &settings, &robot] {
        m1.wait_until_exists(object).await;
    }
    for object in [&password, &data] {
        fleet.apply(object.clone()).await;
        m1.wait_until_exists(object).await;
    }
    let message = wait_for_event(&fleet, "Deployment", "web", "GetDependenciesSucceed").await;
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
    let message = wait_for_event(&fleet, "ResourceBinding", "web-deployment", reason).await;
    assert_eq!(message, "Sync schedule results to dependencies succeed.");

    // The binding of a Deployment without dependencies gets the event and the annotation, too.
    let plain = deployment("plain", 1);
    fleet.apply(plain.clone()).await;
    fleet.apply(with_dependencies(&plain, &["m1"])).await;
    wait_for_event(&fleet, "ResourceBinding", "plain-deployment", reason).await;
    let annotated = fleet.bindings().get("plain-deployment").await.unwrap();
    let annotations = annotated.metadata.annotations.unwrap();
    assert_eq!(
        annotations["resourcebinding.karmada.io/dependencies"],
        "null"
    );

    let binding = wait_for_attached(&fleet, "settings", "attached", |_| true).await;
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
    assert_eq!(
        scheduled, None,
        "an attached binding must have no condition Scheduled"
    );

    // An edit of a dependency reaches the member. A new placement moves the Deployment with its dependencies.
    fleet.edit(&settings, json!({ "data": { "a": "2" } })).await;
    m1.wait_for(&settings, "edited", |map| map["data"]["a"] == "2")
        .await;
    let elsewhere = json!({ "spec": { "placement": {
        "clusterAffinity": { "clusterNames": ["m2"] } } } });
    fleet.edit(&placing, elsewhere).await;
    for object in [&web, &settings, &password, &robot, &data] {
        m2.wait_until_exists(object).await;
        m1.wait_until_gone(object).await;
    }
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dependencies_are_removed_with_the_last_reference() {
    let mut fleet = Fleet::start(2).await;
    for name in ["settings", "other"] {
        fleet.apply(config_map(name)).await;
    }
    let (settings, other) = (config_map("settings"), config_map("other"));
    let (web, api) = (
        config_map_reader("web", "settings"),
        config_map_reader("api", "settings"),
    );
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
    wait_for_attached(&fleet, "settings", "required by both", |binding| {
        sorted(binding) == both
    })
    .await;
    fleet.members[0].wait_until_exists(&settings).await;
    fleet.members[1].wait_until_exists(&settings).await;

    // The template refers to another ConfigMap when the controllers start again.
    fleet.stop_controllers().await;
    fleet
        .edit(
            &web,
            json!({ "spec": config_map_reader("web", "other")["spec"] }),
        )
        .await;
    fleet.start_controllers();
    fleet.members[0].wait_until_exists(&other).await;
    fleet.members[0].wait_until_gone(&settings).await;
    let binding = wait_for_attached(&fleet, "settings", "required by one", |binding| {
        parents(binding) == ["api-deployment"]
    })
    .await;
    let labels = binding.metadata.labels.unwrap();
    let depended = labels.keys().filter(|key| key.contains("depended-by"));
    assert_eq!(depended.count(), 1);

    // One Deployment is deleted. The policy of the other Deployment disables `propagateDeps`.
    fleet.delete(&web).await;
    fleet.members[0].wait_until_gone(&other).await;
    let placing = with_dependencies(&api, &["m2"]);
    fleet
        .edit(&placing, json!({ "spec": { "propagateDeps": false } }))
        .await;
    fleet.members[1].wait_until_gone(&settings).await;
    fleet.members[1].wait_until_exists(&api).await;
    wait_for(
        &fleet.bindings(),
        "api-deployment",
        "no finalizer",
        |binding| {
            let finalizers = binding.metadata.finalizers.iter().flatten();
            !finalizers
                .into_iter()
                .any(|name| name.contains("dependencies-distributor"))
        },
    )
    .await;
    let left = wait_for_attached(&fleet, "settings", "required by none", |binding| {
        parents(binding).is_empty()
    })
    .await;
    assert_eq!(left.spec.preserve_resources_on_deletion, None);
    fleet.stop().await;
}

/// Two policies give one dependency different strategies. The binding of the dependency gets `Overwrite` and
/// `preserveResourcesOnDeletion`, and an event reports the conflict.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conflicting_strategies_are_merged_and_reported() {
    let fleet = Fleet::start(1).await;
    let settings = config_map("settings");
    fleet.apply(settings.clone()).await;
    let (web, api) = (
        config_map_reader("web", "settings"),
        config_map_reader("api", "settings"),
    );
    let plain = with_dependencies(&web, &["m1"]);
    let strategies =
        json!({ "conflictResolution": "Overwrite", "preserveResourcesOnDeletion": true });
    let strict = with_spec(with_dependencies(&api, &["m1"]), strategies);
    for object in [&web, &api, &plain, &strict] {
        fleet.apply(object.clone()).await;
    }
    let strategies = |overwrite: bool, preserve: bool| {
        move |binding: &ResourceBinding| {
            let resolution = binding.spec.conflict_resolution.as_ref();
            resolution.is_some_and(|value| (value.as_str() == "Overwrite") == overwrite)
                && binding.spec.preserve_resources_on_deletion == Some(preserve)
        }
    };
    wait_for_attached(
        &fleet,
        "settings",
        "both strategies",
        strategies(true, true),
    )
    .await;
    let conflict = "DependencyPolicyConflict";
    let message = wait_for_event(&fleet, "ResourceBinding", "settings-configmap", conflict).await;
    assert_eq!(
        message,
        "Dependency policy conflict detected: ConflictResolution conflicted (Overwrite vs Abort); \
         PreserveResourcesOnDeletion conflicted (true vs false)."
    );
    fleet
        .edit(
            &strict,
            json!({ "spec": { "conflictResolution": "Abort" } }),
        )
        .await;
    wait_for_attached(&fleet, "settings", "one strategy", strategies(false, true)).await;
    fleet.delete(&api).await;
    wait_for_attached(&fleet, "settings", "no strategy", strategies(false, false)).await;
    fleet.members[0].wait_until_exists(&settings).await;
    fleet.stop().await;
}

/// The dependency is in the clusters of its own policy and in the clusters of the Deployment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dependency_with_its_own_policy_goes_to_both_placements() {
    let fleet = Fleet::start(2).await;
    let settings = config_map("settings");
    fleet.apply(settings.clone()).await;
    let web = config_map_reader("web", "settings");
    fleet.apply(web.clone()).await;
    fleet.apply(with_dependencies(&web, &["m1"])).await;
    fleet.members[0].wait_until_exists(&settings).await;
    let own = policy(&settings, &["m2"]);
    fleet.apply(own.clone()).await;
    fleet.members[1].wait_until_exists(&settings).await;
    let binding = wait_for_attached(&fleet, "settings", "scheduled", |binding| {
        !binding.spec.clusters.is_empty()
    })
    .await;
    assert_eq!(parents(&binding), ["web-deployment"]);
    fleet.delete(&web).await;
    fleet.members[0].wait_until_gone(&settings).await;
    fleet.members[1].wait_until_exists(&settings).await;
    fleet.stop().await;
}
