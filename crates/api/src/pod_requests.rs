//! What a pod asks for, as exact amounts.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;

use crate::quantity::Quantity;

/// Amounts by resource.
pub type Amounts = BTreeMap<String, Quantity>;

/// For each resource the sum over the containers or the most of an init container, whichever is more, and the
/// overhead on top.
pub fn of(pod: &PodSpec) -> Amounts {
    let of = |container: &Container| {
        let resources = container.resources.as_ref();
        amounts(resources.and_then(|r| r.requests.as_ref()))
    };
    let mut total = Amounts::new();
    for container in &pod.containers {
        add(&mut total, &of(container));
    }
    for container in pod.init_containers.iter().flatten() {
        for (resource, amount) in of(container) {
            let most = total.entry(resource).or_default();
            *most = (*most).max(amount);
        }
    }
    add(&mut total, &amounts(pod.overhead.as_ref()));
    total
}

/// What a pod takes of a node: what it asks for, and a place among the `pods`.
pub fn of_pod(pod: &Pod) -> Amounts {
    let mut taken = pod.spec.as_ref().map(of).unwrap_or_default();
    taken.insert("pods".to_owned(), Quantity::from_integer(1));
    taken
}

/// A list as exact amounts. What is no quantity counts as nothing: a server does not let it in.
pub fn amounts(list: Option<&BTreeMap<String, ApiQuantity>>) -> Amounts {
    list.into_iter()
        .flatten()
        .filter_map(|(resource, text)| Some((resource.clone(), Quantity::parse(&text.0).ok()?)))
        .collect()
}

/// Adds each of the amounts.
pub fn add(total: &mut Amounts, more: &Amounts) {
    for (resource, amount) in more {
        let sum = total.entry(resource.clone()).or_default();
        *sum = *sum + *amount;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_asks_for_its_containers_or_for_its_greatest_init_container() {
        let pod: Pod = serde_json::from_value(json!({
            "spec": {
                "containers": [
                    {"name": "a", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}},
                    {"name": "b", "resources": {"requests": {"cpu": "1", "odd": "much"}}},
                    {"name": "c"},
                ],
                "initContainers": [
                    {"name": "i", "resources": {"requests": {"cpu": "1", "memory": "3Gi"}}},
                    {"name": "j", "resources": {"requests": {"memory": "2Gi"}}},
                ],
                "overhead": {"cpu": "250m"},
            },
        }))
        .unwrap();
        let asked: Vec<String> = of_pod(&pod)
            .iter()
            .map(|(resource, amount)| format!("{resource}={amount}"))
            .collect();
        assert_eq!(asked, ["cpu=1750m", "memory=3Gi", "pods=1"]);
    }
}
