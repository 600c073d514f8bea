//! Replays recorded cases of Karmada's webhooks and detector on pure functions. The cases cover the defaults and
//! validation of policies, the winning policy, and the binding.
//!
//! No server runs here: the end-to-end replay of the same cases covers timing, and refusals by the schema.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::io::Read as _;
use std::sync::Arc;

use berth_api::admission::{self, GuardedKind, Operation, SystemEnvironment};
use berth_api::feature_gates::FeatureGates;
use berth_controllers::detector::binding_patch::new_binding;
use berth_controllers::detector::claim::PolicyKind;
use berth_controllers::detector::decision::{Cause, Plan, decide};
use berth_controllers::detector::desired_binding::binding_for;
use berth_controllers::detector::index::Index;
use berth_controllers::detector::policy::PolicyRecord;
use berth_controllers::detector::template::Template;
use berth_controllers::resource_type::ResourceType;
use kube::core::ApiResource;
use serde_json::{Value, json};

fn cases() -> Vec<Value> {
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../e2e/data/detector.json.gz"
    );
    let mut text = String::new();
    flate2::read::GzDecoder::new(std::fs::File::open(file).unwrap())
        .read_to_string(&mut text)
        .unwrap();
    let mut data: Value = serde_json::from_str(&text).unwrap();
    serde_json::from_value(data["cases"].take()).unwrap()
}

fn policy_kind(object: &Value) -> Option<PolicyKind> {
    match object["kind"].as_str() {
        Some("PropagationPolicy") => Some(PolicyKind::Namespaced),
        Some("ClusterPropagationPolicy") => Some(PolicyKind::Cluster),
        _ => None,
    }
}

fn guarded(kind: PolicyKind) -> GuardedKind {
    match kind {
        PolicyKind::Namespaced => GuardedKind::PropagationPolicy,
        PolicyKind::Cluster => GuardedKind::ClusterPropagationPolicy,
    }
}

/// Reports whether the schema, and not the webhook, refused an object.
fn is_schema_refusal(admitted: &Value) -> bool {
    let error = admitted["error"].as_str().unwrap_or_default();
    !error.contains("admission webhook")
}

/// Returns the fields that an error of the webhook names.
fn refused_fields(error: &str) -> Vec<&str> {
    error
        .split([' ', '['])
        .filter(|word| word.starts_with("spec."))
        .filter_map(|word| word.strip_suffix(':'))
        .collect()
}

