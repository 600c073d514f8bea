//! Tests of the ownership of objects in members: conflicts with existing objects, takeover, preservation and correction
//! of drift.

use berth_e2e::Objects as _;
use berth_e2e::objects::wait_for;
use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, ListParams, Patch, PatchParams};

use berth_api::binding::AggregatedStatusItem;
use serde_json::{Value, json};

use crate::fleet::{Fleet, Member, NAMESPACE};
use crate::manifests::{config_map, deployment, policy, with_spec};

/// A member already has an object with the name of the template. Berth takes this object over only with
/// `conflictResolution: Overwrite`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_of_other_owners_are_neither_changed_nor_deleted() {
    let fleet = Fleet::start(2).await;
    let (m1, m2) = (&fleet.members[0], &fleet.members[1]);
    let mut theirs = config_map("settings");
    theirs["data"] = json!({ "theirs": "yes" });
    let before = m1.apply(theirs).await;
    let map = config_map("settings");
    fleet.apply(map.clone()).await;
    let placing = fleet.apply(policy(&map, &["m1", "m2"])).await;
    m2.wait_until_exists(&map).await;
    let binding = wait_for(&fleet.bindings(), "settings-configmap", "done", |binding| {
        let items = binding.status.iter().flat_map(|s| &s.aggregated_status);
        let has_result = |item: &AggregatedStatusItem| {
            item.applied == Some(true) || item.applied_message.is_some()
        };
        items.filter(|item| has_result(item)).count() == 2
    })
    .await;
    let item = &binding.status.unwrap().aggregated_status[0];
    // `applied` is false here: as in Go's JSON encoding, false is omitted.
    assert_eq!((item.cluster_name.as_str(), item.applied), ("m1", None));
    let message = item.applied_message.as_deref().unwrap();
    assert!(
        message.contains("default/settings) already exists in the cluster m1"),
        "{message}"
    );
    assert!(
        message.contains("conflictResolution: Overwrite"),
        "{message}"
    );

    // The deletion of the template deletes the Work. The other owner's object stays.
    fleet.delete(&map).await;
    m2.wait_until_gone(&map).await;
    let bindings = fleet.bindings();
    berth_e2e::eventually("deletion of the binding", async || {
        match bindings.get_opt("settings-configmap").await.unwrap() {
            None => Ok(()),
            Some(binding) => Err(format!("{binding:?}")),
        }
    })
    .await;
    assert_eq!(
        m1.get(&map).await.unwrap()["metadata"]["resourceVersion"],
        before["metadata"]["resourceVersion"]
    );

    // With `Overwrite`, Berth takes the object over. With `preserveResourcesOnDeletion`, the object stays after the
    // deletion of the template, without Karmada's labels and most of its annotations.
    let strategies =
        json!({ "conflictResolution": "Overwrite", "preserveResourcesOnDeletion": true });
    fleet.edit(&placing, json!({ "spec": strategies })).await;
    fleet.apply(map.clone()).await;
    m1.wait_for(&map, "taken over", |map| map["data"]["a"] == "1")
        .await;
    fleet
        .wait_for_fully_applied("settings-configmap", "True")
        .await;
    fleet.delete(&map).await;
    for member in [m1, m2] {
        let left = member
            .wait_for(&map, "released", |map| {
                map["metadata"]["labels"]["karmada.io/managed"].is_null()
            })
            .await;
        assert_eq!(left["data"]["a"], "1");
        let marks = |map: &str| -> Vec<String> {
            let entries = left["metadata"][map].as_object();
            entries
                .into_iter()
                .flatten()
                .map(|(key, _)| key.clone())
                .collect()
        };
        assert_eq!(marks("labels"), Vec::<String>::new());
        assert_eq!(
            marks("annotations"),
            ["work.karmada.io/conflict-resolution"]
        );
    }
    fleet.stop().await;
}

