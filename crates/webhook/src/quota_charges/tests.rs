use std::sync::{Arc, Mutex};

use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::{Value, json};

use super::*;

/// An API server that serves the quotas of one namespace, and checks resourceVersions.
#[derive(Clone, Default)]
struct Quotas {
    stored: Arc<Mutex<Vec<Value>>>,
    /// Changes that other clients make directly before the next writes: the index of a quota, and its usage of cpu.
    others: Arc<Mutex<Vec<(usize, &'static str)>>>,
}

impl Quotas {
    /// Serves quotas `q0`, `q1`, … with these limits and usages of cpu.
    fn new(quotas: &[(&str, &str)]) -> Self {
        let quotas = quotas.iter().enumerate();
        let stored = quotas.map(|(index, (limit, used))| {
            json!({
                "apiVersion": "policy.karmada.io/v1alpha1", "kind": "FederatedResourceQuota",
                "metadata": { "namespace": "shop", "name": format!("q{index}"), "resourceVersion": "1" },
                "spec": { "overall": { "cpu": limit } },
                "status": { "overallUsed": { "cpu": used } },
            })
        });
        Self {
            stored: Arc::new(Mutex::new(stored.collect())),
            others: Arc::default(),
        }
    }

    fn charges(&self) -> QuotaCharges {
        let quotas = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let quotas = quotas.clone();
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect().await.unwrap().to_bytes();
                let (code, value) = quotas.respond(&head.method, &head.uri, &body);
                let body = Body::from(value.to_string().into_bytes());
                let mut response = Response::new(body);
                *response.status_mut() = StatusCode::from_u16(code).unwrap();
                Ok::<_, std::io::Error>(response)
            }
        });
        QuotaCharges::new(Client::new(service, "default"))
    }

    fn respond(&self, method: &Method, uri: &http::Uri, body: &[u8]) -> (u16, Value) {
        let mut stored = self.stored.lock().unwrap();
        let name = uri.path().trim_end_matches("/status").rsplit('/').next();
        let position = stored
            .iter()
            .position(|quota| quota["metadata"]["name"].as_str() == name);
        let Some(position) = position else {
            let list = json!({ "apiVersion": "policy.karmada.io/v1alpha1",
                "kind": "FederatedResourceQuotaList", "metadata": {}, "items": *stored });
            return (200, list);
        };
        if *method != Method::PATCH {
            return (200, stored[position].clone());
        }
        if let Some((index, used)) = self.others.lock().unwrap().pop() {
            set_used(&mut stored[index], &json!({ "cpu": used }));
        }
        let patch: Value = serde_json::from_slice(body).unwrap();
        let quota = &mut stored[position];
        if patch["metadata"]["resourceVersion"] != quota["metadata"]["resourceVersion"] {
            let status = json!({ "kind": "Status", "status": "Failure", "code": 409,
                "reason": "Conflict", "message": "the object has been modified" });
            return (409, status);
        }
        if uri
            .query()
            .is_none_or(|query| !query.contains("dryRun=All"))
        {
            let mut used = quota["status"]["overallUsed"].clone();
            json_patch::merge(&mut used, &patch["status"]["overallUsed"]);
            set_used(quota, &used);
        }
        (200, quota.clone())
    }

    fn used(&self) -> Vec<Value> {
        let stored = self.stored.lock().unwrap();
        let quotas = stored.iter();
        quotas
            .map(|quota| quota["status"]["overallUsed"]["cpu"].clone())
            .collect()
    }
}

fn set_used(quota: &mut Value, used: &Value) {
    let version = quota["metadata"]["resourceVersion"].as_str().unwrap();
    let next = version.parse::<u64>().unwrap() + 1;
    quota["metadata"]["resourceVersion"] = json!(next.to_string());
    quota["status"]["overallUsed"] = used.clone();
}

fn binding(replicas: i32) -> Value {
    json!({
        "metadata": { "namespace": "shop", "name": "web-deployment" },
        "spec": {
            "resource": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
            "replicaRequirements": { "resourceRequest": { "cpu": "100m" } },
            "clusters": [{ "name": "m1", "replicas": replicas }],
        },
    })
}

