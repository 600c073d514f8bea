//! Tests of the status of a template, which Berth aggregates from the statuses in the members. This module tests
//! StatefulSets, DaemonSets, PodDisruptionBudgets and Ingresses. [`crate::status_reporting`] tests Deployments,
//! Services and Jobs.

use berth_e2e::Objects as _;
use serde_json::{Value, json};

use crate::fleet::{Fleet, Member};
use crate::manifests::{policy, with_spec};

/// Sets the status of a member's object, with the object's current generation as `observedGeneration`.
async fn report_current(member: &Member, object: &Value, status: &Value) {
    let generation = member.wait_until_exists(object).await["metadata"]["generation"].clone();
    let mut status = status.clone();
    status["observedGeneration"] = generation;
    member.report_status(object, status).await;
}

/// Repeatedly sets the status `each` in every member, until the status of the template has the fields of `sum`.
async fn wait_for_sum(
    fleet: &Fleet,
    members: &[&Member],
    object: &Value,
    each: &Value,
    sum: &Value,
) {
    let name = object["metadata"]["name"].as_str().unwrap();
    berth_e2e::eventually(&format!("the sum of {name}"), async || {
        for member in members {
            report_current(member, object, each).await;
        }
        let template = fleet.wait_for(object, "existence", |_| true).await;
        let wrong = sum
            .as_object()
            .unwrap()
            .iter()
            .find(|(field, value)| template["status"][field.as_str()] != **value);
        match wrong {
            None => Ok(()),
            Some((field, _)) => Err(format!("{field}: {}", template["status"])),
        }
    })
    .await;
}

fn pod_template(name: &str) -> Value {
    json!({ "metadata": { "labels": { "app": name } },
        "spec": { "containers": [{ "name": "main", "image": "nginx:1" }] } })
}

/// The sum follows a change of the replicas.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stateful_set_statuses_are_summed_after_creation_and_edits() {
    let fleet = Fleet::start(2).await;
    let members: Vec<&Member> = fleet.members.iter().collect();
    let set = json!({ "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": { "name": "db" },
        "spec": { "replicas": 2, "serviceName": "db", "selector": { "matchLabels": { "app": "db" } },
            "template": pod_template("db") } });
    fleet.apply(set.clone()).await;
    fleet.apply(policy(&set, &["m1", "m2"])).await;
    for replicas in [2, 3] {
        fleet
            .apply(with_spec(set.clone(), json!({ "replicas": replicas })))
            .await;
        for member in &members {
            member
                .wait_for(&set, "all replicas", |set| {
                    set["spec"]["replicas"] == replicas
                })
                .await;
        }
        let counts = |n: i64| {
            json!({ "replicas": n, "readyReplicas": n, "currentReplicas": n,
            "updatedReplicas": n, "availableReplicas": n })
        };
        wait_for_sum(
            &fleet,
            &members,
            &set,
            &counts(replicas),
            &counts(2 * replicas),
        )
        .await;
    }
    fleet.stop().await;
}

/// Both policies stop selecting the member m2. The status of each template then contains the numbers of m1 only.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn daemon_set_and_budget_statuses_are_summed_over_the_remaining_members() {
    let fleet = Fleet::start(2).await;
    let members: Vec<&Member> = fleet.members.iter().collect();
    let set = json!({ "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": { "name": "agent" },
        "spec": { "selector": { "matchLabels": { "app": "agent" } }, "template": pod_template("agent") } });
    let budget = json!({ "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": { "name": "agent" },
        "spec": { "maxUnavailable": "50%", "selector": { "matchLabels": { "app": "agent" } } } });
    for object in [&set, &budget] {
        fleet.apply(object.clone()).await;
        fleet
            .apply(named_after_kind(policy(object, &["m1", "m2"]), object))
            .await;
    }
    let counts = |n: i64| {
        json!({ "currentNumberScheduled": n, "desiredNumberScheduled": n, "numberReady": n,
            "numberAvailable": n, "updatedNumberScheduled": n, "numberMisscheduled": 0 })
    };
    let allowed = |n: i64| json!({ "disruptionsAllowed": n, "currentHealthy": 2 * n, "desiredHealthy": n, "expectedPods": 2 * n });
    wait_for_sum(&fleet, &members, &set, &counts(1), &counts(2)).await;
    wait_for_sum(&fleet, &members, &budget, &allowed(1), &allowed(2)).await;
    for object in [&set, &budget] {
        fleet
            .apply(named_after_kind(policy(object, &["m1"]), object))
            .await;
        members[1].wait_until_gone(object).await;
    }
    wait_for_sum(&fleet, &members[..1], &set, &counts(1), &counts(1)).await;
    wait_for_sum(&fleet, &members[..1], &budget, &allowed(1), &allowed(1)).await;
    fleet.stop().await;
}

/// Sets the name of a policy to the kind of its object. Objects of different kinds share a name in these tests, so
/// their policies need different names.
fn named_after_kind(mut policy: Value, object: &Value) -> Value {
    let kind = object["kind"].as_str().unwrap().to_lowercase();
    policy["metadata"]["name"] = json!(kind);
    policy
}

/// The addresses of both members are in the status of the Ingress. The Service has the node port of its template in
/// both members.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ingress_addresses_are_merged_and_node_ports_are_equal_in_all_members() {
    let fleet = Fleet::start(2).await;
    let ingress = json!({ "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": { "name": "door" },
        "spec": { "defaultBackend": { "service": { "name": "web", "port": { "number": 80 } } } } });
    let service = json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "web" },
        "spec": { "type": "NodePort", "selector": { "app": "web" }, "ports": [{ "port": 80, "nodePort": 30080 }] } });
    for object in [&ingress, &service] {
        fleet.apply(object.clone()).await;
        fleet
            .apply(named_after_kind(policy(object, &["m1", "m2"]), object))
            .await;
    }
    for (index, member) in fleet.members.iter().enumerate() {
        member.wait_until_exists(&ingress).await;
        let ip = format!("10.0.0.{}", 2 - index);
        member
            .report_status(
                &ingress,
                json!({ "loadBalancer": { "ingress": [{ "ip": ip }] } }),
            )
            .await;
        let service = member.wait_until_exists(&service).await;
        assert_eq!(
            service["spec"]["ports"][0]["nodePort"], 30080,
            "{}",
            member.name
        );
    }
    fleet
        .wait_for(&ingress, "both addresses, sorted", |ingress| {
            ingress["status"]["loadBalancer"]["ingress"]
                == json!([{ "ip": "10.0.0.1" }, { "ip": "10.0.0.2" }])
        })
        .await;
    fleet.wait_for_fully_applied("web-service", "True").await;
    fleet.stop().await;
}
