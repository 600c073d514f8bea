//! Validation of statuses: the counts of workloads, for example `readyReplicas`, and impossible values and transitions.

use serde_json::{Value, json};

use crate::harness::objects::{Objects, deployment};
use crate::harness::server;
use crate::harness::server::ApiResponse;

/// Returns the path of the group and version, the plural, and an object of each kind that has counts in its status.
fn workloads() -> Vec<(&'static str, &'static str, Value)> {
    let (meta, selector) = (json!({"name": "a"}), json!({"matchLabels": {"a": "b"}}));
    let template = &deployment("a")["spec"]["template"];
    let mut never = template.clone();
    never["spec"]["restartPolicy"] = json!("Never");
    let spec = json!({"selector": selector, "template": template, "serviceName": "a"});
    let mut controller = json!({"metadata": meta, "spec": {"template": template}});
    controller["spec"]["selector"] = selector["matchLabels"].clone();
    let mut all: Vec<_> = ["deployments", "replicasets", "statefulsets", "daemonsets"]
        .into_iter()
        .map(|plural| {
            let mut object = json!({"metadata": meta, "spec": spec});
            if plural != "statefulsets" {
                object["spec"]
                    .as_object_mut()
                    .unwrap()
                    .remove("serviceName");
            }
            ("apis/apps/v1", plural, object)
        })
        .collect();
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"});
    all.extend([
        ("api/v1", "replicationcontrollers", controller),
        (
            "apis/batch/v1",
            "jobs",
            json!({"metadata": meta, "spec": {"template": never}}),
        ),
        (
            "apis/policy/v1",
            "poddisruptionbudgets",
            json!({"metadata": meta, "spec": {"selector": selector, "minAvailable": 1}}),
        ),
        (
            "apis/autoscaling/v2",
            "horizontalpodautoscalers",
            json!({"metadata": meta, "spec": {"scaleTargetRef": target, "maxReplicas": 3}}),
        ),
    ]);
    all
}

/// Checks that a status update with a negative count is refused. For kinds with replicas, a partial count, such as
/// `readyReplicas`, must not exceed `replicas`.
#[tokio::test]
async fn negative_counts_and_counts_above_the_replicas_are_refused() {
    let server = server().await;
    let namespace = server.namespace().await;
    for (group, plural, object) in workloads() {
        let objects = Objects::at(&server, format!("/{group}/namespaces/{namespace}/{plural}"));
        objects.create(&object).await;
        let refused = async |status: Value, field: &str| {
            let response = objects.merge("/a/status", &json!({"status": status})).await;
            assert_eq!(response.code, 422, "{plural} {status}: {}", response.text);
            let expected = [format!("status.{field} FieldValueInvalid")];
            assert_eq!(response.causes(), expected, "{plural} {status}");
        };
        let negative: &[&str] = match plural {
            "daemonsets" => &[
                "currentNumberScheduled",
                "numberMisscheduled",
                "desiredNumberScheduled",
                "numberReady",
                "updatedNumberScheduled",
                "numberAvailable",
                "numberUnavailable",
            ],
            "jobs" => &["active", "succeeded", "failed", "ready", "terminating"],
            "poddisruptionbudgets" => &[
                "disruptionsAllowed",
                "currentHealthy",
                "desiredHealthy",
                "expectedPods",
            ],
            "horizontalpodautoscalers" => &["desiredReplicas", "currentReplicas"],
            _ => &["readyReplicas", "observedGeneration"],
        };
        // Returns a status with all required counts, in which `field` is negative.
        let required = |field: &str| {
            let mut status = match plural {
                "daemonsets" => json!({"currentNumberScheduled": 0, "numberMisscheduled": 0,
                    "desiredNumberScheduled": 0, "numberReady": 0}),
                "poddisruptionbudgets" => json!({"disruptionsAllowed": 0, "currentHealthy": 0,
                    "desiredHealthy": 0, "expectedPods": 0}),
                "horizontalpodautoscalers" => json!({"desiredReplicas": 0}),
                "jobs" => json!({}),
                _ => json!({"replicas": 0}),
            };
            status[field] = json!(-1);
            status
        };
        for field in negative {
            let status = json!({"status": required(field)});
            let response = objects.merge("/a/status", &status).await;
            assert_eq!(response.code, 422, "{plural} {status}: {}", response.text);
            // The negative count may also cause errors about other fields.
            let expected = format!("status.{field} FieldValueInvalid");
            let found = response.causes();
            assert!(found.contains(&expected), "{plural} {status}: {found:?}");
        }
        let parts: &[&str] = match plural {
            "deployments" => &["readyReplicas", "updatedReplicas"],
            "replicasets" | "replicationcontrollers" => &["readyReplicas", "fullyLabeledReplicas"],
            "statefulsets" => &["readyReplicas", "currentReplicas", "updatedReplicas"],
            _ => &[],
        };
        for part in parts {
            let mut status = json!({"replicas": 1});
            status[part] = json!(2);
            refused(status, part).await;
        }
        if !parts.is_empty() {
            let status = json!({"replicas": 2, "readyReplicas": 1, "availableReplicas": 2});
            refused(status, "availableReplicas").await;
            let status = json!({"replicas": 2, "readyReplicas": 2, "availableReplicas": 2});
            let response = objects.merge("/a/status", &json!({"status": status})).await;
            assert_eq!(response.code, 200, "{plural}: {}", response.text);
        }
    }
}

