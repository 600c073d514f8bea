//! The requests and limits of pods and containers as quantities.

use std::collections::BTreeMap;

use berth_apimachinery::quantity::Quantity;
use serde_json::Value;

/// Quantities by resource name.
pub(crate) type Quantities = BTreeMap<String, Quantity>;

/// Parses a map of quantities. Malformed quantities are ignored.
pub(crate) fn quantities(value: &Value) -> Quantities {
    let map = value.as_object().into_iter().flatten();
    map.filter_map(|(name, text)| Some((name.clone(), Quantity::parse(text.as_str()?).ok()?)))
        .collect()
}

/// The requests and limits of a pod or container.
pub(crate) struct PodResources {
    pub(crate) requests: Quantities,
    pub(crate) limits: Quantities,
}

impl PodResources {
    /// Reads the `resources` of a container.
    pub(crate) fn of(resources: &Value) -> Self {
        Self {
            requests: quantities(&resources["requests"]),
            limits: quantities(&resources["limits"]),
        }
    }

    /// Returns the sum of the resources of a pod's containers. Pod-level resources override this sum.
    pub(crate) fn of_pod(pod: &Value) -> Self {
        let mut sum = Self::of_containers(pod);
        let pod_level = Self::of(&pod["spec"]["resources"]);
        sum.requests.extend(pod_level.requests);
        sum.limits.extend(pod_level.limits);
        sum
    }

    /// Returns for each resource the sum over the containers, or the amount of an init container if this amount is
    /// larger.
    pub(crate) fn of_containers(pod: &Value) -> Self {
        let sum = |part: &str| {
            let mut total = Quantities::new();
            let of = |list: &str| pod["spec"][list].as_array().into_iter().flatten();
            for container in of("containers") {
                for (name, amount) in quantities(&container["resources"][part]) {
                    let known = total.get(&name).copied().unwrap_or(Quantity::ZERO);
                    total.insert(name, known + amount);
                }
            }
            for container in of("initContainers") {
                for (name, amount) in quantities(&container["resources"][part]) {
                    let known = total.get(&name).copied().unwrap_or(Quantity::ZERO);
                    total.insert(name, known.max(amount));
                }
            }
            total
        };
        Self {
            requests: sum("requests"),
            limits: sum("limits"),
        }
    }
}
