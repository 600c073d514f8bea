//! Tests of the normalization of stored objects: fields that the server keeps, drops, sets or increases. The
//! differential test found these cases.

use serde_json::{Value, json};

use crate::harness::objects::{Objects, deployment, status_of};
use crate::harness::server;
use crate::harness::server::TestServer;

async fn collection<'a>(server: &'a TestServer, version: &str, plural: &str) -> Objects<'a> {
    let namespace = server.namespace().await;
    Objects::at(server, format!("{version}/namespaces/{namespace}/{plural}"))
}

/// Checks that a created object contains its required fields, even if the request omits them or sends them empty.
#[tokio::test]
async fn required_fields_are_stored_even_if_empty() {
    let server = server().await;
    for (version, plural, sent, kept) in [
        (
            "/api/v1",
            "limitranges",
            json!({}),
            json!({"spec": {"limits": null}}),
        ),
        (
            "/api/v1",
            "limitranges",
            json!({"spec": {"limits": []}}),
            json!({"spec": {"limits": null}}),
        ),
        ("/api/v1", "resourcequotas", json!({}), json!({"spec": {}})),
        (
            "/apis/policy/v1",
            "poddisruptionbudgets",
            json!({}),
            json!({"spec": {}}),
        ),
        (
            "/apis/networking.k8s.io/v1",
            "networkpolicies",
            json!({}),
            json!({"spec": {"podSelector": {}, "policyTypes": ["Ingress"]}}),
        ),
        (
            "/apis/discovery.k8s.io/v1",
            "endpointslices",
            json!({"addressType": "IPv4"}),
            json!({"endpoints": null, "ports": null}),
        ),
        (
            "/apis/rbac.authorization.k8s.io/v1",
            "roles",
            json!({"rules": []}),
            json!({"rules": null}),
        ),
    ] {
        let objects = collection(&server, version, plural).await;
        let mut object = sent;
        object["metadata"] = json!({"name": "a"});
        let created = objects.create(&object).await;
        for (field, expected) in kept.as_object().unwrap() {
            assert_eq!(created.get(field), Some(expected), "{plural}: {created}");
        }
    }
    // A LimitRange without a name gets a UUID as its name.
    let ranges = collection(&server, "/api/v1", "limitranges").await;
    let created = ranges.create(&json!({"metadata": {}})).await;
    assert_eq!(
        created["metadata"]["name"].as_str().map(str::len),
        Some(36),
        "{created}"
    );
}