/// A kind, an object of the kind, a status that the server accepts, and statuses that the server refuses afterwards, each
/// with the causes.
struct Case {
    collection: &'static str,
    object: Value,
    accepted: Value,
    refused: Vec<(Value, &'static [&'static str])>,
}

const START: &str = "2026-01-01T00:00:00Z";
const END: &str = "2026-01-01T00:01:00Z";

fn conditions(kinds: &[&str]) -> Value {
    let kinds = kinds.iter();
    kinds
        .map(|kind| json!({"type": kind, "status": "True", "lastTransitionTime": END}))
        .collect()
}

fn job(spec: Value) -> Value {
    let mut object = json!({"metadata": {"name": "a"}, "spec": spec});
    let container = json!({"name": "c", "image": "i"});
    object["spec"]["template"] =
        json!({"spec": {"restartPolicy": "Never", "containers": [container]}});
    object
}

fn jobs() -> Vec<Case> {
    const CONDITIONS: &[&str] = &["status.conditions FieldValueInvalid"];
    // Returns the accepted status with these changes.
    let changed = |changes: Value| {
        let mut status = json!({"startTime": START, "succeeded": 2, "failed": 1});
        for (field, value) in changes.as_object().unwrap() {
            status[field] = value.clone();
        }
        status
    };
    let running = Case {
        collection: "apis/batch/v1/namespaces/NAMESPACE/jobs",
        object: job(json!({"completions": 4, "parallelism": 2})),
        accepted: changed(json!({"active": 2, "ready": 1})),
        refused: vec![
            (
                changed(json!({"conditions": conditions(&["Failed"])})),
                CONDITIONS,
            ),
            (
                changed(json!({"conditions": conditions(&["Complete"]), "completionTime": END})),
                CONDITIONS,
            ),
            (
                changed(
                    json!({"conditions": conditions(&["SuccessCriteriaMet", "FailureTarget"])}),
                ),
                CONDITIONS,
            ),
            (
                changed(json!({"conditions": conditions(&["SuccessCriteriaMet", "Complete"])})),
                &["status.completionTime FieldValueRequired"],
            ),
            (
                changed(json!({"completionTime": END})),
                &["status.completionTime FieldValueInvalid"],
            ),
            (
                changed(json!({"completionTime": "2025-12-31T00:00:00Z",
                    "conditions": conditions(&["SuccessCriteriaMet", "Complete"])})),
                &["status.completionTime FieldValueInvalid"],
            ),
            (
                changed(
                    json!({"active": 1, "conditions": conditions(&["FailureTarget", "Failed"])}),
                ),
                &["status.active FieldValueInvalid"],
            ),
            (
                changed(
                    json!({"terminating": 1, "conditions": conditions(&["FailureTarget", "Failed"])}),
                ),
                &["status.terminating FieldValueInvalid"],
            ),
            (
                changed(json!({"uncountedTerminatedPods": {"failed": ["u"]},
                    "conditions": conditions(&["FailureTarget", "Failed"])})),
                &["status.uncountedTerminatedPods FieldValueInvalid"],
            ),
            (
                json!({"succeeded": 2, "failed": 1, "conditions": conditions(&["FailureTarget", "Failed"])}),
                &[
                    "status.startTime FieldValueInvalid",
                    "status.startTime FieldValueRequired",
                ],
            ),
            (
                changed(json!({"startTime": END})),
                &["status.startTime FieldValueInvalid"],
            ),
            (
                changed(json!({"succeeded": 1})),
                &["status.succeeded FieldValueInvalid"],
            ),
            (
                changed(json!({"failed": 0})),
                &["status.failed FieldValueInvalid"],
            ),
            (
                changed(json!({"active": 1, "ready": 2})),
                &["status.ready FieldValueInvalid"],
            ),
            (
                changed(json!({"completedIndexes": "1"})),
                &["status.completedIndexes FieldValueInvalid"],
            ),
            (
                changed(json!({"failedIndexes": "1"})),
                &["status.failedIndexes FieldValueInvalid"],
            ),
        ],
    };
    let failed = Case {
        object: job(json!({})),
        accepted: changed(json!({"conditions": conditions(&["FailureTarget", "Failed"])})),
        refused: vec![
            (
                changed(json!({"conditions": conditions(&["FailureTarget"])})),
                CONDITIONS,
            ),
            (
                changed(json!({"conditions": conditions(&["Failed"])})),
                CONDITIONS,
            ),
            (
                changed(
                    json!({"active": 1, "conditions": conditions(&["FailureTarget", "Failed"])}),
                ),
                &["status.active FieldValueInvalid"],
            ),
        ],
        ..running
    };
    let elastic = Case {
        object: job(
            json!({"completions": 4, "parallelism": 4, "completionMode": "Indexed",
            "backoffLimitPerIndex": 1}),
        ),
        accepted: json!({"startTime": START, "succeeded": 2, "completedIndexes": "0,2"}),
        refused: vec![
            (
                json!({"startTime": START, "completedIndexes": "0-4"}),
                &["status.completedIndexes FieldValueInvalid"],
            ),
            (
                json!({"startTime": START, "completedIndexes": "2,1"}),
                &["status.completedIndexes FieldValueInvalid"],
            ),
            (
                json!({"startTime": START, "completedIndexes": "0-2", "failedIndexes": "2-3"}),
                &["status.failedIndexes FieldValueInvalid"],
            ),
        ],
        ..running
    };
    vec![running, failed, elastic]
}

