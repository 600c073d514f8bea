//! Bounds of policies. Karmada has none: it accepts policies that no scheduler or controller can apply, and retries
//! them without end.
//!
//! The bounds are checked before all other rules, and the other rules are not checked for a policy beyond the bounds.
//! An update that keeps the spec is not checked, so that a stored policy beyond the bounds can lose its finalizer.

use berth_apimachinery::json_size::json_size;
use serde_json::Value;

use super::field_error::{FieldError, Path};
use super::{GuardedKind, Reason};
use crate::names;

/// Maximum number of selectors and of override rules in one policy. A policy of this size takes about the 1.5 MiB that
/// etcd accepts for an object.
const MAX_ITEMS: usize = 10_000;
/// Maximum size of a placement, and of the overriders of one rule, in bytes of JSON. The scheduler stores the placement
/// in an annotation of the binding, and the controllers store the overriders in an annotation of the Work. This is
/// three quarters of the size that Kubernetes allows for all annotations of an object.
const MAX_ANNOTATION: usize = 192 * 1024;

/// Checks the bounds of a policy. `old` is the stored object of an update.
pub(super) fn check(kind: GuardedKind, old: Option<&Value>, policy: &Value) -> Vec<FieldError> {
    if !has_bounds(kind) || old.is_some_and(|old| old.get("spec") == policy.get("spec")) {
        return Vec::new();
    }
    let spec = policy.get("spec").unwrap_or(&Value::Null);
    let path = Path::new("spec");
    let mut errors = Vec::new();
    for list in ["resourceSelectors", "overrideRules"] {
        let count = items(spec, list).len();
        if count > MAX_ITEMS {
            errors.push(path.child(list).error(
                Reason::TooLong,
                format!("has {count} items; at most {MAX_ITEMS} are allowed in one policy"),
            ));
        }
    }
    if !errors.is_empty() {
        return errors;
    }
    if let Some(placement) = spec.get("placement") {
        check_size(placement, &path.child("placement"), &mut errors);
    }
    let rules = path.child("overrideRules");
    for (index, rule) in items(spec, "overrideRules").iter().enumerate() {
        if let Some(overriders) = rule.get("overriders") {
            let at = rules.index(index).child("overriders");
            check_size(overriders, &at, &mut errors);
        }
    }
    if matches!(
        kind,
        GuardedKind::PropagationPolicy | GuardedKind::ClusterPropagationPolicy
    ) {
        check_names(spec, &path.child("resourceSelectors"), &mut errors);
    }
    errors
}

/// Reports whether a policy has so many items that it is refused. Such a policy gets no defaults.
pub(super) fn has_too_many_items(kind: GuardedKind, policy: &Value) -> bool {
    let Some(spec) = policy.get("spec").filter(|_| has_bounds(kind)) else {
        return false;
    };
    ["resourceSelectors", "overrideRules"]
        .iter()
        .any(|list| items(spec, list).len() > MAX_ITEMS)
}

fn has_bounds(kind: GuardedKind) -> bool {
    matches!(
        kind,
        GuardedKind::PropagationPolicy
            | GuardedKind::ClusterPropagationPolicy
            | GuardedKind::OverridePolicy
            | GuardedKind::ClusterOverridePolicy
    )
}

fn items<'a>(spec: &'a Value, list: &str) -> &'a [Value] {
    let items = spec.get(list).and_then(Value::as_array);
    items.map_or(&[], Vec::as_slice)
}

fn check_size(value: &Value, path: &Path, errors: &mut Vec<FieldError>) {
    let size = json_size(value);
    if size > MAX_ANNOTATION {
        errors.push(path.error(
            Reason::TooLong,
            format!("has {size} bytes as JSON; at most {MAX_ANNOTATION} fit into an annotation"),
        ));
    }
}

/// Refuses selectors of resources whose binding or Work would have a name that the API server refuses.
fn check_names(spec: &Value, path: &Path, errors: &mut Vec<FieldError>) {
    for (index, selector) in items(spec, "resourceSelectors").iter().enumerate() {
        let text = |field: &str| selector.get(field).and_then(Value::as_str).unwrap_or("");
        let (kind, name, namespace) = (text("kind"), text("name"), text("namespace"));
        if !name.is_empty()
            && let Err(error) = names::check_derived_names(kind, name, namespace)
        {
            let at = path.index(index).child("name");
            errors.push(at.error(Reason::TooLong, error.to_string()));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refused(kind: GuardedKind, spec: Value) -> Vec<String> {
        let errors = check(kind, None, &json!({ "spec": spec }));
        errors.into_iter().map(|error| error.field).collect()
    }

    #[test]
    fn policies_beyond_a_bound_are_refused_and_those_at_the_bound_are_not() {
        let kind = GuardedKind::PropagationPolicy;
        let selectors =
            |count: usize| json!({"resourceSelectors": vec![json!({"kind": "Pod"}); count]});
        assert!(refused(kind, selectors(MAX_ITEMS)).is_empty());
        assert_eq!(
            refused(kind, selectors(MAX_ITEMS + 1)),
            ["spec.resourceSelectors"]
        );
        let terms = |count: usize| {
            let terms = (0..count).map(|index| json!({"affinityName": format!("group-{index}")}));
            json!({"placement": {"clusterAffinities": terms.collect::<Vec<_>>()}})
        };
        assert!(refused(kind, terms(1000)).is_empty());
        assert_eq!(refused(kind, terms(10_000)), ["spec.placement"]);
        let rule = |size: usize| {
            json!({"overrideRules": [{"overriders": {"plaintext": [
                {"path": "/data/a", "operator": "add", "value": "a".repeat(size)}]}}]})
        };
        let overrides = GuardedKind::ClusterOverridePolicy;
        assert!(refused(overrides, rule(100_000)).is_empty());
        assert_eq!(
            refused(overrides, rule(MAX_ANNOTATION)),
            ["spec.overrideRules[0].overriders"]
        );
        let name = |length: usize| json!({"resourceSelectors": [{"kind": "ConfigMap", "name": "a".repeat(length)}]});
        assert!(refused(kind, name(242)).is_empty());
        assert_eq!(refused(kind, name(253)), ["spec.resourceSelectors[0].name"]);
        assert!(refused(overrides, name(253)).is_empty());
    }

    #[test]
    fn an_update_that_keeps_the_spec_is_not_checked() {
        let stored = json!({"metadata": {"finalizers": ["a"]},
            "spec": {"resourceSelectors": vec![json!({}); MAX_ITEMS + 1]}});
        let mut released = stored.clone();
        released["metadata"] = json!({});
        let kind = GuardedKind::PropagationPolicy;
        assert!(check(kind, Some(&stored), &released).is_empty());
        assert!(!check(kind, None, &released).is_empty());
    }
}
