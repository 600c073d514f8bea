//! Tests of workloads with several pod templates (components): the workloads are placed in a member with enough
//! capacity, and the status in the member is copied to the template.

use berth_test_requirements::needs;
use serde_json::{Value, json};

use crate::program::{Up, until};

/// Returns a CustomResourceDefinition with the subresource `status`. Its schema accepts any spec and any status.
fn definition(group: &str, version: &str, kind: &str, plural: &str) -> Value {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()},
            "versions": [{"name": version, "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": open, "status": open}}}}],
        },
    })
}

/// Returns a policy that places an object in exactly one cluster.
fn policy(object: &Value) -> Value {
    json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": object["metadata"]["name"], "namespace": "default"},
        "spec": {
            "resourceSelectors": [{"apiVersion": object["apiVersion"], "kind": object["kind"],
                "name": object["metadata"]["name"]}],
            "placement": {
                "replicaScheduling": {"replicaSchedulingType": "Divided",
                    "replicaDivisionPreference": "Aggregated"},
                "spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}],
            },
        },
    })
}

fn flink_deployment() -> Value {
    json!({
        "apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment",
        "metadata": {"name": "clicks", "namespace": "default"},
        "spec": {
            "job": {"parallelism": 18},
            "flinkConfiguration": {"taskmanager.numberOfTaskSlots": "2"},
            "jobManager": {"replicas": 1, "resource": {"cpu": 1, "memory": "1024m"}},
            "taskManager": {"resource": {"cpu": 2, "memory": "2048m"}},
        },
    })
}

fn volcano_job() -> Value {
    let task = |name: &str, pods: i32, cpu: &str| {
        json!({"name": name, "replicas": pods, "minAvailable": pods, "template": {"spec": {
            "restartPolicy": "OnFailure",
            "containers": [{"name": "c", "image": "train:1", "resources": {"requests": {"cpu": cpu}}}]}}})
    };
    json!({
        "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job",
        "metadata": {"name": "train", "namespace": "default"},
        "spec": {"minAvailable": 10, "tasks": [task("master", 1, "1"), task("worker", 9, "2")]},
    })
}

fn apply(up: &Up, context: &str, name: &str, object: &Value) {
    let file = up.home.path().join(name);
    std::fs::write(&file, object.to_string()).unwrap();
    let context = format!("--context={context}");
    up.kubectl(&[&*context, "apply", "-f", file.to_str().unwrap()]);
}

fn read(up: &Up, resource: &str) -> Value {
    serde_json::from_str(&up.kubectl(&["get", resource, "-o", "json"])).unwrap()
}

/// A workload, and the binding that the control plane must create for it.
struct Case {
    object: Value,
    /// Resource and name of the workload, as kubectl accepts them.
    resource: &'static str,
    /// Name of the binding.
    binding: &'static str,
    /// Name, replicas and CPU request of each component.
    components: [(&'static str, i32, &'static str); 2],
    /// The status that the member reports.
    status: Value,
}

/// Applies a workload and its policy. Checks the binding, the object in the member, and the status of the template.
fn follow(up: &Up, case: &Case) {
    apply(up, "berth", "object.json", &case.object);
    apply(up, "berth", "policy.json", &policy(&case.object));
    let binding = format!("resourcebinding/{}", case.binding);
    let spec = until("the placement", || {
        let found = up.run_kubectl(&["get", &binding, "-o", "json"]);
        let found: Value = serde_json::from_slice(&found.stdout).unwrap_or_default();
        match found["spec"]["clusters"][0]["name"].as_str() {
            Some(_) => Ok(found["spec"].clone()),
            None => Err(found.to_string()),
        }
    });
    for (index, (name, replicas, cpu)) in case.components.into_iter().enumerate() {
        let component = &spec["components"][index];
        let request = &component["replicaRequirements"]["resourceRequest"];
        assert_eq!(
            (&component["name"], &component["replicas"], &request["cpu"]),
            (&json!(name), &json!(replicas), &json!(cpu)),
            "{spec}"
        );
    }
    // By the resource models, one pod of the larger component fits on each node, and only member3 has enough nodes.
    let components = case
        .components
        .map(|(name, replicas, _)| json!({"name": name, "replicas": replicas}));
    let target = json!([{"name": "member3", "components": components}]);
    assert_eq!(spec["clusters"], target);
    assert!(spec.get("replicas").is_none(), "{spec}");

    let copy = until("the copy", || {
        let found = up.run_kubectl(&["--context=member3", "get", case.resource, "-o", "json"]);
        serde_json::from_slice::<Value>(&found.stdout)
            .map_err(|_| String::from_utf8_lossy(&found.stderr).into_owned())
    });
    assert_eq!(copy["spec"], case.object["spec"]);

    // The test writes the status that an operator in the member would write.
    let patch = json!({ "status": case.status }).to_string();
    let arguments = [
        "patch",
        case.resource,
        "--subresource=status",
        "--type=merge",
        "-p",
        &patch,
    ];
    up.in_member("member3", &arguments);
    until("the health", || {
        let found = read(up, &binding);
        let item = &found["status"]["aggregatedStatus"][0];
        let health = (&item["clusterName"], &item["health"]);
        (health == (&json!("member3"), &json!("Healthy")))
            .then_some(())
            .ok_or_else(|| found["status"].to_string())
    });
    until("the status", || {
        let status = read(up, case.resource)["status"].clone();
        let wanted = case.status.as_object().unwrap();
        let reported = wanted.iter().all(|(field, value)| status[field] == *value);
        reported.then_some(()).ok_or_else(|| status.to_string())
    });
}

#[needs(kubectl)]
#[test]
fn workloads_with_components_are_placed_in_the_member_with_enough_capacity() {
    let up = Up::start(&[
        "--feature-gates=MultiplePodTemplatesScheduling=true,NodePoolEstimate=false",
        "--cluster-status-update-frequency=1s",
    ]);
    let definitions = [
        definition(
            "flink.apache.org",
            "v1beta1",
            "FlinkDeployment",
            "flinkdeployments",
        ),
        definition("batch.volcano.sh", "v1alpha1", "Job", "jobs"),
    ];
    for (index, definition) in definitions.iter().enumerate() {
        for context in ["berth", "member1", "member2", "member3"] {
            apply(
                &up,
                context,
                &format!("definition-{index}.json"),
                definition,
            );
        }
    }
    follow(
        &up,
        &Case {
            object: flink_deployment(),
            resource: "flinkdeployments.flink.apache.org/clicks",
            binding: "clicks-flinkdeployment",
            components: [("jobmanager", 1, "1"), ("taskmanager", 9, "2")],
            status: json!({"jobStatus": {"state": "RUNNING", "jobName": "clicks"},
                "jobManagerDeploymentStatus": "READY", "lifecycleState": "STABLE"}),
        },
    );
    follow(
        &up,
        &Case {
            object: volcano_job(),
            resource: "jobs.batch.volcano.sh/train",
            binding: "train-job",
            components: [("master", 1, "1"), ("worker", 9, "2")],
            status: json!({"running": 10, "minAvailable": 10, "state": {"phase": "Running"}}),
        },
    );
}
