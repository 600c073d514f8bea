//! Tests of drift: changes of objects in members by other clients. Drift is corrected and recorded in events, or
//! reported and left if the template asks for it. `berth diff` shows it.

use berth_api::Work;
use berth_api::condition;
use berth_api::names::work_name;
use berth_api::well_known::{CONDITION_DRIFTED, DRIFT_MODE, DRIFT_MODE_REPORT};
use berth_e2e::Objects as _;
use berth_e2e::objects::wait_for;
use berth_plan::diff::{DiffReport, DiffVerdict, FieldDiff, MemberDiff, Origin, diff};
use berth_plan::explain::NameQuery;
use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, ListParams};
use serde_json::{Value, json};

use crate::fleet::Fleet;
use crate::manifests::{config_map, deployment, divided, policy, with_spec};

const IMAGE: &str = "spec.template.spec.containers[0].image";

fn reporting(mut template: Value) -> Value {
    template["metadata"]["annotations"] = json!({ DRIFT_MODE: DRIFT_MODE_REPORT });
    template
}

/// Returns the messages of the events with a reason about a kind, with their counts.
async fn events(fleet: &Fleet, kind: &str, reason: &str) -> Vec<(String, i32)> {
    let events: Api<Event> = Api::all(fleet.client.clone());
    let events = events.list(&ListParams::default()).await.unwrap().items;
    let about = events.into_iter().filter(|event| {
        event.involved_object.kind.as_deref() == Some(kind)
            && event.reason.as_deref() == Some(reason)
    });
    let mut messages: Vec<(String, i32)> = about
        .map(|event| (event.message.unwrap_or_default(), event.count.unwrap_or(1)))
        .collect();
    messages.sort();
    messages
}

async fn wait_for_events(fleet: &Fleet, kind: &str, reason: &str, expected: &[(&str, i32)]) {
    berth_e2e::eventually(&format!("the events {reason} about a {kind}"), async || {
        let found = events(fleet, kind, reason).await;
        let same = found.len() == expected.len()
            && found
                .iter()
                .zip(expected)
                .all(|((message, count), expected)| (message.as_str(), *count) == *expected);
        if same {
            Ok(())
        } else {
            Err(format!("{found:?}"))
        }
    })
    .await;
}

/// Waits until the condition `Drifted` of the Work of an object has this status. Returns its message.
async fn wait_for_drifted(fleet: &Fleet, object: &Value, status: Option<&str>) -> String {
    let name = |field: &str| object[field].as_str().unwrap();
    let object_name = object["metadata"]["name"].as_str().unwrap();
    let work = work_name(name("kind"), object_name, "default");
    let drifted = |work: &Work| {
        let conditions = work.status.as_ref().map(|status| &status.conditions[..]);
        condition::find(conditions.unwrap_or_default(), CONDITION_DRIFTED)
            .map(|condition| (condition.status.clone(), condition.message.clone()))
    };
    let what = format!("Drifted is {status:?}");
    let work = wait_for(&fleet.works("m1"), &work, &what, |work| {
        drifted(work).as_ref().map(|(status, _)| status.as_str()) == status
    })
    .await;
    drifted(&work)
        .map(|(_, message)| message)
        .unwrap_or_default()
}

async fn diff_of(fleet: &Fleet, name: &str) -> DiffReport {
    let query = NameQuery::new(name, None, None, "default");
    diff(&fleet.client, &fleet.client, &query, None)
        .await
        .unwrap()
}

/// Returns the fields in which the object in a member differs.
fn member_fields(report: &DiffReport, cluster: usize) -> Vec<&str> {
    match &report.clusters[cluster].member {
        MemberDiff::Different { fields } => names(fields),
        _ => Vec::new(),
    }
}

fn names(fields: &[FieldDiff]) -> Vec<&str> {
    fields.iter().map(|diff| diff.field.as_str()).collect()
}

/// The edits of another client in the member are drift. Edits of the template are none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn corrected_drift_is_recorded_and_edits_of_the_template_are_not() {
    let fleet = Fleet::start(1).await;
    let m1 = &fleet.members[0];
    let web = deployment("web", 2);
    fleet.apply(web.clone()).await;
    fleet.apply(policy(&web, &["m1"])).await;
    m1.wait_until_exists(&web).await;
    // The edits of the template change other fields than the edits in the member, so that their events would differ.
    fleet
        .edit(&web, json!({ "spec": { "minReadySeconds": 3 } }))
        .await;
    m1.wait_for(&web, "the new template", |web| {
        web["spec"]["minReadySeconds"] == 3
    })
    .await;
    m1.edit(&web, json!({ "spec": { "replicas": 9 } })).await;
    m1.wait_for(&web, "corrected", |web| web["spec"]["replicas"] == 2)
        .await;
    fleet
        .edit(&web, json!({ "spec": { "revisionHistoryLimit": 4 } }))
        .await;
    m1.wait_for(&web, "the next template", |web| {
        web["spec"]["revisionHistoryLimit"] == 4
    })
    .await;
    // A field that the manifest does not have is drift, too. A label that the member adds is none.
    m1.edit(
        &web,
        json!({ "metadata": { "labels": { "theirs": "1" } }, "spec": { "paused": true, "replicas": 5 } }),
    )
    .await;
    m1.wait_for(&web, "corrected", |web| {
        web["spec"]["replicas"] == 2 && web["spec"]["paused"] != true
    })
    .await;
    let first = "spec.replicas of Deployment default/web in the cluster m1 was changed by another client and set back";
    let second = "spec.paused and spec.replicas of Deployment default/web in the cluster m1 were changed by another client and set back";
    for kind in ["Work", "Deployment"] {
        wait_for_events(&fleet, kind, "DriftCorrected", &[(second, 1), (first, 1)]).await;
    }
    fleet.stop().await;
}

