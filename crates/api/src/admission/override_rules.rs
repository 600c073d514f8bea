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
use crate::protected_fields::{identity_at, is_mark, is_rbac, rights_at};

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

/// Checks a policy. `old` is the stored policy of an update. If the spec is unchanged, the rules that Karmada lacks are
/// not checked, so that labels and annotations of a policy that Karmada accepted can still change.
pub(super) fn check(kind: GuardedKind, old: Option<&Value>, policy: &Value) -> Vec<FieldError> {
    let path = Path::new("spec");
    let raw = policy.get("spec").unwrap_or(&Value::Null);
    let is_unchanged = old.is_some_and(|old| old.get("spec") == policy.get("spec"));
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
        let mut deprecated = spec.overriders.clone();
        if is_unchanged {
            // Karmada accepts `fieldOverrider` beside `overrideRules`, and ignores it.
            deprecated.field_overrider.clear();
        }
        if deprecated != Overriders::default() {
            errors.push(
                path.child("overriders")
                    .invalid("overrideRules and overriders can't co-exist"),
            );
        }
        for (index, rule) in rules.iter().enumerate() {
            check_rule(rule, &path.child("overrideRules").index(index), &mut errors);
        }
    }
    if !is_unchanged {
        let rights = RightsRule::of(kind, &spec);
        for (index, rule) in spec.override_rules.iter().flatten().enumerate() {
            let at = path.child("overrideRules").index(index);
            check_protected(
                &rule.overriders,
                rights,
                &at.child("overriders"),
                &mut errors,
            );
        }
        check_protected(
            &spec.overriders,
            rights,
            &path.child("overriders"),
            &mut errors,
        );
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

/// The rule for fields that grant rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RightsRule {
    /// The policy may change these fields, or selects no RBAC objects.
    Allowed,
    /// The policy selects RBAC objects of its namespace, and must not change the rights that they grant.
    Refused,
}

impl RightsRule {
    fn of(kind: GuardedKind, spec: &OverrideSpec) -> Self {
        let selectors = &spec.resource_selectors;
        let selects_rbac =
            selectors.is_empty() || selectors.iter().any(|one| is_rbac(&one.api_version));
        if kind == GuardedKind::OverridePolicy && selects_rbac {
            Self::Refused
        } else {
            Self::Allowed
        }
    }
}

