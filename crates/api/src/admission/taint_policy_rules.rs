//! Validation of ClusterTaintPolicies. `NoExecute` is allowed; failover flags decide whether it evicts.

use serde_json::Value;

use super::field_error::{FieldError, Path, Reason};

pub(super) fn check(policy: &Value) -> Vec<FieldError> {
    let taints = policy.pointer("/spec/taints").and_then(Value::as_array);
    let taints = taints.map(Vec::as_slice).unwrap_or_default();
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
            let path = Path::new("spec").child("taints").index(index);
            errors.push(path.error(Reason::Duplicate, message));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