/// The template asks to report drift. Neither an edit in the member nor an edit of the template changes the object that
/// differs. An object that is missing is created, and an object without a difference gets the new marks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drift_is_reported_and_left_on_request_of_the_template() {
    let fleet = Fleet::start(1).await;
    let m1 = &fleet.members[0];
    let web = reporting(deployment("web", 2));
    fleet.apply(web.clone()).await;
    fleet.apply(policy(&web, &["m1"])).await;
    let first = m1.wait_until_exists(&web).await;
    wait_for_drifted(&fleet, &web, Some("False")).await;

    // `paused` is no field of the manifest: only the comparison by the member's server finds it.
    m1.edit(&web, json!({ "spec": { "paused": true } })).await;
    let message = wait_for_drifted(&fleet, &web, Some("True")).await;
    assert_eq!(
        message,
        "The member differs in spec.paused of Deployment default/web"
    );
    let left = "Deployment default/web in the cluster m1 differs in spec.paused and is left, because of the annotation drift.berth/mode=report";
    for kind in ["Work", "Deployment"] {
        wait_for_events(&fleet, kind, "Drifted", &[(left, 1)]).await;
    }
    assert_eq!(events(&fleet, "Work", "DriftCorrected").await, []);

    fleet.edit(&web, json!({ "spec": { "replicas": 3 } })).await;
    let name = work_name("Deployment", "web", "default");
    wait_for(&fleet.works("m1"), &name, "both fields", |work| {
        let conditions = work.status.iter().flat_map(|status| &status.conditions);
        let mut drifted = conditions.filter(|condition| condition.type_ == CONDITION_DRIFTED);
        drifted.any(|condition| condition.message.contains("spec.paused and spec.replicas"))
    })
    .await;
    let object = m1.get(&web).await.unwrap();
    assert_eq!(
        (&object["spec"]["replicas"], &object["spec"]["paused"]),
        (&json!(2), &json!(true))
    );
    let report = diff_of(&fleet, "web").await;
    assert_eq!(report.verdict(), DiffVerdict::Different);
    assert_eq!(member_fields(&report, 0), ["spec.paused", "spec.replicas"]);

    // The member has the wanted fields: the object gets the marks of the new template.
    m1.edit(&web, json!({ "spec": { "paused": null, "replicas": 3 } }))
        .await;
    wait_for_drifted(&fleet, &web, Some("False")).await;
    let marks = |web: &Value| {
        web["metadata"]["annotations"]["resourcetemplate.karmada.io/generation"].clone()
    };
    m1.wait_for(&web, "the new marks", |web| marks(web) != marks(&first))
        .await;
    assert_eq!(diff_of(&fleet, "web").await.verdict(), DiffVerdict::Equal);

    m1.delete(&web).await;
    m1.wait_until_exists(&web).await;
    m1.edit(&web, json!({ "spec": { "replicas": 7 } })).await;
    wait_for_drifted(&fleet, &web, Some("True")).await;
    let correcting = json!({ "metadata": { "annotations": { DRIFT_MODE: null } } });
    fleet.edit(&web, correcting).await;
    m1.wait_for(&web, "corrected", |web| web["spec"]["replicas"] == 3)
        .await;
    wait_for_drifted(&fleet, &web, None).await;
    fleet.stop().await;
}

/// With both annotations, an object of another owner is taken over only if it has no differences.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_of_another_owner_is_taken_over_only_without_differences() {
    let fleet = Fleet::start(1).await;
    let m1 = &fleet.members[0];
    let map = reporting(config_map("settings"));
    let mut theirs = config_map("settings");
    theirs["data"] = json!({ "a": "theirs" });
    m1.apply(theirs).await;
    fleet.apply(map.clone()).await;
    let overwrite = json!({ "conflictResolution": "Overwrite" });
    fleet
        .apply(with_spec(policy(&map, &["m1"]), overwrite))
        .await;
    let binding = wait_for(
        &fleet.bindings(),
        "settings-configmap",
        "the difference",
        |binding| {
            let items = binding.status.iter().flat_map(|s| &s.aggregated_status);
            let mut messages = items.filter_map(|item| item.applied_message.as_deref());
            messages.any(|message| message.contains("differs in data.a"))
        },
    )
    .await;
    assert!(binding.status.is_some());
    let object = m1.get(&map).await.unwrap();
    assert_eq!(object["data"], json!({ "a": "theirs" }));
    assert_eq!(object["metadata"]["labels"], Value::Null);

    m1.edit(&map, json!({ "data": { "a": "1" } })).await;
    m1.wait_for(&map, "taken over", |map| {
        map["metadata"]["labels"]["karmada.io/managed"] == "true"
    })
    .await;
    fleet.stop().await;
}

