//! Tests of the matching of webhooks, their precedence, and their requests and responses.

use berth_api::ResourceInterpreterWebhookConfiguration;
use serde_json::{Value, json};

use crate::{Answers, Interpreter, Operation, WebhookRequest};

fn configuration(name: &str, webhooks: Value) -> ResourceInterpreterWebhookConfiguration {
    serde_json::from_value(json!({ "metadata": { "name": name }, "webhooks": webhooks })).unwrap()
}

fn webhook(name: &str, rules: Value) -> Value {
    json!({ "name": name, "clientConfig": { "url": "https://a" }, "rules": rules,
        "interpreterContextVersions": ["v1", "v1alpha1"] })
}

fn rule(operations: &[&str], group: &str, version: &str, kind: &str) -> Value {
    json!({ "operations": operations, "apiGroups": [group], "apiVersions": [version],
        "kinds": [kind] })
}

/// Returns an interpreter whose webhook performs all operations for the kind Workload.
fn workloads() -> Interpreter {
    let interpreter = Interpreter::default();
    let rules = json!([rule(&["*"], "example.io", "v1alpha1", "Workload")]);
    let webhooks = json!([webhook("workloads.example.com", rules)]);
    interpreter.load_webhooks(vec![configuration("examples", webhooks)]);
    interpreter
}

fn workload() -> Value {
    json!({ "apiVersion": "example.io/v1alpha1", "kind": "Workload",
        "metadata": { "name": "nginx", "namespace": "default" },
        "spec": { "replicas": 3 }, "status": { "ready": 2 } })
}

/// Runs an operation until all requests are answered. `respond` returns the response to a request.
fn run<T>(
    interpreter: &Interpreter,
    operation: impl Fn(&Interpreter) -> T,
    respond: impl Fn(&Value) -> Value,
) -> T {
    let answers = Answers::default();
    let interpreter = interpreter.with_answers(answers.clone());
    loop {
        let result = operation(&interpreter);
        let open = answers.take_open();
        if open.is_empty() {
            return result;
        }
        for request in open {
            let answer = exchange(&request, &respond);
            answers.add(request, answer);
        }
    }
}

fn exchange(
    request: &WebhookRequest,
    respond: impl Fn(&Value) -> Value,
) -> Result<crate::Answer, crate::WebhookError> {
    let message: Value = serde_json::from_slice(&request.body("uid-1")?).unwrap();
    let mut response = respond(&message["request"]);
    if response.get("uid").is_none() {
        response["uid"] = json!("uid-1");
    }
    let message = json!({ "apiVersion": "config.karmada.io/v1alpha1",
        "kind": "ResourceInterpreterContext", "response": response });
    request.read("uid-1", message.to_string().as_bytes())
}

fn successful(mut fields: Value) -> Value {
    fields["successful"] = json!(true);
    fields
}

/// Returns a response with a JSON patch, encoded as in Go.
fn patched(patch: &Value) -> Value {
    use base64::Engine as _;
    let patch = base64::engine::general_purpose::STANDARD.encode(patch.to_string());
    successful(json!({ "patch": patch, "patchType": "JSONPatch" }))
}

#[test]
fn rules_match_operations_and_kinds_with_wildcards() {
    let finds = |rules: Value, api_version: &str, operation| {
        let interpreter = Interpreter::default();
        interpreter.load_webhooks(vec![configuration("c", json!([webhook("a.b", rules)]))]);
        interpreter.has_webhook(api_version, "Workload", operation)
    };
    let (retain, health) = (Operation::Retain, Operation::InterpretHealth);
    let exact = json!([rule(&["Retain"], "example.io", "v1", "Workload")]);
    assert!(finds(exact.clone(), "example.io/v1", retain));
    assert!(!finds(exact.clone(), "example.io/v1", health));
    assert!(!finds(exact.clone(), "example.io/v2", retain));
    assert!(!finds(exact, "v1", retain));
    let all = json!([rule(&["*"], "*", "*", "*")]);
    assert!(finds(all.clone(), "v1", health) && finds(all, "a.b/v1", retain));
    let core = json!([rule(&["*"], "", "v1", "Workload")]);
    assert!(finds(core.clone(), "v1", retain));
    assert!(!finds(core, "example.io/v1", retain));
    let others = json!([
        rule(&["Retain"], "a", "v1", "B"),
        rule(&["*"], "x.io", "*", "Workload")
    ]);
    assert!(finds(others, "x.io/v7", health));
    assert!(!finds(json!([]), "v1", retain));
}

#[test]
fn the_first_webhook_by_name_is_called() {
    let interpreter = Interpreter::default();
    let rules = json!([rule(&["*"], "*", "*", "*")]);
    let named = |name: &str| webhook(name, rules.clone());
    interpreter.load_webhooks(vec![
        configuration("b", json!([named("a.example.com")])),
        configuration("a", json!([named("z.example.com"), named("b.example.com")])),
    ]);
    let answers = Answers::default();
    let asking = interpreter.with_answers(answers.clone());
    asking.is_healthy(&workload()).unwrap_err();
    let open = answers.take_open();
    assert_eq!(open.len(), 1);
    assert_eq!(open[0].webhook().name(), "a/b.example.com");
}

