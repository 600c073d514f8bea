//! Tests of the fields that a binding gets from its policy and its template.

use std::sync::Arc;

use kube::core::ApiResource;

use super::super::claim::{PolicyKey, PolicyKind};
use super::*;
use crate::resource_type::ResourceType;

fn policy(raw_spec: &Value) -> Policy {
    Policy {
        key: PolicyKey {
            kind: PolicyKind::Namespaced,
            namespace: "default".to_owned(),
            name: "p".to_owned(),
        },
        id: "id".to_owned(),
        spec: serde_json::from_value(raw_spec.clone()).unwrap(),
        raw_spec: raw_spec.clone(),
        selectors: Vec::new(),
        preemptible: None,
        limits: BTreeMap::new(),
    }
}

#[test]
fn values_that_omitempty_drops_are_not_copied() {
    let raw_spec = json!({
        "resourceSelectors": [],
        "schedulerName": "",
        "conflictResolution": "Abort",
        "preserveResourcesOnDeletion": false,
        "placement": { "clusterTolerations": [{ "key": "", "operator": "Equal", "value": "x" }],
            "spreadConstraints": [], "unknownField": "kept" },
        "suspension": { "dispatching": false, "dispatchingOnClusters": { "clusterNames": [] } },
        "failover": { "cluster": { "purgeMode": "" } },
    });
    let policy = policy(&raw_spec);
    assert_eq!(
        Value::Object(policy_fields(&policy)),
        json!({
            "conflictResolution": "Abort",
            "preserveResourcesOnDeletion": false,
            "placement": { "clusterTolerations": [{ "operator": "Equal", "value": "x" }], "unknownField": "kept" },
            "suspension": { "dispatching": false, "dispatchingOnClusters": {} },
            "failover": { "cluster": {} },
        })
    );
}

/// Returns a template of a custom kind in the namespace `default`.
fn template(api_version: &str, kind: &str, plural: &str, spec: &Value) -> Template {
    let (group, version) = api_version.split_once('/').unwrap();
    let resource = ResourceType {
        api: ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            plural: plural.to_owned(),
        },
        namespaced: true,
    };
    let object = json!({ "metadata": { "name": "app", "namespace": "default" }, "spec": spec });
    Template::from_object(&Arc::new(resource), serde_json::from_value(object).unwrap())
}

fn flink_deployment() -> Template {
    let spec = json!({
        "flinkConfiguration": { "taskmanager.numberOfTaskSlots": "2" },
        "job": { "parallelism": 3 },
        "jobManager": { "replicas": 1, "resource": { "cpu": 0.05, "memory": "100m" } },
        "taskManager": { "resource": { "cpu": 0.1, "memory": "200m" } },
    });
    template(
        "flink.apache.org/v1beta1",
        "FlinkDeployment",
        "flinkdeployments",
        &spec,
    )
}

fn volcano_job() -> Template {
    let task = |name: &str, pods: i32, cpu: &str| {
        json!({ "name": name, "replicas": pods + 1, "minAvailable": pods, "template": { "spec": {
            "containers": [{ "name": "c", "resources": { "requests": { "cpu": cpu } } }] } } })
    };
    let spec = json!({ "tasks": [task("master", 1, "200m"), task("worker", 3, "1")] });
    template("batch.volcano.sh/v1alpha1", "Job", "jobs", &spec)
}

/// Returns the values that a binding gets from its template.
fn read(
    template: &Template,
    multiple_pod_templates: bool,
    interpreter: &Interpreter,
) -> (Value, Interpreted) {
    let mut gates = FeatureGates::default();
    gates.engine.multiple_pod_templates_scheduling = multiple_pod_templates;
    let policy = policy(&json!({ "resourceSelectors": [], "placement": {} }));
    let binding = binding_for(template, &policy, None, gates, interpreter).unwrap();
    let fields = ["components", "replicas", "replicaRequirements"];
    let fields = fields
        .into_iter()
        .filter_map(|field| Some((field.to_owned(), binding.spec.get(field)?.clone())));
    (Value::Object(fields.collect()), binding.interpreted)
}

