//! Defaults and validation of override policies.

use serde::Deserialize as _;
use serde_json::{Value, json};

use super::affinity_rules::check_affinity;
use super::field_error::{FieldError, Path};
use super::{GuardedKind, Reason};
use crate::label_selector::{validate_label_key, validate_label_value};
use crate::override_policy::{
    FieldOverrider, LabelAnnotationOverrider, OverrideSpec, OverriderOperator, Overriders,
    RuleWithCluster, TextPatch,
};

/// Maximum total size of the annotations of an object, in bytes.
const MAX_ANNOTATIONS: usize = 256 * 1024;

/// Completes an OverridePolicy: a resource selector without a namespace gets the namespace of the policy.
pub(super) fn mutate(kind: GuardedKind, policy: &mut Value) {
    if kind != GuardedKind::OverridePolicy {
        return;
    }
    let Some(namespace) = namespace_of(policy).map(str::to_owned) else {
        return;
    };
    let selectors = policy
        .pointer_mut("/spec/resourceSelectors")
        .and_then(Value::as_array_mut);
    for selector in selectors.into_iter().flatten() {
        if let Some(selector) = selector.as_object_mut() {
            let slot = selector.entry("namespace").or_insert(Value::Null);
            if slot.is_null() || slot == "" {
                *slot = json!(namespace);
            }
        }
    }
}

pub(super) fn check(kind: GuardedKind, policy: &Value) -> Vec<FieldError> {
    let path = Path::new("spec");
    let raw = policy.get("spec").unwrap_or(&Value::Null);
    let spec = match OverrideSpec::deserialize(raw) {
        Ok(spec) => spec,
        Err(error) => return vec![path.invalid(error.to_string())],
    };
    let mut errors = Vec::new();
    if let Some(affinity) = &spec.target_cluster {
        check_affinity(affinity, &path.child("targetCluster"), &mut errors);
    }
    if let Some(rules) = &spec.override_rules {
        if spec.target_cluster.is_some() {
            errors.push(
                path.child("targetCluster")
                    .invalid("overrideRules and targetCluster can't co-exist"),
            );
        }
        // As in Karmada, this check ignores `fieldOverrider`: a policy may have both `overrideRules` and
        // `overriders.fieldOverrider`.
        let old = Overriders {
            field_overrider: Vec::new(),
            ..spec.overriders.clone()
        };
        if old != Overriders::default() {
            errors.push(
                path.child("overriders")
                    .invalid("overrideRules and overriders can't co-exist"),
            );
        }
        for (index, rule) in rules.iter().enumerate() {
            check_rule(rule, &path.child("overrideRules").index(index), &mut errors);
        }
    }
    if kind == GuardedKind::OverridePolicy {
        let namespace = namespace_of(policy).unwrap_or_default();
        for (index, selector) in spec.resource_selectors.iter().enumerate() {
            if selector.namespace != namespace {
                let at = path.child("resourceSelectors").index(index);
                errors.push(at.child("namespace").invalid(format!(
                    "{:?} must be the namespace of the policy",
                    selector.namespace
                )));
            }
        }
    }
    errors
}

fn namespace_of(policy: &Value) -> Option<&str> {
    policy.get("metadata")?.get("namespace")?.as_str()
}

fn check_rule(rule: &RuleWithCluster, path: &Path, errors: &mut Vec<FieldError>) {
    let overriders = path.child("overriders");
    for (index, overrider) in rule.overriders.annotations_overrider.iter().enumerate() {
        let at = overriders.child("annotationsOverrider").index(index);
        check_annotations(overrider, &at.child("value"), errors);
    }
    for (index, overrider) in rule.overriders.labels_overrider.iter().enumerate() {
        let at = overriders.child("labelsOverrider").index(index);
        check_labels(overrider, &at.child("value"), errors);
    }
    for (index, overrider) in rule.overriders.image_overrider.iter().enumerate() {
        if let Some(predicate) = &overrider.predicate {
            let at = overriders.child("imageOverrider").index(index);
            check_pointer(
                &predicate.path,
                &at.child("predicate").child("path"),
                errors,
            );
        }
    }
    for (index, overrider) in rule.overriders.field_overrider.iter().enumerate() {
        let at = overriders.child("fieldOverrider").index(index);
        check_field(overrider, &at, errors);
    }
    if let Some(affinity) = &rule.target_cluster {
        check_affinity(affinity, &path.child("targetCluster"), errors);
    }
}

fn check_annotations(
    overrider: &LabelAnnotationOverrider,
    path: &Path,
    errors: &mut Vec<FieldError>,
) {
    for key in overrider.value.keys() {
        if let Err(error) = validate_label_key(&key.to_lowercase()) {
            errors.push(path.invalid(error.to_string()));
        }
    }
    let size: usize = overrider.value.iter().map(|(k, v)| k.len() + v.len()).sum();
    if size > MAX_ANNOTATIONS {
        errors.push(path.error(
            Reason::TooLong,
            format!("may not be more than {MAX_ANNOTATIONS} bytes"),
        ));
    }
}

