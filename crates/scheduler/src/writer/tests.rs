//! Tests of the reports of a writer whose process is not the leader, or whose requests fail.

use berth_api::ResourceBinding;
use berth_component_base::leader_election::{Candidate, LeaseOptions};
use http::{Method, Request, Response, StatusCode};
use kube::client::Body;

use super::*;
use crate::queue::Verdict;
use crate::rules::plan::StatusPlan;

const RENEW_DEADLINE: Duration = Duration::from_secs(10);

fn object() -> Value {
    json!({
        "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "metadata": { "name": "b", "namespace": "n", "resourceVersion": "1", "generation": 1 },
        "spec": { "resource": { "apiVersion": "v1", "kind": "ConfigMap", "name": "c" } },
    })
}

/// Returns a client of a server that contains the binding but no Lease, and that accepts every write. A patch of the
/// binding takes as long as the renew deadline.
fn client() -> kube::Client {
    let service = tower::service_fn(|request: Request<Body>| async move {
        let is_binding = request.uri().path().contains("/resourcebindings/");
        let (status, body) = match *request.method() {
            Method::PATCH => {
                tokio::time::sleep(RENEW_DEADLINE).await;
                (StatusCode::OK, object())
            }
            Method::GET if is_binding => (StatusCode::OK, object()),
            Method::GET => (
                StatusCode::NOT_FOUND,
                json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure",
                    "reason": "NotFound", "message": "not found", "code": 404 }),
            ),
            _ => (StatusCode::CREATED, json!({ "metadata": {} })),
        };
        Response::builder()
            .status(status)
            .body(Body::from(body.to_string().into_bytes()))
    });
    kube::Client::new(service, "default")
}

/// Returns a client of a server that contains the binding, and that rejects every patch with this code.
fn client_that_rejects_patches(code: u16) -> kube::Client {
    let service = tower::service_fn(move |request: Request<Body>| async move {
        let (status, body) = match *request.method() {
            Method::PATCH => (
                StatusCode::from_u16(code).unwrap(),
                json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure",
                    "reason": "", "message": "rejected", "code": code }),
            ),
            _ => (StatusCode::OK, object()),
        };
        Response::builder()
            .status(status)
            .body(Body::from(body.to_string().into_bytes()))
    });
    kube::Client::new(service, "default")
}

/// Returns a writer, and the candidate whose leadership the writer checks.
fn writer() -> (Writer, Candidate) {
    let options = LeaseOptions {
        namespace: "n".to_owned(),
        name: "lease".to_owned(),
        identity: "this".to_owned(),
        lease_duration: RENEW_DEADLINE + Duration::from_secs(5),
        renew_deadline: RENEW_DEADLINE,
        retry_period: Duration::from_secs(2),
    };
    let (candidate, leadership) = Candidate::new(client(), options);
    let writer = Writer {
        client: client(),
        limit: Arc::new(RateLimit::new(None)),
        leadership,
        timeout: RENEW_DEADLINE * 2,
        stopping: CancellationToken::new(),
    };
    (writer, candidate)
}

fn binding() -> Arc<Binding> {
    let object: ResourceBinding = serde_json::from_value(object()).unwrap();
    Arc::new(object.into())
}

/// Returns a plan that changes the clusters and the status.
fn plan() -> Plan {
    Plan {
        result: Some(json!({ "spec": { "clusters": [{ "name": "m1" }] } })),
        status: Some(StatusPlan {
            scheduled: None,
            observe: true,
            succeeded: true,
            affinity: None,
        }),
        ..Plan::nothing(Verdict::Done)
    }
}

/// Returns a plan whose result also has the annotation, which the writer must write after a Bind plugin.
fn plan_with_annotation() -> Plan {
    Plan {
        result: Some(json!({
            "metadata": { "annotations": { "policy.karmada.io/applied-placement": "{}" } },
            "spec": { "clusters": [{ "name": "m1" }] },
        })),
        ..plan()
    }
}

#[tokio::test(start_paused = true)]
async fn a_result_that_was_written_before_the_leadership_was_lost_has_landed() {
    let (writer, mut candidate) = writer();
    assert!(candidate.acquire(&CancellationToken::new()).await);
    let report = writer.write(binding(), &plan()).await;
    assert!(
        matches!(
            report,
            Report::NotLeading {
                progress: Progress::Result
            }
        ),
        "{report:?}"
    );
    assert!(report.result_landed());
}

#[tokio::test(start_paused = true)]
async fn a_standby_writes_no_result() {
    let (writer, _candidate) = writer();
    let report = writer.write(binding(), &plan()).await;
    assert!(
        matches!(
            report,
            Report::NotLeading {
                progress: Progress::Nothing
            }
        ),
        "{report:?}"
    );
    assert!(!report.result_landed());
}

#[tokio::test(start_paused = true)]
async fn a_result_that_a_bind_plugin_wrote_has_landed_without_leadership() {
    let (writer, _candidate) = writer();
    let report = writer.complete(binding(), &plan()).await;
    assert!(
        matches!(
            report,
            Report::NotLeading {
                progress: Progress::ClustersByPlugin
            }
        ),
        "{report:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn clusters_that_a_bind_plugin_stored_have_landed_although_a_later_write_fails() {
    for (code, expected) in [
        (409, "Conflict"),
        (422, "Refused"),
        (429, "Failed"),
        (500, "Failed"),
    ] {
        let (mut writer, mut candidate) = writer();
        assert!(candidate.acquire(&CancellationToken::new()).await);
        writer.client = client_that_rejects_patches(code);
        for plan in [plan(), plan_with_annotation()] {
            let report = writer.complete(binding(), &plan).await;
            let text = format!("{report:?}");
            assert!(text.starts_with(expected), "{code}: {text}");
            assert!(report.result_landed(), "{code}: {text}");
            let report = writer.write(binding(), &plan).await;
            assert!(!report.result_landed(), "{code}: {report:?}");
        }
    }
}
