//! The number of requests that the controllers and the scheduler send to the control plane for common changes, against a
//! budget. A change that exceeds the budget makes the API server the limit of a large fleet.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use berth_e2e::Objects as _;
use berth_e2e::objects::wait_for;
use berth_e2e::proxy::{Proxy, RecordedRequest};
use http::Method;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::Api;
use serde_json::{Value, json};

use crate::fleet::{Fleet, NAMESPACE};
use crate::manifests::{config_map, deployment, divided, policy};

/// The requests are complete when none has arrived for this time. It is longer than the time that reports may take to
/// settle.
const QUIET: Duration = Duration::from_millis(800);

/// The maximum number of requests for a resource or subresource. A request that is not listed exceeds the budget. Leases,
/// lists, watches and discovery are not counted, because their number does not depend on the change.
struct Budget {
    change: &'static str,
    requests: &'static [(&'static str, usize)],
}

/// A Deployment for three members. Each member reports twice: after the Deployment is applied, and when it is ready.
const NEW_DEPLOYMENT: Budget = Budget {
    change: "a new Deployment",
    requests: &[
        ("PATCH deployments", 1),
        ("POST resourcebindings", 1),
        ("PATCH resourcebindings", 1),
        // One of the scheduler, and one for each report.
        ("PATCH resourcebindings/status", 3),
        ("POST works", 3),
        ("PATCH works/status", 6),
        ("PATCH deployments/status", 2),
        ("POST events", 3),
    ],
};

const SCALING: Budget = Budget {
    change: "scaling",
    requests: &[
        ("PATCH resourcebindings", 2),
        ("PATCH resourcebindings/status", 3),
        ("PATCH works", 3),
        ("PATCH works/status", 6),
        ("PATCH deployments/status", 2),
        // The result of the decision is a new message.
        ("POST events", 1),
        ("PATCH events", 2),
    ],
};

/// The Deployment moves from one of the three members to a fourth.
const MOVE: Budget = Budget {
    change: "a move to another member",
    requests: &[
        ("PATCH resourcebindings", 2),
        ("PATCH resourcebindings/status", 4),
        ("POST works", 1),
        ("PATCH works", 2),
        ("DELETE works", 1),
        ("PATCH works/status", 4),
        ("PATCH deployments/status", 3),
        ("POST events", 1),
        ("PATCH events", 2),
    ],
};

const JOINING_CLUSTER: Budget = Budget {
    change: "a cluster that joins",
    requests: &[],
};

/// Returns the verb and the resource of a request, such as `PATCH works/status`, or `None` if it is not counted.
fn counted(request: &RecordedRequest) -> Option<String> {
    let parts: Vec<&str> = request.path.trim_start_matches('/').split('/').collect();
    // The path begins with `api/VERSION` or `apis/GROUP/VERSION`.
    let rest = match parts.first() {
        Some(&"api") => parts.get(2..)?,
        Some(&"apis") => parts.get(3..)?,
        _ => return None,
    };
    let rest = match rest {
        ["namespaces", _, rest @ ..] if !rest.is_empty() => rest,
        rest => rest,
    };
    let (resource, name, subresource) = (rest.first()?, rest.get(1), rest.get(2));
    let is_list = request.method == Method::GET && name.is_none();
    if is_list || *resource == "leases" {
        return None;
    }
    let slash = subresource.map(|name| format!("/{name}"));
    Some(format!(
        "{} {resource}{}",
        request.method,
        slash.unwrap_or_default()
    ))
}

/// The requests of the controllers and the scheduler.
struct Counter {
    proxy: Proxy,
    seen: usize,
}

impl Counter {
    /// Waits until no request arrives any more. Returns the requests since the last call.
    async fn next(&mut self) -> BTreeMap<String, usize> {
        let mut known = 0;
        loop {
            tokio::time::sleep(QUIET).await;
            let count = self.proxy.requests().len();
            if count == known && count > 0 {
                break;
            }
            known = count;
        }
        let requests = self.proxy.requests();
        let mut counts = BTreeMap::new();
        for request in requests.iter().skip(self.seen).filter_map(counted) {
            *counts.entry(request).or_default() += 1;
        }
        self.seen = requests.len();
        counts
    }

