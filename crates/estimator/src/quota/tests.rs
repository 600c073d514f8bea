use berth_api::quantity::Quantity;
use serde_json::{Value, json};

use super::*;

fn quota(namespace: &str, name: &str, spec: Value, hard: Value, used: Value) -> ResourceQuota {
    serde_json::from_value(json!({
        "metadata": {"namespace": namespace, "name": name},
        "spec": spec,
        "status": {"hard": hard, "used": used},
    }))
    .unwrap()
}

fn template(requests: &[(&str, &str)], priority_class: &str) -> PodTemplate {
    let amount = |(resource, text): &(&str, &str)| {
        let quantity = Quantity::parse(text).unwrap();
        ((*resource).to_owned(), in_units(resource, quantity))
    };
    PodTemplate {
        requests: requests.iter().map(amount).collect(),
        priority_class: priority_class.to_owned(),
        ..PodTemplate::default()
    }
}

fn component(requests: &[(&str, &str)], priority_class: &str, replicas: i64) -> Component {
    Component {
        template: Some(template(requests, priority_class)),
        replicas,
    }
}

fn assumed(namespace: &str, cpu: &str) -> AssumedWorkload {
    AssumedWorkload {
        namespace: namespace.to_owned(),
        components: vec![component(&[("cpu", cpu)], "", 2)],
    }
}

/// Returns the replicas of a template with 1 cpu and 1Gi that a quota allows.
fn replicas(spec: Value, hard: Value, used: Value, priority_class: &str) -> Option<i32> {
    let mut quotas = Quotas::default();
    quotas.apply(&quota("shop", "q", spec, hard, used));
    let template = template(
        &[("cpu", "1"), ("memory", "1Gi"), ("nvidia.com/gpu", "1")],
        priority_class,
    );
    quotas.max_replicas("shop", &template, &[])
}

#[test]
fn the_scarcest_limited_resource_counts() {
    for (hard, used, expected) in [
        (json!({"cpu": "10"}), json!({"cpu": "2500m"}), Some(7)),
        (
            json!({"requests.cpu": "10"}),
            json!({"requests.cpu": "4"}),
            Some(6),
        ),
        (
            json!({"cpu": "10", "memory": "3Gi"}),
            json!({"cpu": "0", "memory": "0"}),
            Some(3),
        ),
        (
            json!({"cpu": "10", "requests.cpu": "5"}),
            json!({"cpu": "0", "requests.cpu": "0"}),
            Some(5),
        ),
        (
            json!({"requests.nvidia.com/gpu": "4"}),
            json!({"requests.nvidia.com/gpu": "1"}),
            Some(3),
        ),
        (
            json!({"limits.cpu": "1", "pods": "1", "requests.storage": "1"}),
            json!({"limits.cpu": "0", "pods": "0"}),
            None,
        ),
        // An amount without a used amount is not known yet.
        (json!({"cpu": "10"}), json!({}), None),
        (json!({"cpu": "1"}), json!({"cpu": "3"}), Some(0)),
        (json!({"cpu": "99999999999"}), json!({"cpu": "0"}), None),
    ] {
        assert_eq!(
            replicas(json!({}), hard.clone(), used, ""),
            expected,
            "{hard}"
        );
    }
}

#[test]
fn a_quota_with_scopes_applies_if_one_scope_matches() {
    let expression = |operator: &str, values: Value| {
        json!({"scopeSelector": {"matchExpressions": [
            {"scopeName": "PriorityClass", "operator": operator, "values": values}]}})
    };
    for (spec, class, applies) in [
        (json!({"scopes": ["PriorityClass"]}), "high", true),
        (json!({"scopes": ["PriorityClass"]}), "", false),
        (json!({"scopes": ["NotTerminating"]}), "high", false),
        (
            json!({"scopes": ["NotBestEffort", "PriorityClass"]}),
            "high",
            true,
        ),
        (expression("In", json!(["high", "low"])), "high", true),
        (expression("In", json!(["low"])), "high", false),
        (expression("In", json!([])), "high", false),
        (expression("NotIn", json!(["low"])), "high", true),
        (expression("NotIn", json!(["low"])), "", true),
        (expression("Exists", json!([])), "high", true),
        (expression("DoesNotExist", json!([])), "high", false),
        (expression("DoesNotExist", json!([])), "", true),
        (expression("Gt", json!(["1"])), "2", false),
    ] {
        let expected = applies.then_some(4);
        let found = replicas(
            spec.clone(),
            json!({"cpu": "4"}),
            json!({"cpu": "0"}),
            class,
        );
        assert_eq!(found, expected, "{spec} {class}");
    }
}

#[test]
fn the_empty_namespace_stands_for_all_namespaces_except_for_sets() {
    let mut quotas = Quotas::default();
    quotas.apply(&quota(
        "a",
        "q",
        json!({}),
        json!({"cpu": "5"}),
        json!({"cpu": "0"}),
    ));
    quotas.apply(&quota(
        "b",
        "q",
        json!({}),
        json!({"cpu": "3"}),
        json!({"cpu": "0"}),
    ));
    let template = template(&[("cpu", "1")], "");
    for (namespace, expected) in [("a", Some(5)), ("b", Some(3)), ("", Some(3)), ("c", None)] {
        assert_eq!(
            quotas.max_replicas(namespace, &template, &[]),
            expected,
            "{namespace}"
        );
    }
    assert_eq!(
        quotas.max_sets("", &[component(&[("cpu", "1")], "", 1)], &[]),
        None
    );
    quotas.retain(|namespace, _| namespace == "a");
    assert_eq!(quotas.max_replicas("", &template, &[]), Some(5));
    quotas.remove(&quota("a", "q", json!({}), json!({}), json!({})).metadata);
    assert_eq!(quotas.max_replicas("", &template, &[]), None);
}

#[test]
fn assumed_workloads_of_the_namespace_reduce_the_free_amounts() {
    let mut quotas = Quotas::default();
    let hard = json!({"cpu": "10", "memory": "10Gi"});
    quotas.apply(&quota(
        "shop",
        "q",
        json!({}),
        hard,
        json!({"cpu": "0", "memory": "0"}),
    ));
    let memory = template(&[("memory", "1Gi")], "");
    let cpu = template(&[("cpu", "1")], "");
    for (workload, of_cpu, of_memory) in [
        (assumed("shop", "3"), 4, 10),
        (assumed("shop", "5"), 0, 10),
        (assumed("other", "3"), 10, 10),
        // An exceeded quota allows no pod.
        (assumed("shop", "6"), 0, 0),
    ] {
        let workloads = [workload];
        assert_eq!(quotas.max_replicas("shop", &cpu, &workloads), Some(of_cpu));
        assert_eq!(
            quotas.max_replicas("shop", &memory, &workloads),
            Some(of_memory)
        );
    }
}

#[test]
fn a_quota_counts_the_components_that_its_scopes_match() {
    let mut quotas = Quotas::default();
    let spec = json!({"scopes": ["PriorityClass"]});
    quotas.apply(&quota(
        "shop",
        "q",
        spec,
        json!({"cpu": "12"}),
        json!({"cpu": "0"}),
    ));
    let sets = |components: &[Component]| quotas.max_sets("shop", components, &[]);
    let (high, none) = (
        component(&[("cpu", "1")], "high", 3),
        component(&[("cpu", "1")], "", 5),
    );
    assert_eq!(sets(&[high.clone(), none.clone()]), Some(4));
    assert_eq!(sets(&[none]), None);
    assert_eq!(sets(&[high.clone(), high]), Some(2));
}
