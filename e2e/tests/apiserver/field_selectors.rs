//! Tests of the field selectors of built-in kinds.

use berth_test_requirements::needs;
use serde_json::{Value, json};

use crate::harness::objects::{Objects, ResponseStatus, names, status_of};
use crate::harness::server;

/// An object to create in a collection, its status, and the selectable fields with their expected values.
struct Case {
    path: String,
    object: Value,
    status: Value,
    fields: Vec<(&'static str, &'static str)>,
    /// True if `metadata.namespace` is selectable.
    by_namespace: bool,
}

fn pod(name: &str, spec: &Value) -> Value {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    for (field, value) in spec.as_object().unwrap() {
        pod["spec"][field] = value.clone();
    }
    pod
}

fn template() -> Value {
    json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

fn cases(namespace: &str) -> Vec<Case> {
    let within = |group: &str, plural: &str| format!("{group}/namespaces/{namespace}/{plural}");
    let core = |plural: &str| within("/api/v1", plural);
    let row = |path: String,
               object: Value,
               status: Value,
               fields: &[(&'static str, &'static str)]| Case {
        by_namespace: path.contains("/namespaces/"),
        path,
        object,
        status,
        fields: fields.to_vec(),
    };
    let unique = |name: &str| format!("{name}-{namespace}");
    vec![
        row(
            core("pods"),
            pod("bare", &json!({})),
            Value::Null,
            &[
                ("spec.nodeName", ""),
                ("spec.restartPolicy", "Always"),
                ("spec.schedulerName", "default-scheduler"),
                ("spec.hostNetwork", "false"),
                ("status.phase", "Pending"),
                ("status.podIP", ""),
                ("status.podIPs", ""),
                ("status.nominatedNodeName", ""),
            ],
        ),
        row(
            core("pods"),
            pod(
                "full",
                &json!({"nodeName": "n1", "restartPolicy": "Never", "schedulerName": "mine", "hostNetwork": true,
                    "serviceAccountName": "default"}),
            ),
            json!({"phase": "Running", "podIP": "10.1.2.3", "podIPs": [{"ip": "10.1.2.3"}]}),
            &[
                ("spec.nodeName", "n1"),
                ("spec.host", "n1"),
                ("spec.restartPolicy", "Never"),
                ("spec.schedulerName", "mine"),
                ("spec.serviceAccountName", "default"),
                ("spec.hostNetwork", "true"),
                ("status.phase", "Running"),
                ("status.podIP", "10.1.2.3"),
                ("status.podIPs", ""),
                ("status.nominatedNodeName", ""),
            ],
        ),
        row(
            "/api/v1/nodes".to_owned(),
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": unique("open")}}),
            Value::Null,
            &[("spec.unschedulable", "false")],
        ),
        row(
            "/api/v1/nodes".to_owned(),
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": unique("shut")},
                "spec": {"unschedulable": true}}),
            Value::Null,
            &[("spec.unschedulable", "true")],
        ),
        row(
            core("events"),
            json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "old"},
                "involvedObject": {"kind": "Pod", "namespace": namespace, "name": "p", "uid": "u",
                    "apiVersion": "v1", "resourceVersion": "7", "fieldPath": "spec.containers{c}"},
                "reason": "R", "type": "Warning", "source": {"component": "kubelet"}}),
            Value::Null,
            &[
                ("involvedObject.kind", "Pod"),
                ("involvedObject.name", "p"),
                ("involvedObject.uid", "u"),
                ("involvedObject.apiVersion", "v1"),
                ("involvedObject.resourceVersion", "7"),
                ("involvedObject.fieldPath", "spec.containers{c}"),
                ("reason", "R"),
                ("reportingComponent", ""),
                ("source", "kubelet"),
                ("type", "Warning"),
            ],
        ),
        row(
            within("/apis/events.k8s.io/v1", "events"),
            json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "new"},
                "regarding": {"kind": "Pod", "namespace": namespace, "name": "p", "uid": "v",
                    "apiVersion": "v1", "resourceVersion": "8", "fieldPath": "spec"},
                "reason": "S", "type": "Normal", "action": "A", "eventTime": "2026-01-01T00:00:00.000000Z",
                "reportingController": "example.com/c", "reportingInstance": "i"}),
            Value::Null,
            &[
                ("regarding.kind", "Pod"),
                ("regarding.name", "p"),
                ("regarding.uid", "v"),
                ("regarding.apiVersion", "v1"),
                ("regarding.resourceVersion", "8"),
                ("regarding.fieldPath", "spec"),
                ("reason", "S"),
                ("reportingController", "example.com/c"),
                ("type", "Normal"),
            ],
        ),
        row(
            "/api/v1/namespaces".to_owned(),
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": unique("more")}}),
            Value::Null,
            &[("status.phase", "Active")],
        ),
        row(
            core("secrets"),
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "type": "example.com/t"}),
            Value::Null,
            &[("type", "example.com/t")],
        ),
        row(
            core("services"),
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
                "spec": {"clusterIP": "None", "ports": [{"port": 80}]}}),
            Value::Null,
            &[("spec.clusterIP", "None"), ("spec.type", "ClusterIP")],
        ),
        row(
            core("replicationcontrollers"),
            json!({"apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "rc"},
                "spec": {"replicas": 2, "selector": {"a": "b"}, "template": template()}}),
            Value::Null,
            &[("status.replicas", "0")],
        ),
        row(
            within("/apis/batch/v1", "jobs"),
            json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": {
                "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}}),
            Value::Null,
            &[("status.successful", "0")],
        ),
        // These kinds have no selectable fields except the name and the namespace.
        row(
            core("configmaps"),
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}}),
            Value::Null,
            &[],
        ),
        row(
            within("/apis/coordination.k8s.io/v1", "leases"),
            json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}}),
            Value::Null,
            &[],
        ),
    ]
}