/// Refuses overriders that would change the identity of an object, a mark of the controllers, or the rights that an RBAC
/// object grants.
fn check_protected(
    overriders: &Overriders,
    rights: RightsRule,
    path: &Path,
    errors: &mut Vec<FieldError>,
) {
    let plaintext = overriders.plaintext.iter().enumerate().map(|(index, one)| {
        let at = path.child("plaintext").index(index).child("path");
        (at, &one.path)
    });
    let image_overriders = overriders.image_overrider.iter().enumerate();
    let images = image_overriders.filter_map(|(index, one)| {
        let at = path.child("imageOverrider").index(index);
        let predicate = one.predicate.as_ref()?;
        Some((at.child("predicate").child("path"), &predicate.path))
    });
    let field_overriders = overriders.field_overrider.iter().enumerate();
    let fields = field_overriders.map(|(index, one)| {
        let at = path.child("fieldOverrider").index(index);
        (at.child("fieldPath"), &one.field_path)
    });
    for (at, pointer) in plaintext.chain(images).chain(fields) {
        if let Some(field) = identity_at(pointer) {
            errors.push(at.error(
                Reason::Forbidden,
                format!("{pointer:?} would change {field}, which identifies the object"),
            ));
        } else if rights == RightsRule::Refused
            && let Some(field) = rights_at(pointer)
        {
            errors.push(at.error(
                Reason::Forbidden,
                format!(
                    "{field} of an RBAC object grants rights; use a ClusterOverridePolicy to change it"
                ),
            ));
        }
    }
    let labels = ("labelsOverrider", &overriders.labels_overrider);
    let annotations = ("annotationsOverrider", &overriders.annotations_overrider);
    for (name, list) in [labels, annotations] {
        for (index, overrider) in list.iter().enumerate() {
            let at = path.child(name).index(index).child("value");
            for key in overrider.value.keys().filter(|key| is_mark(key)) {
                errors.push(at.key(key).error(
                    Reason::Forbidden,
                    "the controllers set this key after all overrides; remove it",
                ));
            }
        }
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
        let errors = check(GuardedKind::OverridePolicy, None, &policy);
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
            check(GuardedKind::OverridePolicy, None, &policy)[0].field,
            "spec.resourceSelectors[1].namespace"
        );
        assert!(check(GuardedKind::ClusterOverridePolicy, None, &policy).is_empty());
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
        let both = json!({"overriders": field, "overrideRules": []});
        assert_eq!(refused(both.clone()), ["spec.overriders"]);
        let stored = json!({"metadata": {"namespace": "shop"}, "spec": both});
        let mut labelled = stored.clone();
        labelled["metadata"]["labels"] = json!({"a": "b"});
        let kind = GuardedKind::OverridePolicy;
        assert_eq!(check(kind, Some(&stored), &labelled), []);
    }

    #[test]
    fn overrides_of_identity_and_marks_are_rejected() {
        let plaintext = |path: &str| json!({"plaintext": [{"path": path, "operator": "remove"}]});
        for path in [
            "/apiVersion",
            "/kind",
            "/metadata/name",
            "/metadata/namespace",
            "/metadata",
            "",
        ] {
            assert_eq!(rule(plaintext(path)), ["plaintext[0].path"], "{path:?}");
            assert_eq!(
                refused(json!({"overriders": plaintext(path)})),
                ["spec.overriders.plaintext[0].path"]
            );
        }
        for path in [
            "/metadata/labels/a",
            "/metadata/annotations",
            "/spec/template/metadata/name",
        ] {
            assert!(rule(plaintext(path)).is_empty(), "{path:?}");
        }
        assert_eq!(
            rule(json!({
                "imageOverrider": [{"component": "Tag", "operator": "add",
                    "predicate": {"path": "/metadata/name"}}],
                "labelsOverrider": [{"operator": "remove", "value": {"karmada.io/managed": "", "a": ""}}],
                "annotationsOverrider": [{"operator": "add", "value": {"work.karmada.io/name": "a"}}],
                "fieldOverrider": [{"fieldPath": "/metadata/name",
                    "yaml": [{"subPath": "", "operator": "replace", "value": "b"}]}],
            })),
            [
                "imageOverrider[0].predicate.path",
                "fieldOverrider[0].fieldPath",
                "labelsOverrider[0].value[karmada.io/managed]",
                "annotationsOverrider[0].value[work.karmada.io/name]",
            ]
        );
        let conflict = json!({"work.karmada.io/conflict-resolution": "overwrite"});
        let allowed = json!({"annotationsOverrider": [{"operator": "add", "value": conflict}]});
        assert!(rule(allowed).is_empty());
    }

    #[test]
    fn only_cluster_override_policies_change_the_rights_of_rbac_objects() {
        let rbac = "rbac.authorization.k8s.io/v1";
        let policy = |selectors: &Value, path: &str| {
            json!({"metadata": {"namespace": "shop"}, "spec": {
                "resourceSelectors": selectors,
                "overrideRules": [{"overriders": {"plaintext": [
                    {"path": path, "operator": "replace", "value": []}]}}]}})
        };
        let of = |api_version: &str, kind: &str| json!([{"apiVersion": api_version, "kind": kind, "namespace": "shop"}]);
        for (selectors, path, refused) in [
            (of(rbac, "RoleBinding"), "/roleRef/name", true),
            (of(rbac, "RoleBinding"), "/subjects", true),
            (of(rbac, "Role"), "/rules/0", true),
            (json!([]), "/subjects", true),
            (of(rbac, "Role"), "/metadata/labels", false),
            (of("example.com/v1", "Firewall"), "/rules", false),
        ] {
            let policy = policy(&selectors, path);
            let errors = check(GuardedKind::OverridePolicy, None, &policy);
            assert_eq!(!errors.is_empty(), refused, "{selectors} {path} {errors:?}");
            assert!(check(GuardedKind::ClusterOverridePolicy, None, &policy).is_empty());
        }
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
