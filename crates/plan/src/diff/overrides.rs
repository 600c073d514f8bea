//! The wanted object of a cluster, compared with the template: the share of the replicas, and what override policies
//! change.

use std::collections::BTreeSet;

use berth_api::manifest::prune;
use berth_apimachinery::json_fields::kind_of;
use berth_controllers::propagation::difference::changed_fields;
use berth_interpreter::{InterpretError, Interpreter};
use serde_json::Value;

use super::report::{FieldDiff, Origin};

/// A number of replicas that no workload has. It shows which fields contain the replicas.
const PROBE: i32 = i32::MAX;

/// Compares a manifest with its template. `replicas` are those that the scheduler assigned to the cluster, if the
/// template has replicas, and `override_policies` are those that were applied.
///
/// # Errors
/// When the interpreter cannot set the replicas.
pub(super) fn template_diff(
    template: &Value,
    manifest: &Value,
    replicas: Option<i32>,
    override_policies: &[String],
    interpreter: &Interpreter,
) -> Result<Vec<FieldDiff>, InterpretError> {
    let is_overridden = !override_policies.is_empty();
    let mut template = template.clone();
    prune(&mut template);
    let mut shared = template.clone();
    let mut divided: BTreeSet<String> = BTreeSet::new();
    if let Some(replicas) = replicas {
        divided = share_fields(&template, interpreter)?;
        if is_overridden {
            interpreter.revise_replicas(&mut shared, replicas)?;
        }
    }
    let mut diffs: Vec<FieldDiff> = changed_fields(&template, &shared)
        .into_iter()
        .map(|change| FieldDiff::new(change, Some(Origin::Share)))
        .collect();
    for change in changed_fields(&shared, manifest) {
        // Without an override policy, only the division changes the replicas. While a workload moves, its share differs
        // from the scheduler's result.
        let is_share = !is_overridden && divided.contains(&change.field);
        diffs.push(FieldDiff::new(change, is_share.then_some(Origin::Share)));
    }
    Ok(diffs)
}

/// Returns the fields of a template that contain its replicas, or follow from them.
///
/// # Errors
/// When the interpreter cannot set the replicas.
pub(super) fn share_fields(
    template: &Value,
    interpreter: &Interpreter,
) -> Result<BTreeSet<String>, InterpretError> {
    let mut probe = template.clone();
    interpreter.revise_replicas(&mut probe, PROBE)?;
    let changes = changed_fields(template, &probe).into_iter();
    let mut fields: BTreeSet<String> = changes.map(|change| change.field).collect();
    if kind_of(template).1 == "Job" {
        fields.insert("spec.completions".to_owned());
    }
    Ok(fields)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn deployment(replicas: i32, image: &str) -> Value {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "uid": "u"},
            "spec": {"replicas": replicas,
                "template": {"spec": {"containers": [{"name": "web", "image": image}]}}}})
    }

    #[test]
    fn the_share_and_overrides_are_separate_changes() {
        let image = "spec.template.spec.containers[0].image";
        let template = deployment(8, "nginx:1");
        for (mut manifest, is_overridden, expected) in [
            (deployment(8, "nginx:1"), false, vec![]),
            (
                deployment(3, "nginx:1"),
                false,
                vec![("spec.replicas", json!(3), Some(Origin::Share))],
            ),
            // While the workload moves, the cluster has other replicas than the scheduler assigned.
            (
                deployment(2, "nginx:1"),
                false,
                vec![("spec.replicas", json!(2), Some(Origin::Share))],
            ),
            (
                deployment(3, "proxy/nginx:1"),
                true,
                vec![
                    ("spec.replicas", json!(3), Some(Origin::Share)),
                    (image, json!("proxy/nginx:1"), None),
                ],
            ),
            (
                deployment(5, "nginx:1"),
                true,
                vec![
                    ("spec.replicas", json!(3), Some(Origin::Share)),
                    ("spec.replicas", json!(5), None),
                ],
            ),
        ] {
            // A Work has no UID.
            prune(&mut manifest);
            let interpreter = Interpreter::default();
            let policies = if is_overridden {
                vec!["OverridePolicy web".to_owned()]
            } else {
                Vec::new()
            };
            let diffs = template_diff(&template, &manifest, Some(3), &policies, &interpreter);
            let diffs = diffs.unwrap();
            let found: Vec<(&str, Value, Option<Origin>)> = diffs
                .iter()
                .map(|diff| (diff.field.as_str(), diff.new.clone().unwrap(), diff.origin))
                .collect();
            assert_eq!(found, expected);
        }
    }
}