    /// Compares the requests since the last call with a budget. Returns the excess.
    async fn compare(&mut self, budget: &Budget) -> Result<(), String> {
        let counts = self.next().await;
        let mut excess = String::new();
        for (request, count) in &counts {
            let allowed = budget.requests.iter().find(|(name, _)| name == request);
            let allowed = allowed.map_or(0, |(_, allowed)| *allowed);
            if *count > allowed {
                let _ = write!(excess, " {request}: {count}, budget {allowed};");
            }
        }
        if excess.is_empty() {
            Ok(())
        } else {
            Err(format!("{}:{excess} all: {counts:?}", budget.change))
        }
    }
}

/// Waits until each member has its replicas, and reports all of them as ready.
async fn report_ready(fleet: &Fleet, web: &Value, replicas: &[(usize, i64)]) {
    for (member, expected) in replicas {
        let object = fleet.members[*member].wait_for(web, "the replicas", |object| {
            object["spec"]["replicas"] == *expected
        });
        object.await;
    }
    for (member, count) in replicas {
        let generation =
            fleet.members[*member].get(web).await.unwrap()["metadata"]["generation"].clone();
        let status = json!({ "replicas": count, "readyReplicas": count, "availableReplicas": count,
            "updatedReplicas": count, "observedGeneration": generation });
        fleet.members[*member].report_status(web, status).await;
    }
    let total: i64 = replicas.iter().map(|(_, count)| count).sum();
    let deployments: Api<Deployment> = Api::namespaced(fleet.client.clone(), NAMESPACE);
    let name = web["metadata"]["name"].as_str().unwrap();
    let ready = wait_for(&deployments, name, "the ready replicas", |web| {
        let ready = web.status.as_ref().and_then(|status| status.ready_replicas);
        ready.map(i64::from) == Some(total)
    });
    ready.await;
}

/// Propagates, scales and moves a Deployment, and lets the member `joining` join. Compares the requests with the budgets.
async fn attempt(
    fleet: &Fleet,
    requests: &mut Counter,
    name: &str,
    joining: usize,
) -> Result<(), String> {
    let web = deployment(name, 3);
    let placement = |members: [&str; 3]| divided(&web, &members.map(|name| (name, 1)));
    fleet.apply(placement(["m1", "m2", "m3"])).await;
    requests.next().await;

    fleet.apply(web.clone()).await;
    report_ready(fleet, &web, &[(0, 1), (1, 1), (2, 1)]).await;
    requests.compare(&NEW_DEPLOYMENT).await?;

    fleet.edit(&web, json!({ "spec": { "replicas": 6 } })).await;
    report_ready(fleet, &web, &[(0, 2), (1, 2), (2, 2)]).await;
    requests.compare(&SCALING).await?;

    fleet.apply(placement(["m2", "m3", "m4"])).await;
    report_ready(fleet, &web, &[(1, 2), (2, 2), (3, 2)]).await;
    fleet.members[0].wait_until_gone(&web).await;
    requests.compare(&MOVE).await?;

    fleet.join(joining).await;
    requests.compare(&JOINING_CLUSTER).await
}

/// On a machine without free processor time, the reports of members arrive apart and cause more writes, so one of three
/// attempts must stay within the budgets. A change that sends more requests exceeds them in each attempt.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn common_changes_stay_within_their_budgets() {
    const ATTEMPTS: usize = 3;
    let mut fleet = Fleet::without_clusters(4 + ATTEMPTS).await;
    for member in 0..4 {
        fleet.join(member).await;
    }
    let proxy = Proxy::start(fleet.client.clone());
    fleet.start_controllers_with(proxy.client());
    let mut requests = Counter { proxy, seen: 0 };
    // The first object in a member costs a connection and a namespace.
    let first = config_map("first");
    let members = ["m1", "m2", "m3", "m4"];
    fleet.apply(policy(&first, &members)).await;
    fleet.apply(first).await;
    fleet
        .wait_for_fully_applied("first-configmap", "True")
        .await;
    requests.next().await;

    let mut excesses = Vec::new();
    for number in 0..ATTEMPTS {
        let name = format!("web{number}");
        match attempt(&fleet, &mut requests, &name, 4 + number).await {
            Ok(()) => return fleet.stop().await,
            Err(excess) => excesses.push(excess),
        }
    }
    panic!("{}", excesses.join("\n"));
}
