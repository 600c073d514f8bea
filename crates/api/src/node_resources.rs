//! The resources of nodes that schedulers count, and the units of their amounts.
//!
//! Amounts of cpu are in thousandths. Amounts of other resources are in whole units, rounded up. Schedulers count
//! native resources of nodes (such as `memory`) and scalar resources (such as `nvidia.com/gpu`). They ignore other
//! resources, such as `storage`.

use crate::label_selector::validate_label_key;
use crate::quantity::Quantity;

/// The prefix of the resource that stands for the devices of a DeviceClass.
const DEVICE_CLASS_PREFIX: &str = "deviceclass.resource.kubernetes.io/";

/// Returns a quantity in the unit of its resource: in thousandths for cpu, or in whole units for other resources.
pub fn in_units(resource: &str, quantity: Quantity) -> i64 {
    if resource == "cpu" {
        quantity.milli_value()
    } else {
        quantity.value()
    }
}

/// Reports whether schedulers count a resource: a native resource of nodes, or a scalar resource.
pub fn is_counted(resource: &str) -> bool {
    matches!(resource, "cpu" | "memory" | "ephemeral-storage" | "pods") || is_scalar(resource)
}

/// Reports whether a resource is an extended resource, such as `nvidia.com/gpu`. Device plugins and administrators
/// define extended resources.
pub fn is_extended(resource: &str) -> bool {
    resource.contains('/')
        && !resource.contains("kubernetes.io/")
        && !resource.starts_with("requests.")
        && validate_label_key(&format!("requests.{resource}")).is_ok()
}

/// Returns the DeviceClass in the name of a resource that stands for the devices of this class.
pub fn device_class(resource: &str) -> Option<&str> {
    resource.strip_prefix(DEVICE_CLASS_PREFIX)
}

fn is_scalar(resource: &str) -> bool {
    resource.contains("kubernetes.io/")
        || resource.starts_with("hugepages-")
        || resource.starts_with("attachable-volumes-")
        || is_extended(resource)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_native_and_scalar_resources_are_counted() {
        for (resource, expected) in [
            ("cpu", true),
            ("memory", true),
            ("ephemeral-storage", true),
            ("nvidia.com/gpu", true),
            ("hugepages-2Mi", true),
            ("attachable-volumes-aws-ebs", true),
            ("node.kubernetes.io/thing", true),
            ("storage", false),
            ("requests.nvidia.com/gpu", false),
            ("Bad_Prefix/gpu", false),
        ] {
            assert_eq!(is_counted(resource), expected, "{resource}");
        }
    }

    #[test]
    fn native_resources_are_not_extended() {
        for (resource, expected) in [
            ("nvidia.com/gpu", true),
            ("cpu", false),
            ("hugepages-2Mi", false),
            ("node.kubernetes.io/thing", false),
            ("requests.nvidia.com/gpu", false),
        ] {
            assert_eq!(is_extended(resource), expected, "{resource}");
        }
    }
}
