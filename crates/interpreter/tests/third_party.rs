//! Compares the rules for kinds of other projects with results that were recorded from `karmadactl interpret`.
//!
//! Each file in `data/third_party` has objects, lists of status items, and cases. A case is an operation on an object,
//! with the recorded result of Karmada's customization, or `error: true` if Karmada's customization fails. `NOW` stands
//! for the time of the call.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests may panic"
)]

use std::collections::BTreeMap;
use std::path::Path;

use berth_api::binding::AggregatedStatusItem;
use berth_interpreter::{InterpretError, Interpreter};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Debug, Deserialize)]
struct File {
    objects: BTreeMap<String, Value>,
    #[serde(default)]
    items: BTreeMap<String, Vec<AggregatedStatusItem>>,
    cases: Vec<Case>,
}

#[derive(Debug, Deserialize)]
struct Case {
    operation: String,
    object: String,
    #[serde(default)]
    observed: String,
    #[serde(default)]
    items: String,
    #[serde(default)]
    replicas: i32,
    #[serde(default)]
    error: bool,
    #[serde(default)]
    answer: Value,
}

/// Cases in which Berth differs from Karmada on purpose: file, operation, object, list of items, and Berth's result.
fn differences() -> Vec<(
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    Value,
)> {
    vec![
        // Karmada fails if no member has the template.
        (
            "SidecarSet",
            "AggregateStatus",
            "full",
            "none",
            json!({"matchedPods": 0, "updatedPods": 0, "readyPods": 0}),
        ),
        (
            "SidecarSet",
            "AggregateStatus",
            "fresh",
            "none",
            json!({"matchedPods": 0, "updatedPods": 0, "readyPods": 0}),
        ),
        // Karmada fails if the template has no ServiceAccount.
        (
            "OCIRepository",
            "InterpretDependency",
            "pulled",
            "",
            json!([]),
        ),
    ]
}

fn answer(file: &File, case: &Case) -> Result<Value, InterpretError> {
    let interpreter = Interpreter::default();
    let object = &file.objects[&case.object];
    let (api_version, kind) = (
        object["apiVersion"].as_str().unwrap(),
        object["kind"].as_str().unwrap(),
    );
    Ok(match case.operation.as_str() {
        "InterpretReplica" => {
            let read = interpreter.replicas(api_version, kind, object)?.unwrap();
            let mut answer = json!({"replicas": read.replicas});
            if let Some(requirements) = read.requirements {
                answer["requirements"] = requirements;
            }
            answer
        }
        "InterpretComponent" => json!(interpreter.components(api_version, kind, object)?.unwrap()),
        "InterpretHealth" => json!(interpreter.is_healthy(object)?),
        "InterpretStatus" => interpreter.reflect(object)?.unwrap(),
        "InterpretDependency" => json!(interpreter.dependencies(object)?.unwrap()),
        "ReviseReplica" => {
            let mut revised = object.clone();
            interpreter.revise_replicas(&mut revised, case.replicas)?;
            revised["spec"].take()
        }
        "Retain" => {
            let mut retained = object.clone();
            interpreter.retain(&mut retained, &file.objects[&case.observed])?;
            let fields = ["spec", "status"].into_iter();
            let fields = fields.filter(|field| retained.get(field).is_some());
            fields
                .map(|field| (field.to_owned(), retained[field].clone()))
                .collect()
        }
        "AggregateStatus" => {
            let none = Vec::new();
            let items = file.items.get(&case.items).unwrap_or(&none);
            let now: Time = serde_json::from_value(json!("2020-01-01T00:00:00Z")).unwrap();
            let status = interpreter.aggregate(object, items, &now)?;
            let Some(status) = status else {
                // The status is unchanged. Karmada would remove the empty fields of the old status.
                return Ok(without_empty(&object["status"]));
            };
            let text = status.to_string().replace("2020-01-01T00:00:00Z", "NOW");
            serde_json::from_str(&text).unwrap()
        }
        other => panic!("unknown operation {other}"),
    })
}

/// Removes empty lists and objects, which Karmada drops from results.
fn without_empty(value: &Value) -> Value {
    let is_empty = |value: &Value| *value == json!({}) || *value == json!([]) || value.is_null();
    match value {
        Value::Null => json!({}),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, field)| (name.clone(), without_empty(field)))
            .filter(|(_, field)| !is_empty(field))
            .collect(),
        Value::Array(items) => items.iter().map(without_empty).collect(),
        other => other.clone(),
    }
}