/// m1 has all that is wanted, m2 lacks the object, and the token of m3 is wrong.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_diff_compares_template_works_and_members() {
    let mut fleet = Fleet::start(3).await;
    let web = deployment("web", 6);
    fleet.apply(web.clone()).await;
    let weights = [("m1", 3), ("m2", 2), ("m3", 1)];
    fleet.apply(divided(&web, &weights)).await;
    let image = json!({ "apiVersion": "policy.karmada.io/v1alpha1", "kind": "OverridePolicy",
        "metadata": { "name": "eu" }, "spec": {
            "resourceSelectors": [{ "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" }],
            "overrideRules": [{ "targetCluster": { "clusterNames": ["m1"] },
                "overriders": { "imageOverrider": [
                    { "component": "Registry", "operator": "replace", "value": "registry.eu" }] } }] } });
    fleet.apply(image).await;
    fleet.members[0]
        .wait_for(&web, "the image", |web| {
            web["spec"]["template"]["spec"]["containers"][0]["image"] == "registry.eu/nginx:1"
        })
        .await;
    for member in &fleet.members {
        member.wait_until_exists(&web).await;
    }
    fleet.wait_for_fully_applied("web-deployment", "True").await;
    let report = diff_of(&fleet, "deployment/web").await;
    assert_eq!(report.verdict(), DiffVerdict::Equal, "{report:?}");
    let template: Vec<(&str, Option<Origin>)> = report.clusters[0]
        .template
        .iter()
        .map(|diff| (diff.field.as_str(), diff.origin))
        .collect();
    assert_eq!(
        template,
        [("spec.replicas", Some(Origin::Share)), (IMAGE, None)]
    );
    assert_eq!(report.clusters[0].override_policies, ["OverridePolicy eu"]);
    assert_eq!(names(&report.clusters[1].template), ["spec.replicas"]);
    let between = serde_json::to_value(&report.between_clusters).unwrap();
    assert_eq!(
        between,
        json!([
            { "field": "spec.replicas", "values": [
                { "value": 3, "clusters": ["m1"] }, { "value": 2, "clusters": ["m2"] },
                { "value": 1, "clusters": ["m3"] }] },
            { "field": IMAGE, "values": [
                { "value": "registry.eu/nginx:1", "clusters": ["m1"] },
                { "value": "nginx:1", "clusters": ["m2", "m3"] }] }])
    );

    fleet.stop_controllers().await;
    fleet.members[0]
        .edit(&web, json!({ "spec": { "minReadySeconds": 5 } }))
        .await;
    fleet.members[1].delete(&web).await;
    fleet.members[1].wait_until_gone(&web).await;
    let before = fleet.members[0].get(&web).await;
    let report = diff_of(&fleet, "web").await;
    assert_eq!(report.verdict(), DiffVerdict::Different);
    assert_eq!(member_fields(&report, 0), ["spec.minReadySeconds"]);
    assert_eq!(report.clusters[1].member, MemberDiff::Absent);

    let (ca, _) = fleet.members[2].credentials();
    fleet.apply_secret("m3", "wrong", &ca).await;
    let report = diff_of(&fleet, "web").await;
    assert_eq!(report.verdict(), DiffVerdict::Incomplete);
    assert_eq!(member_fields(&report, 0), ["spec.minReadySeconds"]);
    let MemberDiff::Unreadable { reason } = &report.clusters[2].member else {
        panic!("{report:?}");
    };
    assert!(reason.contains("Unauthorized"), "{reason}");
    // Nothing was written.
    assert_eq!(fleet.members[0].get(&web).await, before);
    fleet.stop().await;
}

/// The values of a Secret are not printed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_diff_masks_the_values_of_secrets() {
    let mut fleet = Fleet::start(1).await;
    let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "login" },
        "data": { "password": "c2VjcmV0" } });
    fleet.apply(secret.clone()).await;
    fleet.apply(policy(&secret, &["m1"])).await;
    fleet.members[0].wait_until_exists(&secret).await;
    fleet.stop_controllers().await;
    fleet.members[0]
        .edit(&secret, json!({ "data": { "password": "dGhlaXJz" } }))
        .await;
    let report = diff_of(&fleet, "secret/login").await;
    assert_eq!(member_fields(&report, 0), ["data.password"]);
    let text = serde_json::to_string(&report).unwrap();
    assert!(
        !text.contains("c2VjcmV0") && !text.contains("dGhlaXJz"),
        "{text}"
    );
    fleet.stop().await;
}
