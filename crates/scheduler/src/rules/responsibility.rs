//! Selection of the bindings that this scheduler is responsible for.

use berth_api::Binding;
use berth_api::well_known::{
    BINDING_MANAGED_BY, CLUSTER_PROPAGATION_POLICY_PERMANENT_ID, PROPAGATION_POLICY_PERMANENT_ID,
};

/// Reports whether the binding names this scheduler and scheduling is not suspended.
pub fn in_charge(binding: &Binding, scheduler_name: &str) -> bool {
    binding.spec.scheduler() == scheduler_name && !binding.spec.scheduling_suspended()
}

/// Reports whether events of the binding trigger scheduling. This requires that the scheduler is responsible for the
/// binding, and that a label shows that a policy or another controller has claimed the binding.
pub fn passes(binding: &Binding, scheduler_name: &str) -> bool {
    in_charge(binding, scheduler_name) && claimed(binding)
}

fn claimed(binding: &Binding) -> bool {
    let Some(labels) = &binding.metadata.labels else {
        return false;
    };
    [
        PROPAGATION_POLICY_PERMANENT_ID,
        CLUSTER_PROPAGATION_POLICY_PERMANENT_ID,
        BINDING_MANAGED_BY,
    ]
    .iter()
    .any(|key| labels.get(*key).is_some_and(|value| !value.is_empty()))
}

#[cfg(test)]
mod tests {
    use berth_api::ResourceBinding;
    use serde_json::json;

    use super::*;

    fn binding(labels: serde_json::Value, spec: serde_json::Value) -> Binding {
        let mut spec = spec;
        spec["resource"] =
            json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": "nginx" });
        serde_json::from_value::<ResourceBinding>(
            json!({ "metadata": { "name": "b", "namespace": "n", "labels": labels }, "spec": spec }),
        )
        .unwrap()
        .into()
    }

    #[test]
    fn claimed_bindings_of_this_scheduler_pass() {
        let claimed = json!({ PROPAGATION_POLICY_PERMANENT_ID: "id" });
        let cases = [
            (
                "no scheduler named",
                &claimed,
                json!({}),
                "default-scheduler",
                true,
            ),
            (
                "empty name",
                &claimed,
                json!({ "schedulerName": "" }),
                "default-scheduler",
                true,
            ),
            (
                "named",
                &claimed,
                json!({ "schedulerName": "mine" }),
                "mine",
                true,
            ),
            (
                "another scheduler's",
                &claimed,
                json!({ "schedulerName": "mine" }),
                "default-scheduler",
                false,
            ),
            (
                "the name is case-sensitive",
                &claimed,
                json!({ "schedulerName": "Mine" }),
                "mine",
                false,
            ),
            (
                "suspended",
                &claimed,
                json!({ "suspension": { "scheduling": true } }),
                "default-scheduler",
                false,
            ),
            (
                "resumed",
                &claimed,
                json!({ "suspension": { "scheduling": false } }),
                "default-scheduler",
                true,
            ),
            (
                "claimed by a cluster policy",
                &json!({ CLUSTER_PROPAGATION_POLICY_PERMANENT_ID: "id" }),
                json!({}),
                "default-scheduler",
                true,
            ),
            (
                "claimed by a controller",
                &json!({ BINDING_MANAGED_BY: "rayjob" }),
                json!({}),
                "default-scheduler",
                true,
            ),
            (
                "not claimed",
                &json!({}),
                json!({}),
                "default-scheduler",
                false,
            ),
            (
                "an empty id",
                &json!({ PROPAGATION_POLICY_PERMANENT_ID: "" }),
                json!({}),
                "default-scheduler",
                false,
            ),
        ];
        for (name, labels, spec, scheduler, expected) in cases {
            assert_eq!(
                passes(&binding(labels.clone(), spec), scheduler),
                expected,
                "{name}"
            );
        }
    }
}