#[test]
fn components_replace_replicas_with_the_gate() {
    let request = |cpu: &str, memory: &str| json!({ "cpu": cpu, "memory": memory });
    let flink = json!({ "components": [
        { "name": "jobmanager", "replicas": 1,
            "replicaRequirements": { "resourceRequest": request("50m", "100m") } },
        { "name": "taskmanager", "replicas": 2,
            "replicaRequirements": { "resourceRequest": request("100m", "200m") } },
    ] });
    let flink_replicas = json!({ "replicas": 3, "replicaRequirements": {
        "resourceRequest": request("100m", "200m"), "namespace": "default" } });
    let task = |name: &str, replicas: i32, cpu: &str| {
        json!({ "name": name, "replicas": replicas, "replicaRequirements": {
            "resourceRequest": { "cpu": cpu } } })
    };
    let volcano = json!({ "components": [task("master", 1, "200m"), task("worker", 3, "1")] });
    let (flink_template, volcano_template) = (flink_deployment(), volcano_job());
    for (template, gate, expected, source) in [
        (&flink_template, true, flink, Interpreted::Components),
        (
            &flink_template,
            false,
            flink_replicas,
            Interpreted::Replicas,
        ),
        (&volcano_template, true, volcano, Interpreted::Components),
        // Karmada has no rule for the replicas of a Volcano Job.
        (&volcano_template, false, json!({}), Interpreted::Nothing),
    ] {
        let found = read(template, gate, &Interpreter::default());
        assert_eq!(found, (expected, source), "{} {gate}", template.key.kind());
    }
}

#[test]
fn scripts_override_the_components_of_a_kind() {
    let customization = json!({
        "metadata": { "name": "flink" },
        "spec": {
            "target": { "apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment" },
            "customizations": { "componentResource": { "luaScript":
                "function GetComponents(object)
                   return {{ name = 'whole', replicas = object.spec.job.parallelism }}
                 end" } },
        },
    });
    let interpreter = Interpreter::with(vec![serde_json::from_value(customization).unwrap()]);
    let (found, source) = read(&flink_deployment(), true, &interpreter);
    let expected = json!({ "components": [{ "name": "whole", "replicas": 3 }] });
    assert_eq!((found, source), (expected, Interpreted::Components));
}

#[test]
fn the_limits_of_the_template_precede_those_of_the_policy() {
    let mut policy = policy(&json!({ "resourceSelectors": [], "placement": {} }));
    let mut template = volcano_job();
    let interpreter = Interpreter::default();
    let mut limits = |of_policy: Option<&str>, of_template: Option<&str>| {
        policy.limits.clear();
        let of_policy = of_policy.map(|text| (REPLICA_LIMITS, text.to_owned()));
        policy.limits.extend(of_policy);
        template.replica_limits = of_template.map(str::to_owned);
        let gates = FeatureGates::default();
        let binding = binding_for(&template, &policy, None, gates, &interpreter).unwrap();
        binding.annotations.get(REPLICA_LIMITS).cloned()
    };
    assert_eq!(limits(None, None), None);
    assert_eq!(limits(Some("a"), None), Some(json!("a")));
    assert_eq!(limits(Some("a"), Some("b")), Some(json!("b")));
    assert_eq!(limits(None, Some("b")), Some(json!("b")));
}

#[test]
fn the_queue_name_of_the_template_is_copied() {
    let policy = policy(&json!({ "resourceSelectors": [], "placement": {} }));
    let mut template = volcano_job();
    template
        .labels
        .insert(QUEUE_NAME.to_owned(), "red".to_owned());
    let gates = FeatureGates::default();
    let binding = binding_for(&template, &policy, None, gates, &Interpreter::default()).unwrap();
    assert_eq!(binding.labels.get(QUEUE_NAME), Some(&json!("red")));
}