#[test]
fn requests_have_the_same_json_as_in_karmada() {
    let requests = std::sync::Mutex::new(Vec::new());
    let record = |request: &Value| {
        requests.lock().unwrap().push(request.clone());
        successful(json!({}))
    };
    let interpreter = workloads();
    let observed = json!({ "apiVersion": "example.io/v1alpha1", "kind": "Workload",
        "metadata": { "name": "nginx", "resourceVersion": "7" } });
    let mut desired = workload();
    run(
        &interpreter,
        |i| i.retain(&mut desired.clone(), &observed),
        record,
    )
    .unwrap();
    run(
        &interpreter,
        |i| i.revise_replicas(&mut workload(), 2),
        record,
    )
    .unwrap();
    let items = serde_json::from_value::<Vec<_>>(
        json!([{ "clusterName": "member1", "status": { "ready": 1 }, "applied": true, "health": "Healthy" }]),
    );
    let (items, now) = (items.unwrap(), jiff::Timestamp::UNIX_EPOCH);
    let now = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now);
    run(
        &interpreter,
        |i| i.aggregate(&workload(), &items, &now),
        record,
    )
    .unwrap();
    let kind = json!({ "group": "example.io", "version": "v1alpha1", "kind": "Workload" });
    let requests = requests.into_inner().unwrap();
    desired["metadata"]["resourceVersion"] = json!("7");
    let expected = |operation: &str, object: &Value, replicas: i32| {
        json!({ "uid": "uid-1", "kind": kind, "name": "nginx", "namespace": "default",
            "operation": operation, "object": object, "replicas": replicas })
    };
    let mut retain = expected("Retain", &desired, 0);
    retain["observedObject"] = observed;
    let mut aggregate = expected("AggregateStatus", &workload(), 0);
    aggregate["aggregatedStatus"] = json!([{ "clusterName": "member1", "status": { "ready": 1 },
        "applied": true, "health": "Healthy" }]);
    assert_eq!(requests[0], retain);
    assert_eq!(requests[1], expected("ReviseReplica", &workload(), 2));
    assert_eq!(requests[2], aggregate);
}

#[test]
fn answers_are_the_results_of_operations() {
    let interpreter = workloads();
    let (api_version, kind) = ("example.io/v1alpha1", "Workload");
    let replicas = json!({ "replicas": 3,
        "replicaRequirements": { "resourceRequest": { "cpu": "100m" } } });
    let read = run(
        &interpreter,
        |i| i.replicas(api_version, kind, &workload()),
        |_| successful(replicas.clone()),
    );
    let read = read.unwrap().unwrap();
    assert_eq!(read.replicas, 3);
    assert_eq!(read.requirements.unwrap()["resourceRequest"]["cpu"], "100m");
    let components = json!({ "components": [{ "name": "main", "replicas": 2 }] });
    let read = run(
        &interpreter,
        |i| i.components(api_version, kind, &workload()),
        |_| successful(components.clone()),
    );
    assert_eq!(read.unwrap().unwrap()[0].replicas, 2);
    let revised = run(
        &interpreter,
        |i| {
            let mut manifest = workload();
            i.revise_replicas(&mut manifest, 1).map(|()| manifest)
        },
        |request| {
            let replicas = &request["replicas"];
            patched(&json!([{ "op": "replace", "path": "/spec/replicas", "value": replicas }]))
        },
    );
    assert_eq!(revised.unwrap()["spec"]["replicas"], 1);
    let healthy = run(
        &interpreter,
        |i| i.is_healthy(&workload()),
        |_| successful(json!({ "healthy": false })),
    );
    assert!(!healthy.unwrap());
    let status = run(
        &interpreter,
        |i| i.reflect(&workload()),
        |request| {
            successful(json!({ "rawStatus": { "of": request["object"]["status"]["ready"] } }))
        },
    );
    assert_eq!(status.unwrap(), Some(json!({ "of": 2 })));
    let dependencies =
        json!([{ "apiVersion": "v1", "kind": "Secret", "namespace": "a", "name": "b" }]);
    let found = run(
        &interpreter,
        |i| i.dependencies(&workload()),
        |_| successful(json!({ "dependencies": dependencies })),
    );
    assert_eq!(json!(found.unwrap().unwrap()), dependencies);
}