fn request(old: Option<i32>, new: i32) -> AdmissionRequest {
    let operation = if old.is_some() { "UPDATE" } else { "CREATE" };
    serde_json::from_value(json!({
        "uid": "u", "operation": operation, "namespace": "shop", "name": "web-deployment",
        "resource": { "group": "work.karmada.io", "resource": "resourcebindings" },
        "oldObject": old.map(binding), "object": binding(new),
    }))
    .unwrap()
}

fn refusal(quota: &str, requested: &str, limit: &str) -> Verdict {
    Verdict::denied(
        DenialReason::QuotaExceeded,
        format!(
            "FederatedResourceQuota(shop/{quota}) exceeded for resource cpu: requested sum {requested}, limit {limit}."
        ),
    )
}

#[tokio::test]
async fn a_binding_is_charged_to_all_quotas_or_to_none() {
    let cases = [
        ("fits", None, 2, Verdict::allowed(), ["300m", "700m"]),
        (
            "shrinks",
            Some(2),
            1,
            Verdict::allowed(),
            ["0-not-stored", "400m"],
        ),
        (
            "exceeds the second",
            None,
            6,
            refusal("q1", "1100m", "1"),
            ["100m", "500m"],
        ),
        (
            "unchanged",
            Some(9),
            9,
            Verdict::allowed(),
            ["100m", "500m"],
        ),
    ];
    for (about, old, new, expected, used) in cases {
        let quotas = Quotas::new(&[("10", "100m"), ("1", "500m")]);
        let found = quotas.charges().review(&request(old, new)).await;
        assert_eq!(found, expected, "{about}");
        let used = used.map(|used| match used {
            "0-not-stored" => Value::Null,
            used => json!(used),
        });
        assert_eq!(quotas.used(), used, "{about}");
    }
}

#[tokio::test]
async fn a_conflicting_charge_is_decided_again_for_the_new_usage() {
    let quotas = Quotas::new(&[("1", "500m")]);
    quotas.others.lock().unwrap().push((0, "800m"));
    let found = quotas.charges().review(&request(None, 2)).await;
    assert_eq!(found, Verdict::allowed());
    assert_eq!(quotas.used(), ["1"]);

    let quotas = Quotas::new(&[("1", "500m")]);
    quotas.others.lock().unwrap().push((0, "900m"));
    let found = quotas.charges().review(&request(None, 2)).await;
    assert_eq!(found, refusal("q0", "1100m", "1"));
    assert_eq!(quotas.used(), ["900m"]);
}

#[tokio::test]
async fn charges_are_taken_back_when_another_quota_refuses_after_a_conflict() {
    let quotas = Quotas::new(&[("10", "100m"), ("1", "500m")]);
    // Another binding uses the second quota after the first quota was charged.
    quotas
        .others
        .lock()
        .unwrap()
        .extend([(1, "900m"), (0, "100m")]);
    let found = quotas.charges().review(&request(None, 2)).await;
    assert_eq!(found, refusal("q1", "1100m", "1"));
    assert_eq!(quotas.used(), ["100m", "900m"]);
}

#[tokio::test]
async fn a_dry_run_is_decided_and_changes_no_quota() {
    for (replicas, expected) in [(2, Verdict::allowed()), (6, refusal("q0", "1100m", "1"))] {
        let quotas = Quotas::new(&[("1", "500m")]);
        let mut request = request(None, replicas);
        request.dry_run = Some(true);
        assert_eq!(quotas.charges().review(&request).await, expected);
        assert_eq!(quotas.used(), ["500m"]);
    }
}

#[tokio::test]
async fn a_quota_that_changes_all_the_time_is_an_internal_error() {
    let quotas = Quotas::new(&[("100", "0")]);
    let changes = (0..MAX_ATTEMPTS).map(|_| (0, "1"));
    quotas.others.lock().unwrap().extend(changes);
    let verdict = quotas.charges().review(&request(None, 1)).await;
    let Verdict::Denied {
        reason, message, ..
    } = verdict
    else {
        panic!("allowed");
    };
    assert_eq!(reason, DenialReason::InternalError);
    let expected = "failed to apply FederatedResourceQuota updates after multiple retries: ";
    assert!(message.starts_with(expected), "{message}");
}
