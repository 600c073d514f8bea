//! What came out, beside what was measured.

use kube::api::{Api, DynamicObject, ListParams};
use kube::core::ApiResource;
use serde_json::{Map, Value, json};

use super::case::{Case, Outcome, get, is_policy};
use super::settle;

/// How long bindings may take to appear.
const PATIENCE: std::time::Duration = std::time::Duration::from_mins(1);
/// Annotations that the API server makes.
const NOT_OURS: [&str; 1] = ["deprecated.daemonset.template.generation"];

/// Compares what was accepted and stored.
pub fn admission(case: &Case, outcomes: &[Outcome], differences: &mut Vec<String>) {
    let id = &case.id;
    let objects = case.objects.iter().zip(&case.admitted);
    for ((object, admitted), outcome) in objects.zip(outcomes) {
        let name = format!("{id} {}/{}", object["kind"], object["metadata"]["name"]);
        match (admitted["accepted"] == true, outcome) {
            (true, Ok(stored)) if is_policy(object) => {
                if stored["spec"] != admitted["spec"] {
                    differences.push(format!(
                        "{name}: stored spec\n    ours     {}\n    measured {}",
                        stored["spec"], admitted["spec"]
                    ));
                }
            }
            (true, Ok(_)) => {}
            (true, Err(error)) => differences.push(format!("{name}: refused: {error}")),
            (false, Ok(_)) => differences.push(format!("{name}: accepted")),
            (false, Err(error)) => {
                let measured = admitted["error"].as_str().unwrap();
                for field in fields_named(measured) {
                    if !error.contains(field) {
                        differences.push(format!("{name}: {field} is not named by: {error}"));
                    }
                }
            }
        }
    }
}

fn fields_named(error: &str) -> impl Iterator<Item = &str> {
    error
        .split([' ', '['])
        .filter(|word| word.starts_with("spec."))
        .filter_map(|word| word.strip_suffix(':'))
}

/// Compares bindings, marks and finalizers once they are as measured, or it is clear that they never will be.
pub async fn settled(client: &kube::Client, cases: &[Case], differences: &mut Vec<String>) {
    until_settled(client, cases).await;
    for case in cases {
        compare_bindings(client, case, differences).await;
        compare_marks(client, case, differences).await;
    }
}

/// Compares bindings only, likewise.
pub async fn bindings(client: &kube::Client, cases: &[Case], differences: &mut Vec<String>) {
    until_settled(client, cases).await;
    for case in cases {
        compare_bindings(client, case, differences).await;
    }
}

async fn until_settled(client: &kube::Client, cases: &[Case]) {
    // What should be there may take a moment; what should not be there must not be there at the end.
    let expected: usize = cases.iter().map(|case| case.bindings.len()).sum();
    let all_there = async {
        let mut present = 0;
        while present < expected {
            present = 0;
            for case in cases {
                present += bindings_of(client, case)
                    .await
                    .len()
                    .min(case.bindings.len());
            }
        }
    };
    // Those that are missing are told of below, each by its name.
    let _ = tokio::time::timeout(PATIENCE, all_there).await;
    settle::until_seen(client, cases, "end").await;
}

async fn compare_bindings(client: &kube::Client, case: &Case, differences: &mut Vec<String>) {
    let id = &case.id;
    let bindings = bindings_of(client, case).await;
    if bindings != case.bindings {
        differences.push(format!(
            "{id}: bindings\n    ours     {}\n    measured {}",
            json!(bindings),
            json!(case.bindings)
        ));
    }
}

async fn compare_marks(client: &kube::Client, case: &Case, differences: &mut Vec<String>) {
    let id = &case.id;
    let template = get(client, case.template()).await.unwrap_or_default();
    for (map, measured) in [
        ("labels", &case.template["labels"]),
        ("annotations", &case.template["annotations"]),
    ] {
        let ours = marks(&template["metadata"][map]);
        let measured = marks(measured);
        if ours != measured {
            differences.push(format!(
                "{id}: template {map}\n    ours     {ours}\n    measured {measured}"
            ));
        }
    }
    for (object, admitted) in case.objects.iter().zip(&case.admitted) {
        if !is_policy(object) || admitted["accepted"] != true {
            continue;
        }
        let stored = get(client, object).await.unwrap_or_default();
        let meta = &stored["metadata"];
        let keys: Vec<&String> = meta["labels"]
            .as_object()
            .into_iter()
            .flat_map(Map::keys)
            .collect();
        if json!(keys) != admitted["labels"] || meta["finalizers"] != admitted["finalizers"] {
            differences.push(format!(
                "{id}: policy {} has labels {keys:?} and finalizers {}, measured {} and {}",
                object["metadata"]["name"],
                meta["finalizers"],
                admitted["labels"],
                admitted["finalizers"]
            ));
        }
    }
}

/// The bindings of a case, as the measurements show them.
async fn bindings_of(client: &kube::Client, case: &Case) -> Vec<Value> {
    let template = &case.template()["metadata"];
    let api: Api<DynamicObject> = if template.get("namespace").is_some() {
        let resource = ApiResource::erase::<berth_api::ResourceBinding>(&());
        Api::namespaced_with(client.clone(), &case.namespace, &resource)
    } else {
        Api::all_with(
            client.clone(),
            &ApiResource::erase::<berth_api::ClusterResourceBinding>(&()),
        )
    };
    let bindings = api.list(&ListParams::default()).await.unwrap();
    bindings
        .items
        .into_iter()
        .filter(|binding| binding.data["spec"]["resource"]["name"] == template["name"])
        .map(as_measured)
        .collect()
}

fn as_measured(binding: DynamicObject) -> Value {
    let meta = &binding.metadata;
    let owners: Vec<&String> = meta
        .owner_references
        .iter()
        .flatten()
        .map(|owner| &owner.kind)
        .collect();
    let mut spec = binding.data["spec"].clone();
    for field in ["uid", "resourceVersion"] {
        spec["resource"][field] = json!("*");
    }
    let kind = if meta.namespace.is_some() {
        "ResourceBinding"
    } else {
        "ClusterResourceBinding"
    };
    json!({
        "kind": kind,
        "name": meta.name,
        "labels": marks(&json!(meta.labels)),
        "annotations": marks(&json!(meta.annotations)),
        "finalizers": meta.finalizers,
        "ownerKinds": owners,
        "spec": spec,
    })
}

/// Labels or annotations with ids hidden.
fn marks(map: &Value) -> Value {
    let mut marks = map.as_object().cloned().unwrap_or_default();
    marks.retain(|key, _| !NOT_OURS.contains(&key.as_str()));
    for (key, value) in &mut marks {
        if key.ends_with("/permanent-id") {
            *value = json!("*");
        }
    }
    Value::Object(marks)
}