#[test]
fn invalid_responses_are_errors() {
    let health = |response: Value| {
        run(
            &workloads(),
            |i| i.is_healthy(&workload()),
            |_| response.clone(),
        )
        .unwrap_err()
        .to_string()
    };
    for (response, expected) in [
        (
            json!({ "uid": "x", "successful": true, "healthy": true }),
            "expected response.uid \"uid-1\", got \"x\"",
        ),
        (
            successful(json!({})),
            "webhook returned nil response.healthy",
        ),
        (
            json!({}),
            "webhook require response.status when response.successful is false",
        ),
        (
            json!({ "status": { "code": 500, "message": "out of order" } }),
            "webhook call failed, get status code: 500, msg: out of order",
        ),
        (
            json!({ "successful": 1 }),
            "received invalid webhook response: invalid type",
        ),
    ] {
        let error = health(response);
        assert!(error.contains(expected), "{error}");
        assert!(error.starts_with("failed calling webhook \"examples/workloads.example.com\""));
    }
    let revise = |response: Value| {
        let operation = |i: &Interpreter| i.revise_replicas(&mut workload(), 1);
        run(&workloads(), operation, |_| response.clone())
    };
    let mut no_type = patched(&json!([]));
    no_type["patchType"] = json!(null);
    for (response, expected) in [
        (no_type, "nil response.patchType"),
        (
            successful(json!({ "patchType": "JSONPatch" })),
            "empty response.patch",
        ),
        (
            successful(json!({ "patch": "W10=", "patchType": "Merge" })),
            "invalid response.patchType of \"Merge\"",
        ),
        (
            successful(json!({ "patch": "?", "patchType": "JSONPatch" })),
            "response.patch",
        ),
        (
            patched(&json!([{ "op": "remove", "path": "/spec/size" }])),
            "cannot apply the patch",
        ),
        (
            patched(&json!([{ "op": "replace", "path": "/kind", "value": "Secret" }])),
            "it changes the kind",
        ),
    ] {
        let error = revise(response).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    assert!(revise(successful(json!({}))).is_ok());
}

#[test]
fn scripts_precede_webhooks_and_webhooks_precede_built_in_rules() {
    let interpreter = Interpreter::default();
    let rules = json!([rule(&["*"], "apps", "v1", "*")]);
    let webhooks = json!([webhook("apps.example.com", rules)]);
    interpreter.load_webhooks(vec![configuration("apps", webhooks)]);
    let unready = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "a" },
        "spec": { "replicas": 1 }, "status": {} });
    let healthy = |_: &Value| successful(json!({ "healthy": true }));
    let judge = |i: &Interpreter| i.is_healthy(&unready);
    assert!(!Interpreter::default().is_healthy(&unready).unwrap());
    assert!(run(&interpreter, judge, healthy).unwrap());
    let script = json!({ "metadata": { "name": "apps" }, "spec": {
        "target": { "apiVersion": "apps/v1", "kind": "Deployment" },
        "customizations": { "healthInterpretation": {
            "luaScript": "function InterpretHealth() return false end" } } } });
    interpreter.load(vec![serde_json::from_value(script).unwrap()]);
    assert!(!run(&interpreter, judge, healthy).unwrap());
}

#[test]
fn only_kinds_that_a_webhook_matches_fail_without_answers() {
    let interpreter = workloads();
    let deployment = json!({ "apiVersion": "apps/v1", "kind": "Deployment",
        "spec": { "replicas": 4 } });
    let read = interpreter.replicas("apps/v1", "Deployment", &deployment);
    assert_eq!(read.unwrap().unwrap().replicas, 4);
    let error = interpreter.is_healthy(&workload()).unwrap_err();
    assert!(error.to_string().contains("the webhook is not called"));
}

#[test]
fn a_webhook_must_accept_a_known_context_version() {
    let interpreter = workloads();
    let mut webhook = webhook("a.b", json!([rule(&["*"], "*", "*", "*")]));
    webhook["interpreterContextVersions"] = json!(["v2"]);
    interpreter.load_webhooks(vec![configuration("c", json!([webhook]))]);
    let error = run(&interpreter, |i| i.is_healthy(&workload()), |_| json!({})).unwrap_err();
    assert!(error.to_string().contains("add v1alpha1"), "{error}");
}

#[test]
fn responses_may_omit_api_version_and_kind() {
    let answers = Answers::default();
    let interpreter = workloads().with_answers(answers.clone());
    assert!(
        interpreter.is_healthy(&workload()).is_err(),
        "the webhook is not called yet"
    );
    let request = answers.take_open().pop().unwrap();
    let read = |kind: &str| {
        let response = json!({ "uid": "u", "successful": true, "healthy": true });
        let mut message = json!({ "response": response });
        if !kind.is_empty() {
            message["apiVersion"] = json!("config.karmada.io/v1alpha1");
            message["kind"] = json!(kind);
        }
        request.read("u", message.to_string().as_bytes())
    };
    for kind in ["", "ResourceInterpreterContext"] {
        assert_eq!(read(kind).unwrap(), crate::Answer::Health(true), "{kind}");
    }
    let error = read("AdmissionReview").unwrap_err().to_string();
    assert!(error.contains("Kind=AdmissionReview"), "{error}");
}
