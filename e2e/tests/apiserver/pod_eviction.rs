//! Tests of the eviction of pods with PodDisruptionBudgets. The controller that computes the status of budgets does not
//! run here, so the tests write this status.

use serde_json::{Value, json};

use crate::harness::content_type::{JSON, MERGE};
use crate::harness::objects::status_of;
use crate::harness::server;
use crate::harness::server::{ApiResponse, TestServer};

/// The collections of pods and of budgets in a namespace of the test.
struct Scene {
    server: TestServer,
    pods: String,
    budgets: String,
}

impl Scene {
    async fn new() -> Self {
        // The tests check error responses, so the client must not retry requests.
        let server = server().await.without_retries().await;
        let namespace = server.namespace().await;
        Self {
            server,
            pods: format!("/api/v1/namespaces/{namespace}/pods"),
            budgets: format!("/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"),
        }
    }

    async fn send(
        &self,
        method: &str,
        kind: (&str, &str),
        path: &str,
        body: &Value,
    ) -> ApiResponse {
        self.server
            .raw(method, path, &[kind], body.to_string())
            .await
    }

    /// Creates a pod on a node. `ready` is the status of its condition Ready.
    async fn create_pod(&self, name: &str, phase: &str, ready: &str, finalizers: Value) {
        let meta = json!({"name": name, "labels": {"app": "web"}, "finalizers": finalizers});
        let spec = json!({"nodeName": "n", "containers": [{"name": "c", "image": "i"}]});
        let pod = json!({"metadata": meta, "spec": spec});
        let created = self.send("POST", JSON, &self.pods, &pod).await;
        assert_eq!(created.code, 201, "{}", created.text);
        let status = json!({"phase": phase, "conditions": [{"type": "Ready", "status": ready}]});
        let path = format!("{}/{name}/status", self.pods);
        let updated = self
            .send("PATCH", MERGE, &path, &json!({"status": status}))
            .await;
        assert_eq!(updated.code, 200, "{}", updated.text);
    }

    async fn create_budget(&self, name: &str) {
        let spec = json!({"selector": {"matchLabels": {"app": "web"}}, "minAvailable": 1});
        let budget = json!({"metadata": {"name": name}, "spec": spec});
        let created = self.send("POST", JSON, &self.budgets, &budget).await;
        assert_eq!(created.code, 201, "{}", created.text);
    }

    /// Writes the status of a budget, with the current generation of the budget as the observed generation.
    async fn set_status(
        &self,
        name: &str,
        allowed: i64,
        healthy: i64,
        wanted: i64,
        conditions: Value,
    ) {
        let path = format!("{}/{name}", self.budgets);
        let budget = self.server.raw("GET", &path, &[], "").await.json;
        let status = json!({"observedGeneration": budget["metadata"]["generation"], "disruptionsAllowed": allowed,
            "currentHealthy": healthy, "desiredHealthy": wanted, "expectedPods": healthy, "conditions": conditions});
        let path = format!("{path}/status");
        let noted = self
            .send("PATCH", MERGE, &path, &json!({"status": status}))
            .await;
        assert_eq!(noted.code, 200, "{}", noted.text);
    }

    async fn evict(&self, name: &str, query: &str, options: Value) -> ApiResponse {
        let body = json!({"metadata": {"name": name}, "deleteOptions": options});
        self.post(name, query, &body).await
    }

    async fn post(&self, name: &str, query: &str, body: &Value) -> ApiResponse {
        let path = format!("{}/{name}/eviction{query}", self.pods);
        self.send("POST", JSON, &path, body).await
    }

    /// Reports whether a pod exists and is not being deleted.
    async fn remains(&self, name: &str) -> bool {
        let path = format!("{}/{name}", self.pods);
        let pod = self.server.raw("GET", &path, &[], "").await;
        pod.code == 200 && pod.json["metadata"]["deletionTimestamp"].is_null()
    }
}

fn assert_violation(response: &ApiResponse, cause: &str) {
    assert_eq!(
        (response.code, &response.json["message"]),
        (
            429,
            &json!("Cannot evict pod as it would violate the pod's disruption budget.")
        ),
        "{}",
        response.text
    );
    let causes = json!([{"reason": "DisruptionBudget", "message": cause}]);
    assert_eq!(response.json["details"]["causes"], causes);
}

