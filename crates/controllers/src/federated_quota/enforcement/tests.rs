use std::sync::{Arc, Mutex};

use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::{Value, json};

use super::*;

/// An API server with one quota and some bindings. It accepts each patch of the status.
#[derive(Clone)]
struct Server {
    quota: Arc<Mutex<Value>>,
    bindings: Arc<Mutex<Vec<Value>>>,
    version: Arc<Mutex<u64>>,
}

impl Server {
    fn new(used: &str, bindings: &[(&str, i32)]) -> Self {
        let quota = json!({
            "metadata": { "namespace": "shop", "name": "team", "resourceVersion": "1" },
            "spec": { "overall": { "cpu": "100" } },
            "status": { "overall": { "cpu": "100" }, "overallUsed": { "cpu": used } },
        });
        let bindings = bindings.iter();
        let bindings = bindings
            .map(|(uid, replicas)| binding(uid, *replicas, 5))
            .collect();
        Self {
            quota: Arc::new(Mutex::new(quota)),
            bindings: Arc::new(Mutex::new(bindings)),
            version: Arc::new(Mutex::new(10)),
        }
    }

    fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect().await.unwrap().to_bytes();
                let response = server.respond(&head.method, head.uri.path(), &body);
                Ok::<_, std::io::Error>(Response::new(Body::from(
                    response.to_string().into_bytes(),
                )))
            }
        });
        Client::new(service, "default")
    }

    fn respond(&self, method: &Method, path: &str, body: &[u8]) -> Value {
        if path.ends_with("resourcebindings") {
            let version = self.version.lock().unwrap().to_string();
            return json!({ "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBindingList",
                "metadata": { "resourceVersion": version }, "items": *self.bindings.lock().unwrap() });
        }
        let mut quota = self.quota.lock().unwrap();
        if *method == Method::PATCH {
            let change: Value = serde_json::from_slice(body).unwrap();
            if let Some(used) = change["status"].get("overallUsed") {
                quota["status"]["overallUsed"] = used.clone();
            }
        }
        quota.clone()
    }

    fn observe(&self, enforcement: &mut Enforcement) {
        let quota = serde_json::from_value(self.quota.lock().unwrap().clone()).unwrap();
        enforcement.observe(&name(), &quota);
    }

    /// Recalculates the usage, and returns it with the number of seconds to the next recalculation.
    async fn recalculate(&self, enforcement: &mut Enforcement) -> (Value, Option<u64>) {
        let known = enforcement.known(&name(), Instant::now());
        let done = recalculate(&self.client(), &name(), known).await;
        let done = done.unwrap().unwrap();
        let due = enforcement.finish(&name(), done);
        let quota = self.quota.lock().unwrap();
        (
            quota["status"]["overallUsed"]["cpu"].clone(),
            due.map(|due| (due - Instant::now()).as_secs()),
        )
    }
}

fn name() -> ObjectName {
    ("shop".to_owned(), "team".to_owned())
}

fn binding(uid: &str, replicas: i32, version: u64) -> Value {
    json!({
        "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "metadata": { "namespace": "shop", "name": uid, "uid": uid,
            "resourceVersion": version.to_string() },
        "spec": {
            "resource": { "apiVersion": "apps/v1", "kind": "Deployment", "name": uid },
            "replicaRequirements": { "resourceRequest": { "cpu": "1" } },
            "clusters": [{ "name": "m1", "replicas": replicas }],
        },
    })
}