fn pods() -> Vec<Case> {
    const FORBIDDEN: &[&str] = &["status.containerStatuses[0].state FieldValueForbidden"];
    let pod = |policy: &str| {
        json!({"metadata": {"name": "a"}, "spec": {"restartPolicy": policy,
            "containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "i"}]}})
    };
    let containers = |name: &str, state: Value| {
        json!({"phase": "Running", "containerStatuses": [{"name": name, "image": "", "imageID": "",
            "ready": false, "restartCount": 0, "state": state}]})
    };
    let ended = |code: i64| json!({"terminated": {"exitCode": code}});
    let runs = || json!({"running": {"startedAt": START}});
    let invalid = |status: Value, causes: &'static [&'static str]| (status, causes);
    let case = |policy: &str, code: i64, refused: Vec<_>| Case {
        collection: "api/v1/namespaces/NAMESPACE/pods",
        object: pod(policy),
        accepted: containers("c", ended(code)),
        refused,
    };
    vec![
        case("Never", 1, vec![(containers("c", runs()), FORBIDDEN)]),
        case(
            "OnFailure",
            0,
            vec![(containers("c", json!({})), FORBIDDEN)],
        ),
        case(
            "Always",
            0,
            vec![
                invalid(
                    json!({"qosClass": "Guaranteed"}),
                    &["status.qosClass FieldValueInvalid"],
                ),
                invalid(
                    json!({"conditions": [{"type": "not valid", "status": "True"}]}),
                    &["status.conditions[0].Type FieldValueInvalid"],
                ),
                invalid(
                    json!({"podIPs": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}]}),
                    &["status.podIPs FieldValueInvalid"],
                ),
                invalid(
                    json!({"podIPs": [{"ip": "nowhere"}]}),
                    &["status.podIPs[0] FieldValueInvalid"],
                ),
            ],
        ),
    ]
}

