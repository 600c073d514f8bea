//! Validation of ClusterTaintPolicies. [`check`] accepts the effect `NoExecute`. [`check_no_execute`] rejects it, for
//! control planes whose administrators have not allowed it.

use serde_json::Value;

use super::field_error::{FieldError, Path, Reason};

fn taints(policy: &Value) -> &[Value] {
    let taints = policy.pointer("/spec/taints").and_then(Value::as_array);
    taints.map(Vec::as_slice).unwrap_or_default()
}

fn path(index: usize) -> Path {
    Path::new("spec").child("taints").index(index)
}

/// Returns an error for each taint with the effect `NoExecute`. Call this function if the administrators have not set
/// `--allow-no-execute-taint-policy`.
pub fn check_no_execute(policy: &Value) -> Vec<FieldError> {
    let taints = taints(policy).iter().enumerate();
    taints
        .filter(|(_, taint)| taint["effect"] == "NoExecute")
        .map(|(index, _)| {
            path(index).error(
                Reason::Forbidden,
                "the effect NoExecute is not allowed: an administrator has to allow it with \
                 --allow-no-execute-taint-policy",
            )
        })
        .collect()
}

pub(super) fn check(policy: &Value) -> Vec<FieldError> {
    let taints = taints(policy);
    let identity = |taint: &Value| (taint["key"].clone(), taint["effect"].clone());
    let mut errors = Vec::new();
    for (index, taint) in taints.iter().enumerate() {
        let mut later = taints.iter().skip(index + 1);
        if later.any(|other| identity(other) == identity(taint)) {
            let text = |name: &str| taint[name].as_str().unwrap_or_default();
            let message = format!(
                "Duplicate value: \"Duplicate taint with the same key({}) and effect({}) is not allowed\"",
                text("key"),
                text("effect")
            );
            errors.push(path(index).error(Reason::Duplicate, message));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn check_no_execute_rejects_each_no_execute_taint() {
        let taint = |effect: &str| json!({ "key": "a", "effect": effect });
        let taints = json!([taint("NoExecute"), taint("NoSchedule"), taint("NoExecute")]);
        let errors = check_no_execute(&json!({ "spec": { "taints": taints } }));
        let fields: Vec<&str> = errors.iter().map(|error| error.field.as_str()).collect();
        assert_eq!(fields, ["spec.taints[0]", "spec.taints[2]"]);
    }

    #[test]
    fn duplicate_taints_are_rejected() {
        let taint = |key: &str, effect: &str| json!({ "key": key, "effect": effect });
        for (taints, expected) in [
            (
                json!([taint("a", "NoExecute"), taint("a", "NoSchedule")]),
                vec![],
            ),
            (
                json!([
                    taint("a", "NoExecute"),
                    taint("b", "NoExecute"),
                    taint("a", "NoExecute")
                ]),
                vec!["spec.taints[0]"],
            ),
        ] {
            let errors = check(&json!({ "spec": { "taints": taints } }));
            let fields: Vec<&str> = errors.iter().map(|error| error.field.as_str()).collect();
            assert_eq!(fields, expected);
        }
    }
}