/// Checks that an eviction with a wrong name, kind or option gets an error, and that the pod remains.
#[tokio::test]
async fn invalid_evictions_are_refused() {
    let scene = Scene::new().await;
    scene.create_pod("p", "Running", "True", json!([])).await;
    let named = |more: Value| {
        let mut body = json!({"metadata": {"name": "p"}});
        for (name, value) in more.as_object().unwrap() {
            body[name.as_str()] = value.clone();
        }
        body
    };
    for (query, body, code) in [
        ("", json!({}), 400),
        ("", json!({"metadata": {"name": "x"}}), 400),
        (
            "",
            json!({"metadata": {"name": "p", "namespace": "elsewhere"}}),
            400,
        ),
        ("", named(json!({"apiVersion": "v1", "kind": "Pod"})), 400),
        (
            "",
            named(json!({"deleteOptions": {"gracePeriodSeconds": "x"}})),
            400,
        ),
        ("?fieldValidation=Strict", named(json!({"what": 1})), 400),
        ("", named(json!({"deleteOptions": {"dryRun": ["x"]}})), 422),
        (
            "",
            named(json!({"deleteOptions": {"propagationPolicy": "x"}})),
            422,
        ),
    ] {
        let response = scene.post("p", query, &body).await;
        assert_eq!(response.code, code, "{body}: {}", response.text);
    }
    let none = scene.evict("none", "", Value::Null).await;
    assert_eq!(
        (none.code, &none.json["message"]),
        (404, &json!("pods \"none\" not found"))
    );
    let path = format!("{}/p/eviction", scene.pods);
    assert_eq!(scene.server.raw("GET", &path, &[], "").await.code, 405);
    assert!(scene.remains("p").await);
}