#[test]
fn policies_are_admitted_as_recorded() {
    let mut differences = Vec::new();
    for case in cases() {
        let id = &case["id"];
        let objects = case["objects"].as_array().unwrap();
        for (object, admitted) in objects.iter().zip(case["admitted"].as_array().unwrap()) {
            let Some(kind) = policy_kind(object) else {
                continue;
            };
            let kind = guarded(kind);
            let mut stored = object.clone();
            admission::mutate(kind, Operation::Create, &mut stored, &mut SystemEnvironment);
            let outcome = admission::validate(kind, Operation::Create, None, &stored);
            match (admitted["accepted"] == true, outcome) {
                (true, Ok(())) => {
                    if stored["spec"] != admitted["spec"] {
                        differences.push(format!(
                            "{id}: stored\n  {}\nrecorded\n  {}",
                            stored["spec"], admitted["spec"]
                        ));
                    }
                }
                (true, Err(errors)) => differences.push(format!("{id}: refused {errors:?}")),
                (false, _) if is_schema_refusal(admitted) => {}
                (false, Ok(())) => differences.push(format!("{id}: accepted {object}")),
                (false, Err(errors)) => {
                    for field in refused_fields(admitted["error"].as_str().unwrap()) {
                        if !errors.iter().any(|error| error.field.starts_with(field)) {
                            differences.push(format!("{id}: {field} not named by {errors:?}"));
                        }
                    }
                }
            }
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// Returns the object with the kube-apiserver defaults that the interpreter reads.
fn as_stored(mut object: Value) -> Value {
    let default = |value: &mut Value, preset: Value| {
        if value.is_null() {
            *value = preset;
        }
    };
    object["metadata"]["uid"] = json!("*");
    object["metadata"]["resourceVersion"] = json!("*");
    match object["kind"].as_str() {
        Some("Deployment" | "ReplicaSet" | "StatefulSet") => {
            default(&mut object["spec"]["replicas"], json!(1));
        }
        Some("Job") => default(&mut object["spec"]["parallelism"], json!(1)),
        Some("Pod") => {
            let tolerations = &mut object["spec"]["tolerations"];
            default(tolerations, json!([]));
            for key in ["not-ready", "unreachable"] {
                tolerations.as_array_mut().unwrap().push(json!({
                    "key": format!("node.kubernetes.io/{key}"), "operator": "Exists",
                    "effect": "NoExecute", "tolerationSeconds": 300,
                }));
            }
        }
        _ => {}
    }
    object
}

fn template_of(case: &Value) -> Template {
    let objects = case["objects"].as_array().unwrap();
    let object = objects.iter().find(|object| policy_kind(object).is_none());
    let object = as_stored(object.unwrap().clone());
    let (api_version, kind) = (
        object["apiVersion"].as_str().unwrap(),
        object["kind"].as_str().unwrap(),
    );
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let resource = ResourceType {
        api: ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            plural: String::new(),
        },
        namespaced: object["metadata"].get("namespace").is_some(),
    };
    Template::from_object(&Arc::new(resource), serde_json::from_value(object).unwrap())
}

/// Applies the accepted objects in the recorded order. Returns the binding, if there is one. The first policy that
/// claims the template is never replaced.
fn replay(case: &Value) -> Option<Value> {
    let template = template_of(case);
    let mut index = Index::default();
    let mut present = false;
    let mut outcome = None;
    let objects = case["objects"].as_array().unwrap();
    for (object, admitted) in objects.iter().zip(case["admitted"].as_array().unwrap()) {
        if admitted["accepted"] != true {
            continue;
        }
        let mut origin = Cause::user();
        if let Some(kind) = policy_kind(object) {
            let mut stored = object.clone();
            admission::mutate(
                guarded(kind),
                Operation::Create,
                &mut stored,
                &mut SystemEnvironment,
            );
            let stored = serde_json::from_value(stored).unwrap();
            let record = PolicyRecord::from_object(kind, &stored);
            let policy = record.ready().expect("an accepted policy can be applied");
            origin.by_user = !policy.is_lazy();
            index.put_policy(Arc::new(record));
        } else {
            present = true;
        }
        if present
            && outcome.is_none()
            && let Plan::Apply(application) =
                decide(&template, &index, &origin, FeatureGates::default())
        {
            outcome = Some(application);
        }
    }
    let application = outcome.filter(|application| application.bind)?;
    let desired = binding_for(
        &template,
        &application.policy,
        None,
        FeatureGates::default(),
        &berth_interpreter::Interpreter::default(),
    )
    .unwrap();
    Some(new_binding(&desired, "*"))
}

/// Returns a binding in the format of the recorded bindings.
fn as_recorded(binding: &Value) -> Value {
    let meta = &binding["metadata"];
    let mut labels = meta["labels"].clone();
    for value in labels.as_object_mut().unwrap().values_mut() {
        *value = json!("*");
    }
    json!({
        "kind": binding["kind"],
        "name": meta["name"],
        "labels": labels,
        "annotations": meta["annotations"],
        "finalizers": meta["finalizers"],
        "ownerKinds": [meta["ownerReferences"][0]["kind"]],
        "spec": binding["spec"],
    })
}

#[test]
fn bindings_equal_the_recorded_ones() {
    let mut differences = Vec::new();
    for case in cases() {
        let ours: Vec<Value> = replay(&case).iter().map(as_recorded).collect();
        let recorded = case["bindings"].as_array().unwrap();
        if ours != *recorded {
            differences.push(format!(
                "{}: ours\n  {}\nrecorded\n  {}",
                case["id"],
                json!(ours),
                case["bindings"]
            ));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