/// Checks that a PUT request without a status sets the required counters in the status of a PodDisruptionBudget to 0.
#[tokio::test]
async fn a_missing_status_sets_the_required_counters_to_zero() {
    let server = server().await;
    let budgets = collection(&server, "/apis/policy/v1", "poddisruptionbudgets").await;
    let mut budget = budgets
        .create(&json!({"metadata": {"name": "a"}, "spec": {}}))
        .await;
    budget.as_object_mut().unwrap().remove("status");
    let put = budgets.put("/a/status", &budget).await.json;
    let zeros = json!({"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0});
    assert_eq!(put["status"], zeros);
    let more = json!({"status": {"expectedPods": 3, "currentHealthy": null}});
    let patched = budgets.merge("/a/status", &more).await.json;
    assert_eq!(patched["status"]["currentHealthy"], 0, "{patched}");
}

/// Checks that the server drops fields without an effect on the object, such as the session affinity options of a
/// Service without session affinity.
#[tokio::test]
async fn unsupported_fields_are_dropped() {
    let server = server().await;
    let accounts = collection(&server, "/api/v1", "serviceaccounts").await;
    let secrets = json!([{"name": "s", "kind": "Secret", "fieldPath": "x"}]);
    let created = accounts
        .create(&json!({"metadata": {"name": "a"}, "secrets": secrets}))
        .await;
    assert_eq!(created["secrets"], json!([{"name": "s"}]));
    let leases = collection(&server, "/apis/coordination.k8s.io/v1", "leases").await;
    let spec = json!({"holderIdentity": "x", "strategy": "OldestEmulationVersion", "preferredHolder": "y"});
    let created = leases
        .create(&json!({"metadata": {"name": "a"}, "spec": spec}))
        .await;
    assert_eq!(created["spec"], json!({"holderIdentity": "x"}));
    let services = collection(&server, "/api/v1", "services").await;
    let spec = json!({"ports": [{"port": 80}], "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 5}}});
    let created = services
        .create(&json!({"metadata": {"name": "a"}, "spec": spec}))
        .await;
    assert_eq!(
        created["spec"].get("sessionAffinityConfig"),
        None,
        "{created}"
    );
    let claims = collection(&server, "/api/v1", "persistentvolumeclaims").await;
    let claim = |name: &str, source: Value| {
        json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"], "dataSource": source,
            "resources": {"requests": {"storage": "1Gi"}}}})
    };
    let created = claims
        .create(&claim(
            "a",
            json!({"apiGroup": "a.b", "kind": "C", "name": "x"}),
        ))
        .await;
    assert_eq!(created["spec"].get("dataSource"), None, "{created}");
    let source = json!({"kind": "PersistentVolumeClaim", "name": "x"});
    let created = claims.create(&claim("b", source)).await;
    let group = &created["spec"]["dataSource"];
    assert_eq!(group.get("apiGroup"), Some(&Value::Null), "{created}");
    let again = claims.put("/b", &created).await.json;
    assert_eq!(again["spec"], created["spec"]);
}

/// Checks that only seven fields in the spec of a StatefulSet can change: a change of any other field gets 422.
#[tokio::test]
async fn only_seven_fields_of_stateful_sets_can_change() {
    let server = server().await;
    let sets = collection(&server, "/apis/apps/v1", "statefulsets").await;
    let mut set = deployment("db");
    set["kind"] = json!("StatefulSet");
    set["spec"]["serviceName"] = json!("db");
    set["spec"]["volumeClaimTemplates"] = json!([{"metadata": {"name": "d"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}]);
    let created = sets.create(&set).await;
    let why = "StatefulSet.apps \"db\" is invalid: spec: Forbidden: updates to statefulset spec for fields other than \
               'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', \
               'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
    for change in [
        json!({"serviceName": "other"}),
        json!({"serviceName": "No Name"}),
        json!({"podManagementPolicy": "Parallel"}),
        json!({"selector": {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "Exists"}]}}),
        json!({"volumeClaimTemplates": null}),
    ] {
        let refused = sets.merge("/db", &json!({"spec": change})).await;
        assert_eq!(status_of(&refused), (422, why), "{change}");
    }
    let free = json!({"replicas": 3, "minReadySeconds": 2, "ordinals": {}, "revisionHistoryLimit": 3,
        "updateStrategy": {"type": "OnDelete", "rollingUpdate": null},
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"}});
    let changed = sets.merge("/db", &json!({"spec": free})).await;
    assert_eq!(
        changed.json["spec"]["ordinals"],
        json!({"start": 0}),
        "{}",
        changed.text
    );
    // A replacement that changes only allowed fields is accepted.
    let mut again = created;
    again["metadata"]["resourceVersion"] = json!("0");
    assert_eq!(sets.put("/db", &again).await.code, 200);
}

/// Checks that each change of the pod template of a DaemonSet increases the number in the annotation
/// `deprecated.daemonset.template.generation`. Clients cannot change this annotation.
#[tokio::test]
async fn daemon_sets_count_template_generations() {
    const COUNT: &str = "deprecated.daemonset.template.generation";
    let server = server().await;
    let sets = collection(&server, "/apis/apps/v1", "daemonsets").await;
    let mut set = deployment("agent");
    set["kind"] = json!("DaemonSet");
    let fields = set["spec"].as_object_mut().unwrap();
    fields.remove("replicas");
    let count = |object: &Value| object["metadata"]["annotations"][COUNT].clone();
    assert_eq!(count(&sets.create(&set).await), "1");
    let restart =
        json!({"spec": {"template": {"metadata": {"annotations": {"restartedAt": "now"}}}}});
    assert_eq!(count(&sets.strategic("/agent", &restart).await.json), "2");
    let other = json!({"spec": {"minReadySeconds": 3}, "metadata": {"annotations": {COUNT: "9"}}});
    assert_eq!(count(&sets.merge("/agent", &other).await.json), "2");
}

/// Checks that a change of the ports or labels of an EndpointSlice increases its generation, and that a change of its
/// annotations does not.
#[tokio::test]
async fn objects_without_a_spec_have_generations() {
    let server = server().await;
    let slices = collection(&server, "/apis/discovery.k8s.io/v1", "endpointslices").await;
    let slice =
        json!({"metadata": {"name": "a"}, "addressType": "IPv4", "endpoints": [], "ports": []});
    slices.create(&slice).await;
    for (patch, generation) in [
        (json!({"ports": [{"port": 80}]}), 2),
        (json!({"metadata": {"labels": {"a": "b"}}}), 3),
        (json!({"metadata": {"annotations": {"a": "b"}}}), 3),
    ] {
        let patched = slices.merge("/a", &patch).await.json;
        assert_eq!(patched["metadata"]["generation"], generation, "{patch}");
    }
    let why = "EndpointSlice.discovery.k8s.io \"a\" is invalid: addressType: Invalid value: \"IPv6\": field is immutable";
    let refused = slices.merge("/a", &json!({"addressType": "IPv6"})).await;
    assert_eq!(status_of(&refused), (422, why));
}

/// Checks that a strategic merge patch replaces the selector of a PodDisruptionBudget instead of merging the labels.
#[tokio::test]
async fn budget_selectors_are_replaced_as_a_whole() {
    let server = server().await;
    let budgets = collection(&server, "/apis/policy/v1", "poddisruptionbudgets").await;
    let spec = json!({"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}});
    budgets
        .create(&json!({"metadata": {"name": "a"}, "spec": spec}))
        .await;
    for selector in [json!({"matchLabels": {"c": "d"}}), json!({})] {
        let patch = json!({"spec": {"selector": selector}});
        let patched = budgets.strategic("/a", &patch).await.json;
        assert_eq!(patched["spec"]["selector"], selector);
    }
}

/// Checks that the Scale of a Deployment contains the labels and expressions of its selector.
#[tokio::test]
async fn scale_contains_the_whole_selector() {
    let server = server().await;
    let deployments = collection(&server, "/apis/apps/v1", "deployments").await;
    let mut web = deployment("web");
    web["spec"]["selector"] = json!({"matchLabels": {"a": "b"}, "matchExpressions": [
        {"key": "a", "operator": "In", "values": ["c", "b"]}, {"key": "Z", "operator": "DoesNotExist"}]});
    deployments.create(&web).await;
    let scale = deployments.get("/web/scale").await.json;
    assert_eq!(scale["status"]["selector"], "!Z,a=b,a in (b,c)");
}

/// Checks that the default pull policy is `Always` for an image without a tag or with the tag `latest`, and
/// `IfNotPresent` for other images.
#[tokio::test]
async fn images_without_a_version_are_always_pulled() {
    let server = server().await;
    let pods = collection(&server, "/api/v1", "pods").await;
    for (image, policy) in [
        ("nginx", "Always"),
        ("localhost:5000/a/b_c", "Always"),
        ("localhost:5000/a:latest", "Always"),
        ("nginx:1.27", "IfNotPresent"),
    ] {
        let container = json!({"name": "c", "image": image});
        let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [container]}});
        let created = pods.post("?dryRun=All", &pod).await;
        let found = &created.json["spec"]["containers"][0]["imagePullPolicy"];
        assert_eq!(found, policy, "{image}: {}", created.text);
    }
}

/// Checks that a change of the failure policy, the success policy or the manager of a Job gets 422.
#[tokio::test]
async fn job_policies_are_immutable() {
    let server = server().await;
    let path = format!(
        "/apis/batch/v1/namespaces/{}/jobs",
        server.namespace().await
    );
    let jobs = Objects::at(&server, path);
    let pod = json!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]});
    let failure =
        json!({"rules": [{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [1]}}]});
    let job = json!({"metadata": {"name": "a"}, "spec": {"suspend": true, "completionMode": "Indexed", "completions": 3,
        "managedBy": "a.b/c", "backoffLimitPerIndex": 1, "podFailurePolicy": failure,
        "successPolicy": {"rules": [{"succeededCount": 1}]}, "template": {"spec": pod}}});
    let created = jobs.create(&job).await;
    for (field, value, shown) in [
        (
            "podFailurePolicy",
            json!({"rules": [{"action": "Count", "onPodConditions": [{"type": "X"}]}]}),
            "{\"Rules\":[{\"Action\":\"Count\",\"OnExitCodes\":null,\
             \"OnPodConditions\":[{\"Type\":\"X\",\"Status\":\"True\"}]}]}",
        ),
        ("podFailurePolicy", Value::Null, "null"),
        ("backoffLimitPerIndex", json!(2), "2"),
        ("managedBy", json!("a.b/d"), "\"a.b/d\""),
        (
            "successPolicy",
            json!({"rules": [{"succeededIndexes": "0-1"}]}),
            "{\"Rules\":[{\"SucceededIndexes\":\"0-1\",\"SucceededCount\":null}]}",
        ),
    ] {
        let change = json!({"spec": {field: value}});
        let refused = jobs.strategic("/a", &change).await;
        let why = format!(
            "Job.batch \"a\" is invalid: spec.{field}: Invalid value: {shown}: field is immutable"
        );
        assert_eq!(status_of(&refused), (422, why.as_str()));
    }
    // A replacement with the original manifest is rejected, because it lacks the fields that the server generates.
    let again = jobs.put("/a", &job).await;
    let selector = created["spec"]["selector"].clone();
    assert!(selector.is_object(), "{created}");
    let why = "Job.batch \"a\" is invalid: [spec.selector: Required value, spec.template.metadata.labels: Invalid value: \
               null: `selector` does not match template `labels`, spec.selector: Invalid value: null: field is immutable]";
    assert_eq!(status_of(&again), (422, why));
}