/// `preserveResourcesOnDeletion` concerns the deletion of the template. An object that moves to another cluster leaves no
/// copy behind, and can move back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_are_preserved_when_the_template_is_deleted_and_not_when_they_move() {
    let fleet = Fleet::start(2).await;
    let [m1, m2] = &fleet.members[..] else {
        panic!("the fleet must have two members")
    };
    let (map, other) = (config_map("settings"), config_map("other"));
    for map in [&map, &other] {
        fleet.apply(map.clone()).await;
        let preserve = json!({ "preserveResourcesOnDeletion": true });
        fleet.apply(with_spec(policy(map, &["m1"]), preserve)).await;
        m1.wait_until_exists(map).await;
    }
    let placing = policy(&map, &["m1"]);
    for (name, from, to) in [("m2", m1, m2), ("m1", m2, m1)] {
        let moved = json!({ "placement": { "clusterAffinity": { "clusterNames": [name] } } });
        fleet.edit(&placing, json!({ "spec": moved })).await;
        to.wait_until_exists(&map).await;
        from.wait_until_gone(&map).await;
        fleet
            .wait_for_fully_applied("settings-configmap", "True")
            .await;
    }
    let unmanaged = |map: &Value| map["metadata"]["labels"]["karmada.io/managed"].is_null();
    fleet.delete(&map).await;
    m1.wait_for(&map, "unmanaged", unmanaged).await;

    // Without `preserveResourcesOnDeletion`, the object is deleted with its template.
    let unset = json!({ "spec": { "preserveResourcesOnDeletion": null } });
    fleet.edit(&policy(&other, &["m1"]), unset).await;
    let work = berth_api::names::work_name("ConfigMap", "other", "default");
    wait_for(&fleet.works("m1"), &work, "no flag", |work| {
        work.spec.preserve_resources_on_deletion != Some(true)
    })
    .await;
    fleet.delete(&other).await;
    m1.wait_until_gone(&other).await;
    fleet.stop().await;
}

/// Berth reverts edits that a user makes in a member, except for labels that the template does not set.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drift_is_corrected_and_deleted_objects_are_recreated() {
    let fleet = Fleet::start(1).await;
    let m1 = &fleet.members[0];
    let web = deployment("web", 2);
    fleet.apply(web.clone()).await;
    fleet.apply(policy(&web, &["m1"])).await;
    let first = m1.wait_until_exists(&web).await;

    m1.edit(&web, json!({ "spec": { "replicas": 9 } })).await;
    m1.wait_for(&web, "corrected", |web| web["spec"]["replicas"] == 2)
        .await;

    m1.delete(&web).await;
    let second = m1
        .wait_for(&web, "recreated", |web| {
            web["metadata"]["uid"] != first["metadata"]["uid"]
        })
        .await;
    assert_eq!(second["spec"]["replicas"], 2);

    // A label that a user adds in the member stays. A label that is removed from the template is removed in the member.
    m1.edit(&web, json!({ "metadata": { "labels": { "theirs": "1" } } }))
        .await;
    fleet
        .edit(
            &web,
            json!({ "metadata": { "labels": { "app": null, "new": "1" } },
        "spec": { "replicas": 3 } }),
        )
        .await;
    let labels = m1
        .wait_for(&web, "the new template", |web| web["spec"]["replicas"] == 3)
        .await["metadata"]["labels"]
        .clone();
    assert_eq!(
        (&labels["theirs"], &labels["new"]),
        (&json!("1"), &json!("1"))
    );
    assert_eq!(labels["app"], Value::Null);
    fleet.stop().await;
}

/// The template has the label `retain-replicas`, so the replicas that a user sets in the member stay.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_of_a_member_are_retained_on_request_of_the_template() {
    let fleet = Fleet::start(1).await;
    let m1 = &fleet.members[0];
    let mut web = deployment("web", 2);
    web["metadata"]["labels"]["resourcetemplate.karmada.io/retain-replicas"] = json!("true");
    fleet.apply(web.clone()).await;
    fleet.apply(policy(&web, &["m1"])).await;
    m1.wait_until_exists(&web).await;
    m1.edit(&web, json!({ "spec": { "replicas": 5 } })).await;
    fleet
        .edit(&web, json!({ "metadata": { "labels": { "step": "1" } } }))
        .await;
    let object = m1
        .wait_for(&web, "the new label", |web| {
            web["metadata"]["labels"]["step"] == "1"
        })
        .await;
    assert_eq!(object["spec"]["replicas"], 5);
    fleet.stop().await;
}

/// A status report causes no write to the object in the member. A restart of the controllers causes no write to a Work
/// that already matches its template.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_in_sync_are_not_written() {
    let mut fleet = Fleet::start(1).await;
    let web = deployment("web", 2);
    fleet.apply(web.clone()).await;
    fleet.apply(policy(&web, &["m1"])).await;
    fleet.members[0].wait_until_exists(&web).await;
    fleet.wait_for_fully_applied("web-deployment", "True").await;
    let version = async |member: &Member| {
        member.get(&web).await.unwrap()["metadata"]["resourceVersion"].clone()
    };
    let m1 = &fleet.members[0];
    m1.report_status(
        &web,
        json!({ "replicas": 2, "readyReplicas": 1, "observedGeneration": 1 }),
    )
    .await;
    let before = version(m1).await;
    fleet
        .wait_for(&web, "the report", |web| {
            web["status"]["readyReplicas"] == 1
        })
        .await;
    let work = fleet
        .works("m1")
        .list(&ListParams::default())
        .await
        .unwrap()
        .items
        .remove(0);
    let marker = config_map("marker");
    fleet.apply(marker.clone()).await;
    fleet.apply(policy(&marker, &["m1"])).await;
    m1.wait_until_exists(&marker).await;
    assert_eq!(version(m1).await, before);

    // After a restart, the controllers do not write a Work that already matches its template.
    fleet.stop_controllers().await;
    fleet.start_controllers();
    let other = config_map("later");
    fleet.apply(other.clone()).await;
    fleet.apply(policy(&other, &["m1"])).await;
    fleet.members[0].wait_until_exists(&other).await;
    let name = work.metadata.name.as_deref().unwrap();
    let now = fleet.works("m1").get(name).await.unwrap();
    assert_eq!(
        now.metadata.resource_version,
        work.metadata.resource_version
    );
    fleet.stop().await;
}

