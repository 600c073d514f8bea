//! Tests of the drain preview and of predicted changes with FederatedResourceQuotas and node pools, on a fake control
//! plane with two clusters. The Deployment `shop/web` has two replicas in m1, and each of them requests one CPU.

use std::convert::Infallible;

use berth_api::well_known::NODE_POOLS;
use berth_api::{BindingKey, Cluster};
use berth_engine::{EngineOptions, Fleet};
use berth_scheduler::config::QuotaEnforcement;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio_util::bytes::Bytes;

use super::{Change, DepartureOutcome, FleetChange, predict_change, predict_drain};
use crate::scheduler_configuration::DecisionConfiguration;

/// The answer of the control plane to a list of quotas.
#[derive(Clone, Copy)]
enum Quotas {
    /// A quota of the namespace with this limit of CPUs.
    Limit(i32),
    NotServed,
    Forbidden,
}

fn cluster(name: &str) -> Value {
    json!({
        "metadata": { "name": name },
        "spec": { "syncMode": "Push" },
        "status": {
            "apiEnablements": [{ "groupVersion": "apps/v1", "resources": [{ "name": "deployments", "kind": "Deployment" }] }],
            "conditions": [{ "type": "Ready", "status": "True", "reason": "r", "message": "m",
                "lastTransitionTime": "2026-01-01T00:00:00Z" }],
            "resourceSummary": { "allocatable": { "cpu": "10", "pods": "100" } },
        },
    })
}

fn binding() -> Value {
    json!({
        "metadata": { "name": "web", "namespace": "shop", "resourceVersion": "1", "generation": 1,
            "labels": { "propagationpolicy.karmada.io/permanent-id": "id" } },
        "spec": {
            "resource": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "u" },
            "replicas": 2, "replicaRequirements": { "resourceRequest": { "cpu": "1" } },
            "placement": { "replicaScheduling": { "replicaSchedulingType": "Divided",
                "replicaDivisionPreference": "Aggregated" } },
            "clusters": [{ "name": "m1", "replicas": 2 }],
        },
    })
}

fn respond(path: &str, quotas: Quotas) -> (StatusCode, Value) {
    let items = match path.rsplit('/').next().unwrap() {
        "clusters" => json!([cluster("m1"), cluster("m2")]),
        "resourcebindings" => json!([binding()]),
        "federatedresourcequotas" => match quotas {
            Quotas::Limit(cpus) => json!([{ "metadata": { "name": "team", "namespace": "shop" },
                "spec": { "overall": { "cpu": cpus.to_string() } } }]),
            Quotas::NotServed | Quotas::Forbidden => {
                let code = match quotas {
                    Quotas::NotServed => StatusCode::NOT_FOUND,
                    _ => StatusCode::FORBIDDEN,
                };
                let status = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure",
                    "message": "no quotas for you", "reason": "r", "code": code.as_u16() });
                return (code, status);
            }
        },
        _ => json!([]),
    };
    let list = json!({ "kind": "List", "apiVersion": "v1", "metadata": { "resourceVersion": "1" }, "items": items });
    (StatusCode::OK, list)
}

fn client(quotas: Quotas) -> Client {
    let service = tower::service_fn(move |request: Request<Body>| {
        let (code, body) = respond(request.uri().path(), quotas);
        let mut response = Response::new(Full::<Bytes>::new(body.to_string().into()));
        *response.status_mut() = code;
        async { Ok::<_, Infallible>(response) }
    });
    Client::new(service, "default")
}

fn configuration(quotas: QuotaEnforcement) -> DecisionConfiguration {
    DecisionConfiguration::of_flags(EngineOptions::default()).with_quotas(quotas)
}

/// The preview predicts the refusal of a workload that its namespace may not place again, because a user has lowered
/// the quota below the usage.
#[tokio::test]
async fn a_drain_obeys_the_quotas() {
    for (quotas, enforcement, to, note) in [
        (Quotas::Limit(1), QuotaEnforcement::On, None, None),
        (Quotas::Limit(1), QuotaEnforcement::Off, Some("m2"), None),
        (Quotas::Limit(2), QuotaEnforcement::On, Some("m2"), None),
        (Quotas::NotServed, QuotaEnforcement::On, Some("m2"), None),
        (
            Quotas::Forbidden,
            QuotaEnforcement::On,
            Some("m2"),
            Some("quotas are ignored: cannot read federatedresourcequotas: no quotas for you"),
        ),
        (Quotas::Forbidden, QuotaEnforcement::Off, Some("m2"), None),
    ] {
        let (client, configuration) = (client(quotas), configuration(enforcement));
        let preview = predict_drain(&client, &configuration, "m1").await.unwrap();
        let [departure] = &*preview.departures else {
            panic!("{preview:?}");
        };
        match (&departure.outcome, to) {
            (DepartureOutcome::Moves { to }, Some(name)) => assert_eq!(to[0].name, name),
            (DepartureOutcome::Stays { reason }, None) => assert_eq!(
                reason,
                "FederatedResourceQuota(shop/team) exceeded for resource cpu: requested sum 2, limit 1"
            ),
            (outcome, _) => panic!("{outcome:?}"),
        }
        let notes = preview.notes.iter().map(String::as_str);
        assert_eq!(notes.collect::<Vec<_>>(), Vec::from_iter(note));
    }
}

/// Returns the clusters of the binding after a change, or the reason why it has none.
async fn after(change: &Change, quotas: QuotaEnforcement, in_m2: &Value) -> Result<String, String> {
    let mut fleet = Fleet::new().keeping_objects();
    let mut m2 = cluster("m2");
    m2["metadata"]["annotations"] = json!({ NODE_POOLS: in_m2.to_string() });
    for object in [cluster("m1"), m2] {
        fleet.apply(&serde_json::from_value::<Cluster>(object).unwrap());
    }
    let (client, configuration) = (client(Quotas::Limit(3)), configuration(quotas));
    let predicted = predict_change(&client, &configuration, fleet, change);
    let (moves, _) = predicted.await.unwrap();
    let decision = &moves.moves[0].to;
    if let Some(failure) = &decision.failure {
        return Err(failure.kind.to_owned());
    }
    let shares = decision.clusters.iter();
    let shares: Vec<String> = shares
        .map(|share| format!("{}:{}", share.name, share.replicas))
        .collect();
    Ok(shares.concat())
}

#[tokio::test]
async fn a_change_obeys_the_quotas_and_the_node_pools() {
    let scale = |replicas| Change::Scale {
        binding: BindingKey::new("shop", "web"),
        replicas,
    };
    let lose = Change::Fleet(FleetChange::Lose {
        cluster: "m1".to_owned(),
    });
    let pools = |count: i64| json!({ "pools": [{ "nodes": [{ "count": count, "free": { "cpu": "1", "pods": "10" } }] }] });
    let refused = |reason: &str| Err(reason.to_owned());
    let placed = |text: &str| Ok(text.to_owned());
    for (change, enforcement, nodes, expected) in [
        (scale(3), QuotaEnforcement::On, 10, placed("m1:3")),
        (scale(4), QuotaEnforcement::On, 10, refused("QuotaExceeded")),
        (scale(4), QuotaEnforcement::Off, 10, placed("m1:4")),
        (lose.clone(), QuotaEnforcement::On, 2, placed("m2:2")),
        (lose, QuotaEnforcement::On, 1, refused("Unschedulable")),
    ] {
        let result = after(&change, enforcement, &pools(nodes)).await;
        assert_eq!(result, expected, "{change:?} {enforcement:?} {nodes}");
    }
}