fn deleted(uid: &str, replicas: i32, version: u64) -> Freed {
    let object = serde_json::from_value(binding(uid, replicas, version)).unwrap();
    Freed::of(&object).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_charge_whose_binding_is_not_stored_yet_is_kept_until_its_request_has_ended() {
    let server = Server::new("5", &[("a", 3)]);
    let mut enforcement = Enforcement::default();
    server.observe(&mut enforcement);
    assert_eq!(
        server.recalculate(&mut enforcement).await,
        (json!("5"), Some(70))
    );
    // The binding is stored in the meantime.
    server.bindings.lock().unwrap().push(binding("b", 2, 11));
    tokio::time::advance(IN_FLIGHT).await;
    assert_eq!(
        server.recalculate(&mut enforcement).await,
        (json!("5"), None)
    );
}

#[tokio::test(start_paused = true)]
async fn a_charge_whose_binding_was_never_stored_is_removed() {
    let server = Server::new("5", &[("a", 3)]);
    let mut enforcement = Enforcement::default();
    server.observe(&mut enforcement);
    tokio::time::advance(IN_FLIGHT).await;
    // A charge that the controller has not observed.
    server.quota.lock().unwrap()["metadata"]["resourceVersion"] = json!("2");
    assert_eq!(
        server.recalculate(&mut enforcement).await,
        (json!("5"), Some(1))
    );
    server.observe(&mut enforcement);
    assert_eq!(
        server.recalculate(&mut enforcement).await,
        (json!("3"), None)
    );
}

#[tokio::test(start_paused = true)]
async fn a_deleted_binding_is_subtracted_at_once_and_only_once() {
    let server = Server::new("9", &[("a", 3)]);
    let mut enforcement = Enforcement::default();
    server.observe(&mut enforcement);
    enforcement.free(&name(), &deleted("b", 2, 9));
    let (first, due) = server.recalculate(&mut enforcement).await;
    assert_eq!((first, due), (json!("7"), Some(70)));
    // The scheduled recalculation is not scheduled again.
    let (second, due) = server.recalculate(&mut enforcement).await;
    assert_eq!((second, due), (json!("7"), None));
}

#[tokio::test(start_paused = true)]
async fn a_deletion_before_an_exact_recalculation_is_not_subtracted_afterwards() {
    let server = Server::new("5", &[("a", 3)]);
    let mut enforcement = Enforcement::default();
    server.observe(&mut enforcement);
    tokio::time::advance(IN_FLIGHT).await;
    assert_eq!(
        server.recalculate(&mut enforcement).await,
        (json!("3"), None)
    );
    // A new charge, and the late event about a deletion before the list.
    server.quota.lock().unwrap()["status"]["overallUsed"]["cpu"] = json!("6");
    server.observe(&mut enforcement);
    enforcement.free(&name(), &deleted("b", 2, 10));
    let kept = server.recalculate(&mut enforcement).await.0;
    assert_eq!(kept, "6");
    enforcement.free(&name(), &deleted("c", 2, 11));
    let freed = server.recalculate(&mut enforcement).await.0;
    assert_eq!(freed, "4");
}

#[tokio::test(start_paused = true)]
async fn a_gap_in_the_watch_of_quotas_begins_a_new_wait() {
    let server = Server::new("5", &[("a", 3)]);
    let mut enforcement = Enforcement::default();
    server.observe(&mut enforcement);
    tokio::time::advance(IN_FLIGHT).await;
    enforcement.handle_gap();
    assert_eq!(
        server.recalculate(&mut enforcement).await,
        (json!("5"), Some(70))
    );
}

#[tokio::test(start_paused = true)]
async fn each_change_of_the_usage_is_followed_by_an_exact_recalculation() {
    let server = Server::new("3", &[("a", 3)]);
    let mut enforcement = Enforcement::default();
    server.observe(&mut enforcement);
    let observe = |enforcement: &mut Enforcement, used: &str| {
        let mut quota = server.quota.lock().unwrap();
        quota["status"]["overallUsed"]["cpu"] = json!(used);
        let quota = serde_json::from_value(quota.clone()).unwrap();
        let due = enforcement.observe(&name(), &quota);
        due.map(|due| (due - Instant::now()).as_secs())
    };
    // A binding was to shrink, and the change was not stored.
    assert_eq!(observe(&mut enforcement, "1"), Some(70));
    tokio::time::advance(IN_FLIGHT / 2).await;
    assert_eq!(observe(&mut enforcement, "2"), None);
    tokio::time::advance(IN_FLIGHT / 2).await;
    assert_eq!(
        server.recalculate(&mut enforcement).await,
        (json!("3"), Some(35))
    );
}