fn addresses() -> Vec<Case> {
    let balancer = |address: Value| json!({"loadBalancer": {"ingress": [address]}});
    let service = |kind: &str| {
        json!({"metadata": {"name": "a"},
            "spec": {"type": kind, "selector": {"a": "b"}, "ports": [{"port": 80}]}})
    };
    let services = "api/v1/namespaces/NAMESPACE/services";
    let ingress = json!({"metadata": {"name": "a"}, "spec": {"defaultBackend": {"service": {
        "name": "a", "port": {"number": 80}}}}});
    let invalid = |status: Value, causes: &'static [&'static str]| (status, causes);
    vec![
        Case {
            collection: services,
            object: service("LoadBalancer"),
            accepted: balancer(json!({"ip": "10.0.0.1"})),
            refused: vec![
                invalid(
                    balancer(json!({"ip": "nowhere"})),
                    &["status.loadBalancer.ingress[0].ip FieldValueInvalid"],
                ),
                invalid(
                    balancer(json!({"hostname": "10.0.0.1"})),
                    &["status.loadBalancer.ingress[0].hostname FieldValueInvalid"],
                ),
                invalid(
                    balancer(json!({"hostname": "a", "ipMode": "VIP"})),
                    &["status.loadBalancer.ingress[0].ipMode FieldValueForbidden"],
                ),
                invalid(
                    balancer(json!({"ip": "10.0.0.1", "ipMode": "Other"})),
                    &["status.loadBalancer.ingress[0].ipMode FieldValueNotSupported"],
                ),
            ],
        },
        Case {
            collection: services,
            object: service("ClusterIP"),
            accepted: json!({"loadBalancer": {}}),
            refused: vec![invalid(
                balancer(json!({"ip": "10.0.0.1", "ipMode": "VIP"})),
                &["status.loadBalancer.ingress FieldValueForbidden"],
            )],
        },
        Case {
            collection: "apis/networking.k8s.io/v1/namespaces/NAMESPACE/ingresses",
            object: ingress,
            accepted: balancer(json!({"hostname": "a.example"})),
            refused: vec![invalid(
                balancer(json!({"hostname": "A_b"})),
                &["status.loadBalancer.ingress[0].hostname FieldValueInvalid"],
            )],
        },
    ]
}

