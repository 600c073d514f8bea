//! The effect of a WorkloadRebalancer: the scheduler reassigns all replicas of its workloads.

use berth_api::BindingKey;
use berth_api::names::binding_name;
use berth_api::workload_rebalancer::{WorkloadRebalancerSpec, WorkloadReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Deserialize as _;
use serde_json::{Value, json};

use super::detect::Bindings;
use super::merge;

/// Triggers the bindings of the workloads that a rebalancer lists. A workload that the live rebalancer (`old`) lists
/// too is not triggered again. Returns a remark for each workload without a binding.
pub(crate) fn trigger(bindings: &mut Bindings, old: Option<&Value>, new: &Value) -> Vec<String> {
    let handled = old.map(workloads).unwrap_or_default();
    let now = json!(Time(jiff::Timestamp::now()));
    let mut remarks = Vec::new();
    for workload in workloads(new) {
        if handled.contains(&workload) {
            continue;
        }
        let WorkloadReference {
            kind,
            namespace,
            name,
            ..
        } = &workload;
        let key = BindingKey::new(namespace, &binding_name(kind, name));
        match bindings.get_mut(&key) {
            Some(binding) => {
                binding["spec"]["rescheduleTriggeredAt"] = now.clone();
                merge::bump_generation(binding);
            }
            None => remarks.push(format!(
                "WorkloadRebalancer {}: {kind} {name} has no binding",
                new["metadata"]["name"].as_str().unwrap_or_default()
            )),
        }
    }
    remarks
}

fn workloads(rebalancer: &Value) -> Vec<WorkloadReference> {
    let spec = WorkloadRebalancerSpec::deserialize(&rebalancer["spec"]);
    spec.map(|spec| spec.workloads).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_bindings_of_new_workloads_are_triggered() {
        let workload = |name: &str| json!({ "apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": name });
        let rebalancer = |names: &[&str]| {
            let workloads: Vec<Value> = names.iter().map(|name| workload(name)).collect();
            json!({ "metadata": { "name": "r" }, "spec": { "workloads": workloads } })
        };
        let key = |name: &str| BindingKey::new("shop", &format!("{name}-deployment"));
        let mut bindings: Bindings = ["web", "api", "db"]
            .map(|name| {
                (
                    key(name),
                    json!({ "metadata": { "generation": 3 }, "spec": {} }),
                )
            })
            .into();
        let (old, new) = (rebalancer(&["api"]), rebalancer(&["api", "web", "gone"]));
        let remarks = trigger(&mut bindings, Some(&old), &new);
        assert_eq!(
            remarks,
            ["WorkloadRebalancer r: Deployment gone has no binding"]
        );
        for (name, triggered) in [("web", true), ("api", false), ("db", false)] {
            let binding = &bindings[&key(name)];
            assert_eq!(
                binding["spec"]["rescheduleTriggeredAt"].is_string(),
                triggered,
                "{name}"
            );
            assert_eq!(
                binding["metadata"]["generation"],
                if triggered { 4 } else { 3 }
            );
        }
    }
}
