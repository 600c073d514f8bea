//! Exact requests of pods, without defaults from limits, for cluster status and simulated nodes.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;

use crate::quantity::Quantity;

/// Quantities by resource name.
pub type Amounts = BTreeMap<String, Quantity>;

/// Returns the requests of a pod. For each resource, the request is the larger of two amounts: the sum over the
/// containers, and the maximum over the init containers. The overhead of the pod is added.
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
            let maximum = total.entry(resource).or_default();
            *maximum = (*maximum).max(amount);
        }
    }
    add(&mut total, &amounts(pod.overhead.as_ref()));
    total
}

/// Returns the resources that a pod occupies on a node: its requests, and 1 of the resource `pods`.
pub fn node_usage(pod: &Pod) -> Amounts {
    let mut taken = pod.spec.as_ref().map(of).unwrap_or_default();
    taken.insert("pods".to_owned(), Quantity::from_integer(1));
    taken
}

/// Parses the quantities of a resource list. Skips malformed quantities, because API servers reject them.
pub fn amounts(list: Option<&BTreeMap<String, ApiQuantity>>) -> Amounts {
    list.into_iter()
        .flatten()
        .filter_map(|(resource, text)| Some((resource.clone(), Quantity::parse(&text.0).ok()?)))
        .collect()
}

/// Adds quantities to a total.
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
    fn requests_are_the_maximum_of_containers_and_init_containers() {
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
        let asked: Vec<String> = node_usage(&pod)
            .iter()
            .map(|(resource, amount)| format!("{resource}={amount}"))
            .collect();
        assert_eq!(asked, ["cpu=1750m", "memory=3Gi", "pods=1"]);
    }
}
