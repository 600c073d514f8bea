//! The resources that a pod asks for.
//!
//! Per resource the greater of the sum over containers and the most of any init container, and the
//! overhead on top. A missing request counts as the limit. Init containers that keep running have no
//! special rule here, as in Karmada.

use std::collections::BTreeMap;

use berth_api::quantity::Quantity;
use berth_api::selector::validate_label_key;
use k8s_openapi::api::core::v1::{Container, PodSpec};
use serde_json::{Map, Value};

use super::InterpretError;

type Quantities = BTreeMap<String, k8s_openapi::apimachinery::pkg::api::resource::Quantity>;

/// How a resource is counted and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    /// Thousandths.
    Milli,
    /// Bytes, written with binary suffixes.
    Bytes,
    /// Pieces.
    Pieces,
}

impl Unit {
    /// Resources without a unit do not count.
    fn of(resource: &str) -> Option<Self> {
        match resource {
            "cpu" => Some(Self::Milli),
            "memory" | "ephemeral-storage" => Some(Self::Bytes),
            "pods" => Some(Self::Pieces),
            _ if resource.starts_with("hugepages-") => Some(Self::Bytes),
            _ if is_scalar(resource) => Some(Self::Pieces),
            _ => None,
        }
    }
}

/// Extended resources, attachable volumes and what else `kubernetes.io` owns.
fn is_scalar(resource: &str) -> bool {
    if resource.starts_with("attachable-volumes-") || resource.contains("kubernetes.io/") {
        return true;
    }
    resource.contains('/')
        && !resource.starts_with("requests.")
        && validate_label_key(&format!("requests.{resource}")).is_ok()
}

/// Amounts by resource, each in its unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PodRequests(BTreeMap<String, i64>);

impl PodRequests {
    /// What the pod asks for.
    pub(super) fn of(pod: &PodSpec) -> Result<Self, InterpretError> {
        let mut total = Self::default();
        for container in &pod.containers {
            for (resource, amount) in of_container(container)? {
                let sum = total.0.entry(resource).or_default();
                *sum = sum.saturating_add(amount);
            }
        }
        for container in pod.init_containers.iter().flatten() {
            for (resource, amount) in of_container(container)? {
                let most = total.0.entry(resource).or_default();
                *most = (*most).max(amount);
            }
        }
        for (resource, quantity) in pod.overhead.iter().flatten() {
            if let Some(amount) = amount("overhead", resource, &quantity.0)? {
                let sum = total.0.entry(resource.clone()).or_default();
                *sum = sum.saturating_add(amount);
            }
        }
        Ok(total)
    }

    /// As a resource list; amounts of zero are left out.
    pub(super) fn into_json(self) -> Map<String, Value> {
        self.0
            .into_iter()
            .filter(|(_, amount)| *amount > 0)
            .filter_map(|(resource, amount)| {
                let text = match Unit::of(&resource)? {
                    Unit::Milli => Quantity::from_milli(amount).to_string(),
                    Unit::Pieces => Quantity::from_integer(amount).to_string(),
                    Unit::Bytes => bytes_text(amount),
                };
                Some((resource, Value::String(text)))
            })
            .collect()
    }
}

fn of_container(container: &Container) -> Result<BTreeMap<String, i64>, InterpretError> {
    let none = Quantities::new();
    let resources = container.resources.as_ref();
    let requests = resources.and_then(|r| r.requests.as_ref()).unwrap_or(&none);
    let limits = resources.and_then(|r| r.limits.as_ref()).unwrap_or(&none);
    let mut amounts = BTreeMap::new();
    for (resource, quantity) in limits.iter().chain(requests) {
        if let Some(amount) = amount(&container.name, resource, &quantity.0)? {
            amounts.insert(resource.clone(), amount);
        }
    }
    Ok(amounts)
}

fn amount(container: &str, resource: &str, text: &str) -> Result<Option<i64>, InterpretError> {
    let Some(unit) = Unit::of(resource) else {
        return Ok(None);
    };
    let quantity = Quantity::parse(text).map_err(|_| InterpretError::Quantity {
        container: container.to_owned(),
        resource: resource.to_owned(),
        text: text.to_owned(),
    })?;
    Ok(Some(match unit {
        Unit::Milli => quantity.milli_value(),
        Unit::Bytes | Unit::Pieces => quantity.value(),
    }))
}

/// A whole number in binary notation: the largest suffix that divides it. Below 1024 the notation is
/// decimal, as everywhere in Kubernetes.
fn bytes_text(amount: i64) -> String {
    const SUFFIXES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    if amount < 1024 {
        return Quantity::from_integer(amount).to_string();
    }
    let mut number = amount;
    let mut suffix = 0;
    while number % 1024 == 0 && suffix + 1 < SUFFIXES.len() {
        number /= 1024;
        suffix += 1;
    }
    format!("{number}{}", SUFFIXES[suffix])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn requests(pod: Value) -> Value {
        let pod: PodSpec = serde_json::from_value(pod).unwrap();
        Value::Object(PodRequests::of(&pod).unwrap().into_json())
    }

    #[expect(
        clippy::needless_pass_by_value,
        reason = "json! literals are handed over"
    )]
    fn container(requests: Value, limits: Value) -> Value {
        json!({"name": "c", "resources": {"requests": requests, "limits": limits}})
    }

    #[test]
    fn containers_add_up_and_init_containers_count_at_their_most() {
        assert_eq!(
            requests(json!({
                "containers": [
                    container(json!({"cpu": "250m", "memory": "512M"}), json!({})),
                    container(json!({"cpu": "100m", "memory": "512M"}), json!({}))],
                "initContainers": [
                    container(json!({"cpu": "2", "memory": "32Mi"}), json!({})),
                    container(json!({"cpu": "1"}), json!({}))],
            })),
            json!({"cpu": "2", "memory": "1000000Ki"})
        );
    }

    #[test]
    fn a_missing_request_is_the_limit_and_overhead_comes_on_top() {
        assert_eq!(
            requests(json!({
                "containers": [container(
                    json!({"cpu": "100m"}),
                    json!({"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "2"}))],
                "overhead": {"cpu": "50m"},
            })),
            json!({"cpu": "150m", "memory": "1Gi", "nvidia.com/gpu": "2"})
        );
    }

    #[test]
    fn what_is_no_resource_of_a_node_does_not_count() {
        assert_eq!(
            requests(json!({"containers": [container(
                json!({"hugepages-2Mi": "4Mi", "example.com/x": "3", "gadgets": "1", "pods": "2",
                       "ephemeral-storage": "1000", "cpu": "0"}),
                json!({}))]})),
            json!({"hugepages-2Mi": "4Mi", "example.com/x": "3", "pods": "2", "ephemeral-storage": "1k"})
        );
    }

    #[test]
    fn bytes_have_the_largest_binary_suffix_that_divides_them() {
        for (bytes, text) in [
            (1, "1"),
            (1000, "1k"),
            (1024, "1Ki"),
            (1_000_000, "1000000"),
            (512_000_000, "500000Ki"),
            (1 << 30, "1Gi"),
        ] {
            assert_eq!(bytes_text(bytes), text);
        }
    }
}
