//! Requests of a pod, as kube-scheduler counts them.

use berth_api::node_resources::{in_units, is_counted};
use berth_api::pod_requests::{Amounts, add, amounts};
use k8s_openapi::api::core::v1::{Container, PodSpec};

/// Returns the requests of a pod for the resources that schedulers count, in the units of these resources.
///
/// The request for a resource is the larger of two amounts: the sum over the containers and sidecars, and the maximum
/// over the init containers, each with the sidecars that start before it. Requests of the whole pod replace this
/// amount, and the overhead is added.
pub(crate) fn of(pod: &PodSpec) -> Vec<(String, i64)> {
    let requests = |container: &Container| {
        let resources = container.resources.as_ref();
        amounts(resources.and_then(|resources| resources.requests.as_ref()))
    };
    let mut total = Amounts::new();
    for container in &pod.containers {
        add(&mut total, &requests(container));
    }
    let (mut sidecars, mut init) = (Amounts::new(), Amounts::new());
    for container in pod.init_containers.iter().flatten() {
        let mut running = requests(container);
        if container.restart_policy.as_deref() == Some("Always") {
            add(&mut total, &running);
            add(&mut sidecars, &running);
            running = sidecars.clone();
        } else {
            add(&mut running, &sidecars);
        }
        raise(&mut init, running);
    }
    raise(&mut total, init);
    let whole_pod = pod.resources.as_ref();
    let whole_pod = amounts(whole_pod.and_then(|resources| resources.requests.as_ref()));
    total.extend(whole_pod.into_iter().filter(|(resource, _)| {
        matches!(resource.as_str(), "cpu" | "memory") || resource.starts_with("hugepages-")
    }));
    add(&mut total, &amounts(pod.overhead.as_ref()));
    let counted = total
        .into_iter()
        .filter(|(resource, _)| resource != "pods" && is_counted(resource));
    counted
        .map(|(resource, quantity)| {
            let amount = in_units(&resource, quantity);
            (resource, amount)
        })
        .collect()
}

/// Raises each amount to another amount if that is larger.
fn raise(total: &mut Amounts, other: Amounts) {
    for (resource, amount) in other {
        let maximum = total.entry(resource).or_default();
        *maximum = (*maximum).max(amount);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn requests(spec: Value) -> Vec<(String, i64)> {
        of(&serde_json::from_value(spec).unwrap())
    }

    fn container(cpu: &str) -> Value {
        json!({"name": "c", "resources": {"requests": {"cpu": cpu}}})
    }

    fn sidecar(cpu: &str) -> Value {
        json!({"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": cpu}}})
    }

    #[test]
    fn requests_are_counted_as_in_kube_scheduler() {
        for (spec, cpu) in [
            (
                json!({"containers": [container("1"), container("500m")]}),
                1500,
            ),
            (
                json!({"containers": [container("1")], "initContainers": [container("3"), container("2")]}),
                3000,
            ),
            (
                json!({"containers": [container("1")], "initContainers": [sidecar("1"), container("3")]}),
                4000,
            ),
            (
                json!({"containers": [container("1")], "initContainers": [container("3"), sidecar("1")]}),
                3000,
            ),
            (
                json!({"containers": [container("1")], "initContainers": [sidecar("1"), sidecar("2")]}),
                4000,
            ),
            (
                json!({"containers": [container("1")], "overhead": {"cpu": "250m"}}),
                1250,
            ),
            (
                json!({"containers": [container("1")], "resources": {"requests": {"cpu": "2"}}, "overhead": {"cpu": "1"}}),
                3000,
            ),
        ] {
            assert_eq!(requests(spec.clone()), [("cpu".to_owned(), cpu)], "{spec}");
        }
    }

    #[test]
    fn only_counted_resources_remain() {
        let resources =
            json!({"memory": "1Gi", "storage": "1", "pods": "3", "nvidia.com/gpu": "2"});
        let spec = json!({"containers": [{"name": "c", "resources": {"requests": resources}}]});
        let expected = [
            ("memory".to_owned(), 1 << 30),
            ("nvidia.com/gpu".to_owned(), 2),
        ];
        assert_eq!(requests(spec), expected);
    }
}