fn query(terms: &[(&str, &str, &str)]) -> String {
    let terms: Vec<String> = terms
        .iter()
        .map(|(label, sign, value)| format!("{label}{sign}{value}"))
        .collect();
    let text = terms.join(",");
    let bytes: Vec<String> = text.bytes().map(|byte| format!("%{byte:02X}")).collect();
    format!("?fieldSelector={}", bytes.concat())
}

/// Checks that a selector of each selectable field finds an object by the value of this field, and that a selector of
/// another value does not.
#[tokio::test]
async fn all_selectable_fields_match() {
    let server = server().await;
    let namespace = server.namespace().await;
    let mut failures = Vec::new();
    for row in cases(&namespace) {
        let objects = Objects::at(&server, &row.path);
        let created = objects.create(&row.object).await;
        let name = created["metadata"]["name"].as_str().unwrap();
        if !row.status.is_null() {
            let patch = json!({"status": row.status});
            let patched = objects.merge(&format!("/{name}/status"), &patch).await;
            assert_eq!(patched.code, 200, "{}", patched.text);
        }
        let by_namespace = ("metadata.namespace", namespace.as_str());
        let fields = row.fields.iter().copied();
        let fields = fields.chain(row.by_namespace.then_some(by_namespace));
        for (label, value) in fields {
            let own = ("metadata.name", "=", name);
            let same = objects.get(&query(&[own, (label, "=", value)])).await;
            let differs = objects.get(&query(&[own, (label, "!=", value)])).await;
            let other = objects.get(&query(&[own, (label, "=", "other")])).await;
            if same.code != 200 || names(&same) != [name] || !names(&differs).is_empty() {
                failures.push(format!("{} {label}={value}: {}", row.path, same.text));
            } else if !names(&other).is_empty() {
                failures.push(format!("{} {label}=other finds {name}", row.path));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Checks that the embedded server selects ReplicaSets by `status.replicas`. The documentation of Kubernetes lists this
/// field, but kube-apiserver rejects a selector of the field.
#[needs(embedded)]
#[tokio::test]
async fn replica_sets_are_selectable_by_replicas() {
    let server = server().await;
    let namespace = server.namespace().await;
    let path = format!("/apis/apps/v1/namespaces/{namespace}/replicasets");
    let sets = Objects::at(&server, &path);
    let set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "rs"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template()}});
    sets.create(&set).await;
    assert_eq!(
        names(&sets.get(&query(&[("status.replicas", "=", "0")])).await),
        ["rs"]
    );
    assert!(names(&sets.get(&query(&[("status.replicas", "=", "1")])).await).is_empty());
}

/// Checks that a field selector finds an object by a value that was written after the creation of the object.
#[tokio::test]
async fn changed_fields_match_by_their_new_value() {
    let server = server().await;
    let namespace = server.namespace().await;
    for (path, object, label, status, value) in [
        (
            format!("/apis/batch/v1/namespaces/{namespace}/jobs"),
            json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": {
                "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}}),
            "status.successful",
            json!({"succeeded": 3}),
            "3",
        ),
        (
            format!("/api/v1/namespaces/{namespace}/replicationcontrollers"),
            json!({"apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "rc"},
                "spec": {"replicas": 2, "selector": {"a": "b"}, "template": template()}}),
            "status.replicas",
            json!({"replicas": 2}),
            "2",
        ),
    ] {
        let objects = Objects::at(&server, &path);
        let created = objects.create(&object).await;
        let name = created["metadata"]["name"].as_str().unwrap();
        let patch = json!({"status": status});
        let patched = objects.merge(&format!("/{name}/status"), &patch).await;
        assert_eq!(patched.code, 200, "{}", patched.text);
        let found = objects.get(&query(&[(label, "=", value)])).await;
        assert_eq!(names(&found), [name]);
    }
}

/// Checks that a selector of a field that is not selectable for the kind gets 400.
#[tokio::test]
async fn unknown_field_selectors_are_refused() {
    let server = server().await;
    let namespace = server.namespace().await;
    let within = |group: &str, plural: &str| format!("{group}/namespaces/{namespace}/{plural}");
    for (path, label) in [
        (within("/api/v1", "pods"), "spec.priority"),
        ("/api/v1/nodes".to_owned(), "metadata.namespace"),
        (within("/api/v1", "events"), "regarding.name"),
        (
            within("/apis/events.k8s.io/v1", "events"),
            "involvedObject.name",
        ),
        (
            "/apis/certificates.k8s.io/v1/certificatesigningrequests".to_owned(),
            "spec.username",
        ),
        (within("/apis/apps/v1", "deployments"), "status.replicas"),
    ] {
        let response = Objects::at(&server, &path)
            .get(&query(&[(label, "=", "x")]))
            .await;
        // The wording of the message depends on the kind.
        let ResponseStatus(code, message) = status_of(&response);
        assert!(code == 400 && message.contains(label), "{path} {message}");
    }
    // `spec.signerName` is selectable. Some cluster-scoped kinds accept `metadata.namespace`, which matches no object.
    for (path, label) in [
        (
            "/apis/certificates.k8s.io/v1/certificatesigningrequests",
            "spec.signerName",
        ),
        (
            "/apis/scheduling.k8s.io/v1/priorityclasses",
            "metadata.namespace",
        ),
    ] {
        let found = Objects::at(&server, path)
            .get(&query(&[(label, "=", "example.com/none")]))
            .await;
        assert_eq!(found.code, 200, "{}", found.text);
        assert!(names(&found).is_empty(), "{path}");
    }
}
