//! Requests of a pod as Karmada's interpreter computes them: a missing request is the limit, and amounts are integers.
//!
//! The request for a resource is the sum over the containers or the maximum over the init containers, whichever is
//! greater, plus the overhead. As in Karmada, sidecar init containers have no special rule.

use std::collections::BTreeMap;

use berth_api::label_selector::validate_label_key;
use berth_api::quantity::{Format, Quantity};
use k8s_openapi::api::core::v1::{Container, PodSpec};
use serde_json::{Map, Value};

use crate::InterpretError;

type Quantities = BTreeMap<String, k8s_openapi::apimachinery::pkg::api::resource::Quantity>;

/// The unit in which the amounts of a resource are computed and printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    /// Thousandths of a CPU.
    Milli,
    /// Bytes, printed in binary notation such as `1Gi`. Amounts below 1024 are printed in decimal notation.
    Bytes,
    /// Whole numbers, for example of pods or devices.
    Count,
}

impl Unit {
    /// Returns the unit of a resource. Returns `None` for an unknown resource, which the requests of a pod omit.
    fn of(resource: &str) -> Option<Self> {
        match resource {
            "cpu" => Some(Self::Milli),
            "memory" | "ephemeral-storage" => Some(Self::Bytes),
            "pods" => Some(Self::Count),
            _ if resource.starts_with("hugepages-") => Some(Self::Bytes),
            _ if is_scalar(resource) => Some(Self::Count),
            _ => None,
        }
    }
}

/// Reports whether a resource is an extended resource, an attachable volume, or a resource in the namespace
/// `kubernetes.io`.
fn is_scalar(resource: &str) -> bool {
    if resource.starts_with("attachable-volumes-") || resource.contains("kubernetes.io/") {
        return true;
    }
    resource.contains('/')
        && !resource.starts_with("requests.")
        && validate_label_key(&format!("requests.{resource}")).is_ok()
}

/// Amounts by resource name. Each amount has the [`Unit`] of its resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PodRequests(BTreeMap<String, i64>);

impl PodRequests {
    /// Returns the requests of a pod.
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

    /// Returns the requests as a resource list, without zero amounts.
    pub(super) fn into_json(self) -> Map<String, Value> {
        self.0
            .into_iter()
            .filter(|(_, amount)| *amount > 0)
            .filter_map(|(resource, amount)| {
                let text = match Unit::of(&resource)? {
                    Unit::Milli => Quantity::from_milli(amount).to_string(),
                    Unit::Count => Quantity::from_integer(amount).to_string(),
                    Unit::Bytes => bytes(amount).to_string(),
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
        Unit::Bytes | Unit::Count => quantity.value(),
    }))
}

/// Returns a number of bytes as a quantity in binary notation.
fn bytes(amount: i64) -> Quantity {
    Quantity::from_integer(amount).in_format(Format::BinarySi)
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
    fn the_request_is_the_container_sum_or_the_greatest_init_container() {
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
    fn a_missing_request_defaults_to_the_limit_and_overhead_is_added() {
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
    fn unknown_resources_and_zero_amounts_are_omitted() {
        assert_eq!(
            requests(json!({"containers": [container(
                json!({"hugepages-2Mi": "4Mi", "example.com/x": "3", "gadgets": "1", "pods": "2",
                       "ephemeral-storage": "1000", "cpu": "0"}),
                json!({}))]})),
            json!({"hugepages-2Mi": "4Mi", "example.com/x": "3", "pods": "2", "ephemeral-storage": "1k"})
        );
    }

    #[test]
    fn bytes_have_a_binary_suffix_from_1024_on() {
        for (bytes, text) in [
            (1, "1"),
            (1000, "1k"),
            (1024, "1Ki"),
            (1_000_000, "1000000"),
            (512_000_000, "500000Ki"),
            (1 << 30, "1Gi"),
        ] {
            assert_eq!(super::bytes(bytes).to_string(), text);
        }
    }
}
