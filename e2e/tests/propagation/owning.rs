//! Whose an object in a member is.

use kube::api::ListParams;
use std::time::Duration;

use berth_api::binding::AggregatedStatusItem;
use berth_e2e::eventually::never;
use serde_json::{Value, json};

use crate::fleet::{Fleet, Member};
use crate::manifests::{config_map, deployment, policy, with_spec};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_somebody_elses_is_neither_changed_nor_deleted() {
    let fleet = Fleet::start(2).await;
    let (m1, m2) = (&fleet.members[0], &fleet.members[1]);
    let mut theirs = config_map("settings");
    theirs["data"] = json!({ "theirs": "yes" });
    let before = m1.apply(theirs).await;
    let map = config_map("settings");
    fleet.apply(map.clone()).await;
    let placing = fleet.apply(policy(&map, &["m1", "m2"])).await;
    m2.has(&map).await;
    let binding = fleet
        .until_typed(&fleet.bindings(), "settings-configmap", "both", |binding| {
            let items = binding.status.iter().flat_map(|s| &s.aggregated_status);
            let told = |item: &AggregatedStatusItem| {
                item.applied == Some(true) || item.applied_message.is_some()
            };
            items.filter(|item| told(item)).count() == 2
        })
        .await;
    let item = &binding.status.unwrap().aggregated_status[0];
    // As Go encodes it: false is left out.
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

    // Without the template the Work goes, and theirs stays.
    fleet.delete(&map).await;
    m2.lacks(&map).await;
    let bindings = fleet.bindings();
    berth_e2e::eventually("the binding to go", async || {
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

    // When the policy says so it is taken over, and given up again without being deleted.
    let given = json!({ "conflictResolution": "Overwrite", "preserveResourcesOnDeletion": true });
    fleet.edit(&placing, json!({ "spec": given })).await;
    fleet.apply(map.clone()).await;
    m1.until(&map, "taken over", |map| map["data"]["a"] == "1")
        .await;
    fleet
        .until_fully_applied("settings-configmap", "True")
        .await;
    fleet.delete(&map).await;
    for member in [m1, m2] {
        let left = member
            .until(&map, "nobody's", |map| {
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_is_preserved_as_long_as_the_policy_asks_for_it() {
    let fleet = Fleet::start(2).await;
    let [m1, m2] = &fleet.members[..] else {
        panic!("two members")
    };
    let map = config_map("settings");
    let placing = with_spec(
        policy(&map, &["m1", "m2"]),
        json!({ "preserveResourcesOnDeletion": true }),
    );
    fleet.apply(map.clone()).await;
    fleet.apply(placing.clone()).await;
    for member in [m1, m2] {
        member.has(&map).await;
    }
    // A cluster that is not chosen any more keeps its copy.
    let only_m1 = json!({ "placement": { "clusterAffinity": { "clusterNames": ["m1"] } } });
    fleet.edit(&placing, json!({ "spec": only_m1 })).await;
    let unmanaged = |map: &Value| map["metadata"]["labels"]["karmada.io/managed"].is_null();
    m2.until(&map, "unmanaged", unmanaged).await;

    // Without the flag the remaining copy goes with the template, and the preserved one stays.
    let unset = json!({ "spec": { "preserveResourcesOnDeletion": null } });
    fleet.edit(&placing, unset).await;
    let work = berth_api::names::work_name("ConfigMap", "settings", "default");
    fleet
        .until_typed(&fleet.works("m1"), &work, "no flag", |work| {
            work.spec.preserve_resources_on_deletion != Some(true)
        })
        .await;
    fleet.delete(&map).await;
    m1.lacks(&map).await;
    assert!(m2.get(&map).await.is_some());
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_came_from_here_is_put_right_and_made_anew() {
    let fleet = Fleet::start(1).await;
    let m1 = &fleet.members[0];
    let web = deployment("web", 2);
    fleet.apply(web.clone()).await;
    fleet.apply(policy(&web, &["m1"])).await;
    let first = m1.has(&web).await;

    m1.edit(&web, json!({ "spec": { "replicas": 9 } })).await;
    m1.until(&web, "put right", |web| web["spec"]["replicas"] == 2)
        .await;

    m1.delete(&web).await;
    let second = m1
        .until(&web, "made anew", |web| {
            web["metadata"]["uid"] != first["metadata"]["uid"]
        })
        .await;
    assert_eq!(second["spec"]["replicas"], 2);

    // What others add in the member stays, and what went from the template goes.
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
        .until(&web, "the new template", |web| web["spec"]["replicas"] == 3)
        .await["metadata"]["labels"]
        .clone();
    assert_eq!(
        (&labels["theirs"], &labels["new"]),
        (&json!("1"), &json!("1"))
    );
    assert_eq!(labels["app"], Value::Null);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_keeps_its_replicas_where_the_template_says_so() {
    let fleet = Fleet::start(1).await;
    let m1 = &fleet.members[0];
    let mut web = deployment("web", 2);
    web["metadata"]["labels"]["resourcetemplate.karmada.io/retain-replicas"] = json!("true");
    fleet.apply(web.clone()).await;
    fleet.apply(policy(&web, &["m1"])).await;
    m1.has(&web).await;
    m1.edit(&web, json!({ "spec": { "replicas": 5 } })).await;
    fleet
        .edit(&web, json!({ "metadata": { "labels": { "step": "1" } } }))
        .await;
    let there = m1
        .until(&web, "the new label", |web| {
            web["metadata"]["labels"]["step"] == "1"
        })
        .await;
    assert_eq!(there["spec"]["replicas"], 5);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_settled_is_left_alone() {
    let mut fleet = Fleet::start(1).await;
    let web = deployment("web", 2);
    fleet.apply(web.clone()).await;
    fleet.apply(policy(&web, &["m1"])).await;
    fleet.members[0].has(&web).await;
    fleet.until_fully_applied("web-deployment", "True").await;
    let version = async |member: &Member| {
        member.get(&web).await.unwrap()["metadata"]["resourceVersion"].clone()
    };
    let m1 = &fleet.members[0];
    m1.report(
        &web,
        json!({ "replicas": 2, "readyReplicas": 1, "observedGeneration": 1 }),
    )
    .await;
    let before = version(m1).await;
    fleet
        .until(&web, "the report", |web| {
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
    never(
        "a write to what is settled",
        Duration::from_millis(500),
        async || {
            let now = version(m1).await;
            if now == before {
                Ok(())
            } else {
                Err(format!("{before} became {now}"))
            }
        },
    )
    .await;

    // Nor does a restart write anything into Works that are as they should be.
    fleet.stop_controllers().await;
    fleet.start_controllers();
    let other = config_map("later");
    fleet.apply(other.clone()).await;
    fleet.apply(policy(&other, &["m1"])).await;
    fleet.members[0].has(&other).await;
    let name = work.metadata.name.as_deref().unwrap();
    let now = fleet.works("m1").get(name).await.unwrap();
    assert_eq!(
        now.metadata.resource_version,
        work.metadata.resource_version
    );
    fleet.stop().await;
}