/// An object that leaves the manifests of a Work is deleted in the member. An object that another Work has applied since
/// stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_that_leave_a_work_are_deleted() {
    let fleet = Fleet::start(1).await;
    let m1 = &fleet.members[0];
    let namespace = "karmada-es-m1";
    let maps = ["a", "b", "c"].map(|name| {
        let mut map = config_map(name);
        map["metadata"]["namespace"] = json!("default");
        map
    });
    let work = |name: &str, maps: &[&Value]| {
        let manifests: Vec<Value> = maps
            .iter()
            .map(|map| {
                let mut map = (*map).clone();
                map["metadata"]["labels"] = json!({ "karmada.io/managed": "true" });
                map["metadata"]["annotations"] = json!({
                    "work.karmada.io/name": name, "work.karmada.io/namespace": namespace });
                map
            })
            .collect();
        json!({ "apiVersion": "work.karmada.io/v1alpha1", "kind": "Work",
            "metadata": { "name": name, "namespace": namespace,
                "finalizers": ["karmada.io/execution-controller"] },
            "spec": { "workload": { "manifests": manifests } } })
    };
    let [a, b, c] = &maps;
    let execution =
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace } });
    fleet.apply(execution).await;
    fleet.apply(work("first", &[a, b, c])).await;
    for map in &maps {
        m1.wait_until_exists(map).await;
    }
    // The second Work takes `c` over before the first Work loses it.
    fleet.apply(work("second", &[c])).await;
    m1.wait_for(c, "taken over", |map| {
        map["metadata"]["annotations"]["work.karmada.io/name"] == "second"
    })
    .await;
    let first = work("first", &[b]);
    fleet.edit(&first, json!({ "spec": first["spec"] })).await;
    m1.wait_until_gone(a).await;
    fleet
        .wait_for(&first, "one report", |work| {
            let reports = work["status"]["manifestStatuses"].as_array();
            reports.is_some_and(|reports| reports.len() == 1)
        })
        .await;
    assert!(m1.get(b).await.is_some() && m1.get(c).await.is_some());
    fleet.stop().await;
}

/// Waits for a warning with this reason about an object of the control plane. Returns its message.
async fn wait_for_warning(fleet: &Fleet, kind: &str, reason: &str) -> String {
    let events: Api<Event> = Api::all(fleet.client.clone());
    berth_e2e::eventually(&format!("the event {reason} about a {kind}"), async || {
        let all = events.list(&ListParams::default()).await.unwrap();
        let mut found = all.items.into_iter().filter(|event| {
            event.involved_object.kind.as_deref() == Some(kind)
                && event.reason.as_deref() == Some(reason)
        });
        let message = found.next().and_then(|event| event.message);
        message.ok_or_else(|| "no such event".to_owned())
    })
    .await
}

async fn id_of(fleet: &Fleet) -> String {
    let namespace =
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "kube-system" } });
    let namespace = fleet.wait_for(&namespace, "id", |_| true).await;
    namespace["metadata"]["uid"].as_str().unwrap().to_owned()
}