fn check_labels(overrider: &LabelAnnotationOverrider, path: &Path, errors: &mut Vec<FieldError>) {
    for (key, value) in &overrider.value {
        let checks = [validate_label_key(key), validate_label_value(value)];
        for error in checks.into_iter().filter_map(Result::err) {
            errors.push(path.invalid(error.to_string()));
        }
    }
}

fn check_field(overrider: &FieldOverrider, path: &Path, errors: &mut Vec<FieldError>) {
    match (overrider.json.is_empty(), overrider.yaml.is_empty()) {
        (false, false) => {
            errors.push(path.invalid("json and yaml are both set; only one is allowed"));
        }
        (true, true) => {
            errors.push(path.error(Reason::Required, "either json or yaml must be set"));
        }
        _ => {}
    }
    check_pointer(&overrider.field_path, &path.child("fieldPath"), errors);
    for (name, patches) in [("json", &overrider.json), ("yaml", &overrider.yaml)] {
        for (index, patch) in patches.iter().enumerate() {
            check_text(patch, &path.child(name).index(index), errors);
        }
    }
}

fn check_text(patch: &TextPatch, at: &Path, errors: &mut Vec<FieldError>) {
    check_pointer(&patch.sub_path, &at.child("subPath"), errors);
    let value = at.child("value");
    match (&patch.operator, &patch.value) {
        (OverriderOperator::Add | OverriderOperator::Replace, None) => {
            errors.push(value.invalid("value is required for add or replace operation"));
        }
        (OverriderOperator::Remove, Some(_)) => {
            errors.push(value.invalid("value is not allowed for remove operation"));
        }
        _ => {}
    }
}

fn check_pointer(pointer: &str, path: &Path, errors: &mut Vec<FieldError>) {
    if !pointer.is_empty() && !pointer.starts_with('/') {
        errors.push(path.invalid(format!(
            "{pointer:?} must be a JSON pointer: empty, or beginning with \"/\""
        )));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(
        clippy::needless_pass_by_value,
        reason = "json! literals are passed by value"
    )]
    fn refused(spec: Value) -> Vec<String> {
        let policy = json!({"metadata": {"namespace": "shop"}, "spec": spec});
        let errors = check(GuardedKind::OverridePolicy, &policy);
        errors.into_iter().map(|error| error.field).collect()
    }

    #[expect(
        clippy::needless_pass_by_value,
        reason = "json! literals are passed by value"
    )]
    fn rule(overriders: Value) -> Vec<String> {
        refused(json!({"overrideRules": [{"overriders": overriders}]}))
            .into_iter()
            .map(|field| field.replace("spec.overrideRules[0].overriders.", ""))
            .collect()
    }

    #[test]
    fn selectors_default_to_the_namespace_of_the_policy() {
        let mut policy = json!({"metadata": {"namespace": "shop"}, "spec": {"resourceSelectors": [
            {"apiVersion": "v1", "kind": "ConfigMap"},
            {"apiVersion": "v1", "kind": "Secret", "namespace": "other"}]}});
        mutate(GuardedKind::OverridePolicy, &mut policy);
        let selectors = &policy["spec"]["resourceSelectors"];
        assert_eq!(selectors[0]["namespace"], "shop");
        assert_eq!(selectors[1]["namespace"], "other");
        assert_eq!(
            check(GuardedKind::OverridePolicy, &policy)[0].field,
            "spec.resourceSelectors[1].namespace"
        );
        assert!(check(GuardedKind::ClusterOverridePolicy, &policy).is_empty());
    }

    #[test]
    fn deprecated_fields_and_override_rules_exclude_each_other() {
        let field = json!({"fieldOverrider": [
            {"fieldPath": "/data/a", "json": [{"subPath": "/b", "operator": "remove"}]}]});
        let label = json!({"labelsOverrider": [{"operator": "add", "value": {"a": "b"}}]});
        assert!(refused(json!({"targetCluster": {}, "overriders": label})).is_empty());
        assert_eq!(
            refused(json!({"targetCluster": {}, "overriders": label, "overrideRules": []})),
            ["spec.targetCluster", "spec.overriders"]
        );
        assert!(refused(json!({"overriders": field, "overrideRules": []})).is_empty());
    }

    #[test]
    fn malformed_pointers_and_values_are_rejected() {
        assert_eq!(
            rule(json!({
                "imageOverrider": [{"component": "Tag", "operator": "add",
                    "predicate": {"path": "spec/image"}}],
                "labelsOverrider": [{"operator": "add", "value": {"a": "not valid"}}],
                "annotationsOverrider": [{"operator": "add", "value": {"not valid": "a"}}],
                "fieldOverrider": [
                    {"fieldPath": "data"},
                    {"fieldPath": "/data", "json": [{"subPath": "x", "operator": "replace"}],
                        "yaml": [{"subPath": "/x", "operator": "remove", "value": 1}]}],
            })),
            [
                "annotationsOverrider[0].value",
                "labelsOverrider[0].value",
                "imageOverrider[0].predicate.path",
                "fieldOverrider[0]",
                "fieldOverrider[0].fieldPath",
                "fieldOverrider[1]",
                "fieldOverrider[1].json[0].subPath",
                "fieldOverrider[1].json[0].value",
                "fieldOverrider[1].yaml[0].value",
            ]
        );
    }
}