/// Checks that the eviction of a pod without a matching budget deletes the pod. If the pod does not match the UID or
/// resource version in the preconditions of the eviction, the response is 409.
#[tokio::test]
async fn pods_without_a_budget_are_evicted_if_preconditions_match() {
    let scene = Scene::new().await;
    scene.create_pod("p", "Running", "True", json!([])).await;
    let trial = scene.evict("p", "?dryRun=All", Value::Null).await;
    assert_eq!(trial.code, 201, "{}", trial.text);
    for (options, part) in [
        (
            json!({"preconditions": {"uid": "u"}}),
            "the UID in the precondition (u) does not match the UID in record",
        ),
        (
            json!({"preconditions": {"resourceVersion": "1"}}),
            "the ResourceVersion in the precondition (1) does not match the ResourceVersion in record",
        ),
    ] {
        let refused = scene.evict("p", "", options).await;
        let message = refused.json["message"].as_str().unwrap_or_default();
        let wanted = format!("Operation cannot be fulfilled on Pod \"p\": {part}");
        assert!(
            refused.code == 409 && message.starts_with(&wanted),
            "{}",
            refused.text
        );
    }
    assert!(scene.remains("p").await);
    let path = format!("{}/p", scene.pods);
    let pod = scene.server.raw("GET", &path, &[], "").await.json;
    let meta = &pod["metadata"];
    let which = json!({"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]});
    let evicted = scene.evict("p", "", json!({"preconditions": which})).await;
    let success = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    assert_eq!((evicted.code, &evicted.json), (201, &success));
    assert!(!scene.remains("p").await);
}

/// Checks that an eviction gets 429 and the reason if the budget allows no disruption or has not been processed yet. If
/// two budgets match the pod, the eviction gets 500.
#[tokio::test]
async fn exhausted_budgets_report_the_reason() {
    let scene = Scene::new().await;
    scene.create_pod("p", "Running", "True", json!([])).await;
    scene.create_budget("b").await;
    let fresh = scene.evict("p", "", Value::Null).await;
    assert_violation(
        &fresh,
        "The disruption budget b is still being processed by the server.",
    );
    assert_eq!(fresh.headers["retry-after"], "10");
    assert_eq!(fresh.json["details"]["retryAfterSeconds"], 10);

    scene.set_status("b", 0, 1, 1, json!([])).await;
    for query in ["", "?dryRun=All"] {
        let response = scene.evict("p", query, Value::Null).await;
        assert_violation(
            &response,
            "The disruption budget b needs 1 healthy pods and has 1 currently",
        );
        assert!(!response.headers.contains_key("retry-after"));
    }
    scene.create_budget("c").await;
    let response = scene.evict("p", "", Value::Null).await;
    let why = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
    assert_eq!(status_of(&response), (500, why));
    assert!(scene.remains("p").await);
}

/// Checks that an eviction decreases the allowed disruptions of the budget, and adds the pod to its disrupted pods. The
/// next eviction gets 429.
#[tokio::test]
async fn evicted_pods_are_recorded_in_the_budget() {
    let scene = Scene::new().await;
    scene.create_pod("p", "Running", "True", json!([])).await;
    scene.create_pod("q", "Running", "True", json!([])).await;
    scene.create_budget("b").await;
    scene.set_status("b", 1, 2, 1, json!([])).await;
    let trial = scene.evict("p", "?dryRun=All", Value::Null).await;
    assert_eq!(trial.code, 201, "{}", trial.text);
    let evicted = scene.evict("p", "", Value::Null).await;
    assert_eq!(evicted.code, 201, "{}", evicted.text);
    assert!(!scene.remains("p").await);
    let path = format!("{}/b", scene.budgets);
    let status = scene.server.raw("GET", &path, &[], "").await.json["status"].take();
    assert_eq!(status["disruptionsAllowed"], 0);
    assert!(status["disruptedPods"]["p"].is_string(), "{status}");
    let condition = &status["conditions"][0];
    assert_eq!(
        (&condition["status"], &condition["reason"]),
        (&json!("False"), &json!("InsufficientPods"))
    );
    let next = scene.evict("q", "", Value::Null).await;
    assert_eq!(next.code, 429, "{}", next.text);
    assert!(scene.remains("q").await);
}

/// Checks that the eviction of a pending, succeeded or failed pod succeeds without regard to the budget.
#[tokio::test]
async fn pods_that_are_not_ready_are_evicted_despite_the_budget() {
    let scene = Scene::new().await;
    scene.create_budget("b").await;
    for (name, phase) in [
        ("waits", "Pending"),
        ("done", "Succeeded"),
        ("broken", "Failed"),
    ] {
        scene.create_pod(name, phase, "False", json!([])).await;
        let evicted = scene.evict(name, "", Value::Null).await;
        assert_eq!(evicted.code, 201, "{name}: {}", evicted.text);
        assert!(!scene.remains(name).await, "{name}");
    }

    // A running pod that is not ready is evicted if enough other pods are healthy, or if the policy of the budget is
    // `AlwaysAllow`.
    scene
        .create_pod("slow", "Running", "False", json!(["example.com/held"]))
        .await;
    scene.set_status("b", 0, 1, 2, json!([])).await;
    assert_violation(
        &scene.evict("slow", "", Value::Null).await,
        "The disruption budget b needs 2 healthy pods and has 1 currently",
    );
    scene.set_status("b", 0, 1, 1, json!([])).await;
    let trial = scene.evict("slow", "?dryRun=All", Value::Null).await;
    assert_eq!(trial.code, 201, "{}", trial.text);
    let policy = json!({"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}});
    let path = format!("{}/b", scene.budgets);
    assert_eq!(scene.send("PATCH", MERGE, &path, &policy).await.code, 200);
    scene.set_status("b", 0, 1, 2, json!([])).await;
    let evicted = scene.evict("slow", "", Value::Null).await;
    assert_eq!(evicted.code, 201, "{}", evicted.text);

    // The finalizer keeps the pod. A condition of the pod contains the reason of the deletion.
    let path = format!("{}/slow", scene.pods);
    let pod = scene.server.raw("GET", &path, &[], "").await.json;
    assert!(pod["metadata"]["deletionTimestamp"].is_string(), "{pod}");
    let conditions = pod["status"]["conditions"].as_array().unwrap();
    let target = conditions
        .iter()
        .find(|condition| condition["type"] == "DisruptionTarget")
        .unwrap();
    assert_eq!(
        (&target["status"], &target["reason"], &target["message"]),
        (
            &json!("True"),
            &json!("EvictionByEvictionAPI"),
            &json!("Eviction API: evicting")
        )
    );
    let release = json!({"metadata": {"finalizers": null}});
    assert_eq!(scene.send("PATCH", MERGE, &path, &release).await.code, 200);
}
