//! Priority classes, and the priority from which on pods keep their resources.
//!
//! Pods of a lower priority can be displaced, so that their resources count as free (flag
//! `--count-preemptible-pods`). PodDisruptionBudgets are ignored, as kube-scheduler violates them if it must.

use std::collections::BTreeMap;

use k8s_openapi::api::scheduling::v1::PriorityClass;

/// The policy of a class whose pods displace no others.
const NEVER: &str = "Never";

/// The priority classes of a cluster.
#[derive(Debug, Default)]
pub struct PriorityClasses(BTreeMap<String, Class>);

#[derive(Clone, Copy, Debug)]
struct Class {
    value: i32,
    is_default: bool,
    preempts: bool,
}

impl PriorityClasses {
    /// Adds or updates a class.
    pub fn apply(&mut self, class: &PriorityClass) {
        let name = class.metadata.name.clone().unwrap_or_default();
        let record = Class {
            value: class.value.unwrap_or_default(),
            is_default: class.global_default.unwrap_or_default(),
            preempts: class.preemption_policy.as_deref() != Some(NEVER),
        };
        self.0.insert(name, record);
    }

    /// Removes a class.
    pub fn remove(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// Removes the classes that do not satisfy the condition about the name.
    pub fn retain(&mut self, is_kept: impl Fn(&str) -> bool) {
        self.0.retain(|name, _| is_kept(name));
    }

    /// Returns the priority of pods of a class, if they may displace pods of a lower priority. An empty name stands for
    /// pods without a class, which get the class that is the default of the cluster.
    pub(crate) fn preempting_priority(&self, name: &str) -> Option<i32> {
        let class = if name.is_empty() {
            // The API server uses the default with the lowest value.
            let defaults = self.0.values().filter(|class| class.is_default);
            let without_class = Class {
                value: 0,
                is_default: false,
                preempts: true,
            };
            defaults
                .min_by_key(|class| class.value)
                .copied()
                .unwrap_or(without_class)
        } else {
            *self.0.get(name)?
        };
        class.preempts.then_some(class.value)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_class_determines_which_pods_can_be_displaced() {
        let mut classes = PriorityClasses::default();
        assert_eq!(classes.preempting_priority(""), Some(0));
        for (name, value, is_default, policy) in [
            ("high", 1000, false, "PreemptLowerPriority"),
            ("polite", 2000, false, "Never"),
            ("usual", 10, true, "PreemptLowerPriority"),
            ("other-default", 20, true, "PreemptLowerPriority"),
        ] {
            let class = json!({"metadata": {"name": name}, "value": value, "globalDefault": is_default,
                "preemptionPolicy": policy});
            classes.apply(&serde_json::from_value(class).unwrap());
        }
        for (name, expected) in [
            ("high", Some(1000)),
            ("polite", None),
            ("unknown", None),
            ("", Some(10)),
        ] {
            assert_eq!(classes.preempting_priority(name), expected, "{name}");
        }
        classes.remove("high");
        assert_eq!(classes.preempting_priority("high"), None);
        classes.retain(|_| false);
        assert_eq!(classes.preempting_priority(""), Some(0));
    }
}