/// Two control planes propagate a Deployment with the same name to one member. The second one reports a conflict and
/// writes nothing, also after changes by both. An object without an id is taken over without a write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_control_planes_do_not_overwrite_the_objects_of_each_other() {
    let first = Fleet::start(1).await;
    let m1 = &first.members[0];
    let mut second = Fleet::without_clusters(0).await;
    second.join_member(m1).await;
    second.start_controllers();

    let web = deployment("web", 2);
    first.apply(web.clone()).await;
    first.apply(policy(&web, &["m1"])).await;
    let created = m1.wait_until_exists(&web).await;
    let first_id = id_of(&first).await;
    assert_eq!(
        created["metadata"]["annotations"]["members.berth/control-plane"],
        first_id.as_str()
    );
    first.wait_for_fully_applied("web-deployment", "True").await;

    let theirs = deployment("web", 5);
    second.apply(theirs.clone()).await;
    second.apply(policy(&theirs, &["m1"])).await;
    let binding = wait_for(
        &second.bindings(),
        "web-deployment",
        "a conflict",
        |binding| {
            let items = binding.status.iter().flat_map(|s| &s.aggregated_status);
            items
                .filter_map(|item| item.applied_message.as_ref())
                .count()
                == 1
        },
    )
    .await;
    let item = &binding.status.unwrap().aggregated_status[0];
    let message = item.applied_message.as_deref().unwrap();
    for part in [
        "default/web",
        "is managed by the control plane",
        &first_id,
        "conflictResolution: Overwrite",
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert_eq!(
        item.status, None,
        "the status of an object of another control plane is reported"
    );
    let event = wait_for_warning(&second, "Deployment", "SyncFailed").await;
    assert!(event.contains(&first_id), "{event}");
    assert_eq!(
        m1.get(&web).await.unwrap()["metadata"]["generation"],
        created["metadata"]["generation"]
    );

    // The owner still applies changes, and the other control plane still writes nothing.
    first.edit(&web, json!({ "spec": { "replicas": 3 } })).await;
    m1.wait_for(&web, "the owner's change", |web| {
        web["spec"]["replicas"] == 3
    })
    .await;
    second
        .edit(&theirs, json!({ "spec": { "replicas": 6 } }))
        .await;
    let work = berth_api::names::work_name("Deployment", "web", "default");
    wait_for(&second.works("m1"), &work, "the change", |work| {
        work.spec.workload.manifests[0]["spec"]["replicas"] == 6
    })
    .await;

    // A deletion in the other control plane keeps the object.
    second.delete(&theirs).await;
    berth_e2e::eventually("deletion of the Work", async || {
        match second.works("m1").get_opt(&work).await.unwrap() {
            None => Ok(()),
            Some(work) => Err(format!("{work:?}")),
        }
    })
    .await;
    assert_eq!(m1.get(&web).await.unwrap()["spec"]["replicas"], 3);

    // After its owner has released it, the other control plane can create it.
    first.delete(&web).await;
    m1.wait_until_gone(&web).await;
    second.apply(theirs.clone()).await;
    let second_id = id_of(&second).await;
    m1.wait_for(&web, "the new owner", |web| {
        web["metadata"]["annotations"]["members.berth/control-plane"] == second_id.as_str()
    })
    .await;
    second.stop().await;
    first.stop().await;
}

/// With `Overwrite`, a control plane takes an object over once. The former owner then reports a conflict.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_of_another_control_plane_is_taken_over_once_on_request() {
    let first = Fleet::start(1).await;
    let m1 = &first.members[0];
    let mut second = Fleet::without_clusters(0).await;
    second.join_member(m1).await;
    second.start_controllers();
    let map = config_map("settings");
    let overwriting = with_spec(
        policy(&map, &["m1"]),
        json!({ "conflictResolution": "Overwrite" }),
    );
    first.apply(map.clone()).await;
    first.apply(overwriting.clone()).await;
    m1.wait_until_exists(&map).await;
    first
        .wait_for_fully_applied("settings-configmap", "True")
        .await;
    let mut theirs = config_map("settings");
    theirs["data"] = json!({ "theirs": "yes" });
    second.apply(theirs).await;
    second.apply(overwriting).await;
    first
        .wait_for_fully_applied("settings-configmap", "False")
        .await;
    second
        .wait_for_fully_applied("settings-configmap", "True")
        .await;
    let owned = m1.get(&map).await.unwrap();
    assert_eq!(owned["data"], json!({ "theirs": "yes" }));
    let warning = wait_for_warning(&first, "ConfigMap", "SyncFailed").await;
    assert!(warning.contains(&id_of(&second).await), "{warning}");
    second.stop().await;
    first.stop().await;
}

/// An autoscaler in the member and Berth set the replicas in turn. An event reports this, and names the remedy.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scale_that_is_undone_is_reported() {
    let fleet = Fleet::start(1).await;
    let m1 = &fleet.members[0];
    let web = deployment("web", 2);
    fleet.apply(web.clone()).await;
    fleet.apply(policy(&web, &["m1"])).await;
    m1.wait_until_exists(&web).await;
    fleet.wait_for_fully_applied("web-deployment", "True").await;
    let deployments: Api<k8s_openapi::api::apps::v1::Deployment> =
        Api::namespaced(m1.client.clone(), NAMESPACE);
    let parameters = PatchParams {
        field_manager: Some("kube-controller-manager".to_owned()),
        ..PatchParams::default()
    };
    let scale = Patch::Merge(json!({ "spec": { "replicas": 9 } }));
    deployments
        .patch_scale("web", &parameters, &scale)
        .await
        .unwrap();
    let message = wait_for_warning(&fleet, "Deployment", "ReplicasReverted").await;
    for part in [
        "an autoscaler in the cluster m1 set 9 replicas",
        "back to 2",
        "hpaScaleTargetMarker",
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }
    m1.wait_for(&web, "corrected", |web| web["spec"]["replicas"] == 2)
        .await;
    fleet.stop().await;
}