#[test]
fn rules_give_the_results_of_karmada() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/third_party");
    let differences = differences();
    let (mut cases, mut failures) = (0, Vec::new());
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let text = std::fs::read_to_string(&path).unwrap();
        let file: File = serde_saphyr::from_str(&text).unwrap();
        for case in &file.cases {
            cases += 1;
            let found = answer(&file, case);
            let difference = differences
                .iter()
                .find(|(kind, operation, object, items, _)| {
                    name.ends_with(kind)
                        && (*operation, *object, *items)
                            == (
                                case.operation.as_str(),
                                case.object.as_str(),
                                case.items.as_str(),
                            )
                });
            let is_equal = match (&found, difference) {
                (Ok(found), Some((.., expected))) => found == expected,
                // Karmada fails on pods that have no dependencies.
                (Ok(found), None) if case.error => {
                    case.operation == "InterpretDependency" && *found == json!([])
                }
                (Ok(found), None) => *found == case.answer || *found == without_empty(&case.answer),
                (Err(_), difference) => case.error && difference.is_none(),
            };
            if !is_equal {
                failures.push(format!("{name}: {case:?}\n   found {found:?}"));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert_eq!(cases, 504);
}

#[test]
fn repeated_aggregation_does_not_add_the_failures_of_a_release_again() {
    let items = json!([
        {"clusterName": "m1", "status": {"failures": 2}},
        {"clusterName": "m2", "status": {"failures": 1}}]);
    let items: Vec<AggregatedStatusItem> = serde_json::from_value(items).unwrap();
    let now: Time = serde_json::from_value(json!("2020-01-01T00:00:00Z")).unwrap();
    let mut release = json!({"apiVersion": "helm.toolkit.fluxcd.io/v2beta1", "kind": "HelmRelease",
        "metadata": {"name": "app"}, "status": {"failures": 0}});
    let interpreter = Interpreter::default();
    release["status"] = interpreter
        .aggregate(&release, &items, &now)
        .unwrap()
        .unwrap();
    assert_eq!(release["status"]["failures"], 3);
    assert_eq!(interpreter.aggregate(&release, &items, &now).unwrap(), None);
}

#[test]
fn later_aggregation_keeps_the_state_time_of_a_finished_volcano_job() {
    let items = json!([
        {"clusterName": "m1", "status": {"state": {"phase": "Completed"}}},
        {"clusterName": "m2", "status": {"state": {"phase": "Completed"}}}]);
    let items: Vec<AggregatedStatusItem> = serde_json::from_value(items).unwrap();
    let time = |text: &str| -> Time { serde_json::from_value(json!(text)).unwrap() };
    let mut job = json!({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job",
        "metadata": {"name": "train"}});
    let interpreter = Interpreter::default();
    let status = interpreter.aggregate(&job, &items, &time("2020-01-01T00:00:00Z"));
    job["status"] = status.unwrap().unwrap();
    let again = interpreter.aggregate(&job, &items, &time("2020-01-02T00:00:00Z"));
    assert_eq!(again.unwrap(), None);
}

/// Karmada has no rules for Rollouts of Argo.
#[test]
fn argo_rollouts_have_replicas_dependencies_status_and_health() {
    let rollout = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout",
        "metadata": {"name": "shop", "namespace": "prod", "generation": 2,
            "annotations": {"resourcetemplate.karmada.io/generation": "5"}},
        "spec": {"replicas": 3, "template": {"spec": {"containers": [
            {"name": "c", "envFrom": [{"configMapRef": {"name": "settings"}}],
             "resources": {"requests": {"cpu": "1"}}}]}}},
        "status": {"phase": "Progressing", "observedGeneration": "2", "replicas": 3, "stableRS": "a"}});
    let interpreter = Interpreter::default();
    let (version, kind) = ("argoproj.io/v1alpha1", "Rollout");
    let read = interpreter
        .replicas(version, kind, &rollout)
        .unwrap()
        .unwrap();
    assert_eq!(read.replicas, 3);
    assert_eq!(
        read.requirements,
        Some(json!({"resourceRequest": {"cpu": "1"}}))
    );
    let dependencies = interpreter.dependencies(&rollout).unwrap().unwrap();
    assert_eq!(dependencies[0].name, "settings");
    let report = interpreter.reflect(&rollout).unwrap().unwrap();
    assert_eq!(
        report,
        json!({"phase": "Progressing", "observedGeneration": "2", "replicas": 3,
        "generation": 2, "resourceTemplateGeneration": 5})
    );
    for (phase, healthy) in [
        ("Progressing", false),
        ("Degraded", false),
        ("Healthy", true),
        ("Paused", true),
    ] {
        let mut rollout = rollout.clone();
        rollout["status"]["phase"] = json!(phase);
        assert_eq!(
            interpreter.is_healthy(&rollout).unwrap(),
            healthy,
            "{phase}"
        );
        rollout["status"]["observedGeneration"] = json!("1");
        assert!(!interpreter.is_healthy(&rollout).unwrap());
    }
    let items = json!([
        {"clusterName": "m1", "status": {"phase": "Healthy", "replicas": 2, "generation": 4,
            "observedGeneration": "4", "resourceTemplateGeneration": 2}},
        {"clusterName": "m2", "status": report}]);
    let items: Vec<AggregatedStatusItem> = serde_json::from_value(items).unwrap();
    let now: Time = serde_json::from_value(json!("2020-01-01T00:00:00Z")).unwrap();
    let status = interpreter
        .aggregate(&rollout, &items, &now)
        .unwrap()
        .unwrap();
    assert_eq!(
        (&status["phase"], &status["replicas"]),
        (&json!("Progressing"), &json!(5))
    );
    let mut revised = rollout;
    interpreter.revise_replicas(&mut revised, 1).unwrap();
    assert_eq!(revised["spec"]["replicas"], 1);
}

#[test]
fn customizations_precede_third_party_rules_and_these_precede_native_rules() {
    let customization = serde_json::from_value(json!({
        "apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterCustomization",
        "metadata": {"name": "c"}, "spec": {
            "target": {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet"},
            "customizations": {"replicaResource":
                {"luaScript": "function GetReplicas(o) return 7 end"}}}}))
    .unwrap();
    let set = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet",
        "metadata": {"name": "s", "namespace": "n", "generation": 1},
        "spec": {"replicas": 2, "template": {}}, "status": {"observedGeneration": 0}});
    let replicas = |interpreter: &Interpreter| {
        let read = interpreter.replicas("apps.kruise.io/v1alpha1", "CloneSet", &set);
        read.unwrap().unwrap().replicas
    };
    let customized = Interpreter::with(vec![customization]);
    assert_eq!(replicas(&Interpreter::default()), 2);
    assert_eq!(replicas(&customized), 7);
    assert!(!customized.is_healthy(&set).unwrap());
}