fn others() -> Vec<Case> {
    let meta = json!({"name": "a"});
    let claim = json!({"metadata": meta, "spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}}});
    let budget = json!({"metadata": meta, "spec": {"selector": {}, "minAvailable": 1}});
    let counts = |conditions: Value| {
        json!({"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0,
            "conditions": conditions})
    };
    let invalid = |status: Value, causes: &'static [&'static str]| (status, causes);
    vec![
        Case {
            collection: "api/v1/namespaces/NAMESPACE/persistentvolumeclaims",
            object: claim,
            accepted: json!({"phase": "Bound", "capacity": {"storage": "1Gi"}}),
            refused: vec![
                invalid(
                    json!({"capacity": {"storage": "-1"}}),
                    &["status.capacity[storage] FieldValueInvalid"],
                ),
                invalid(
                    json!({"allocatedResourceStatuses": {"storage": "Other"}}),
                    &["status.allocatedResourceStatuses FieldValueNotSupported"],
                ),
            ],
        },
        Case {
            collection: "api/v1/namespaces/NAMESPACE/resourcequotas",
            object: json!({"metadata": meta, "spec": {"hard": {"pods": "1"}}}),
            accepted: json!({"hard": {"pods": "1"}, "used": {"pods": "0"}}),
            refused: vec![
                invalid(
                    json!({"used": {"pods": "-1"}}),
                    &["status.used[pods] FieldValueInvalid"],
                ),
                invalid(
                    json!({"hard": {"nonsense": "1"}}),
                    &["status.hard[nonsense] FieldValueInvalid"],
                ),
            ],
        },
        Case {
            collection: "apis/policy/v1/namespaces/NAMESPACE/poddisruptionbudgets",
            object: budget,
            accepted: counts(json!([])),
            refused: vec![invalid(
                counts(
                    json!([{"type": "A", "status": "True", "reason": "", "message": "",
                    "lastTransitionTime": START}]),
                ),
                &["status.conditions[0].reason FieldValueRequired"],
            )],
        },
        Case {
            collection: "apis/apps/v1/namespaces/NAMESPACE/deployments",
            object: deployment("a"),
            accepted: json!({"collisionCount": 2}),
            refused: vec![invalid(
                json!({"collisionCount": 1}),
                &["status.collisionCount FieldValueInvalid"],
            )],
        },
    ]
}

/// Replaces the status of the object `a`. A controller of the server may change the object at any time, so a conflict is
/// repeated with the newest version.
async fn put_status(objects: &Objects<'_>, object: &mut Value) -> ApiResponse {
    loop {
        let response = objects.put("/a/status", object).await;
        if response.code != 409 {
            return response;
        }
        let newest = objects.get("/a").await;
        object["metadata"]["resourceVersion"] = newest.json["metadata"]["resourceVersion"].clone();
    }
}

/// Checks that the server refuses statuses with impossible values and transitions, and names the field.
#[tokio::test]
async fn impossible_statuses_and_transitions_are_refused() {
    let server = server().await;
    for case in [jobs(), pods(), addresses(), others()]
        .into_iter()
        .flatten()
    {
        let namespace = server.namespace().await;
        let path = case.collection.replace("NAMESPACE", &namespace);
        let objects = Objects::at(&server, format!("/{path}"));
        let mut object = objects.create(&case.object).await;
        object["status"] = case.accepted.clone();
        let response = put_status(&objects, &mut object).await;
        assert_eq!(response.code, 200, "{path} {}", response.text);
        object = response.json;
        for (status, expected) in &case.refused {
            object["status"] = status.clone();
            let response = put_status(&objects, &mut object).await;
            assert_eq!(response.code, 422, "{path} {status}: {}", response.text);
            let mut causes = response.causes();
            causes.sort();
            causes.dedup();
            assert_eq!(causes, *expected, "{path} {status}");
        }
    }
    let name = server.namespace().await;
    let namespaces = Objects::at(&server, "/api/v1/namespaces");
    let deleting = json!({"status": {"phase": "Terminating"}});
    let response = namespaces
        .merge(&format!("/{name}/status"), &deleting)
        .await;
    assert_eq!(response.causes(), ["status.Phase FieldValueInvalid"]);
    let nodes = Objects::at(&server, "/api/v1/nodes");
    nodes.create(&json!({"metadata": {"name": name}})).await;
    let address = json!({"type": "InternalIP", "address": "10.0.0.1"});
    let twice = json!({"status": {"addresses": [address, address]}});
    let response = nodes.merge(&format!("/{name}/status"), &twice).await;
    assert_eq!(
        response.causes(),
        ["status.addresses[1] FieldValueDuplicate"]
    );
    nodes.delete(&format!("/{name}"), &Value::Null).await;
}

/// Checks that the status of a Service loses its addresses when the Service is no load balancer any more.
#[tokio::test]
async fn a_service_that_stops_being_a_load_balancer_has_no_addresses() {
    let server = server().await;
    let namespace = server.namespace().await;
    let services = Objects::at(&server, format!("/api/v1/namespaces/{namespace}/services"));
    let Case {
        object, accepted, ..
    } = addresses().remove(0);
    services.create(&object).await;
    let status = json!({"status": accepted});
    let response = services.merge("/a/status", &status).await;
    let known = &response.json["status"]["loadBalancer"]["ingress"];
    assert_eq!(*known, json!([{"ip": "10.0.0.1", "ipMode": "VIP"}]));
    let other = json!({"spec": {"type": "ClusterIP"}});
    let response = services.merge("/a", &other).await;
    assert_eq!(
        response.json["status"],
        json!({"loadBalancer": {}}),
        "{}",
        response.text
    );
}
