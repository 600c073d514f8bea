//! Fields that an override must not change: the identity of an object, and rights that an object grants.
//!
//! An override that changes the identity would create a second object in the member and leave the first one behind.
//! Kubernetes lets a user write an RBAC object only if the user holds the rights that the object grants. A namespaced
//! OverridePolicy is applied with the rights of the control plane, so it would bypass this check.
//!
//! Admission finds the fields in the JSON pointers of a policy. The controllers compare the object before and after an
//! override, because a policy may be older than the admission rules.

use serde_json::Value;

use crate::well_known::{
    CLUSTER_RESOURCE_BINDING_NAME, CLUSTER_RESOURCE_BINDING_PERMANENT_ID, MANAGED,
    MANAGED_ANNOTATIONS, MANAGED_LABELS, RESOURCE_BINDING_NAME, RESOURCE_BINDING_NAMESPACE,
    RESOURCE_BINDING_PERMANENT_ID, TEMPLATE_GENERATION, TEMPLATE_UID, WORK_NAME, WORK_NAMESPACE,
    WORK_PERMANENT_ID,
};

/// The annotation that names the ServiceAccount of a token Secret.
const SERVICE_ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
/// The type of a Secret that the control plane of a cluster fills with the token of a ServiceAccount.
const SERVICE_ACCOUNT_TOKEN: &str = "kubernetes.io/service-account-token";

/// The fields that identify an object.
const IDENTITY: [&str; 5] = [
    "/apiVersion",
    "/kind",
    "/metadata/name",
    "/metadata/namespace",
    "/metadata/uid",
];

/// The fields of RBAC objects that grant rights.
const RBAC: [&str; 4] = ["/roleRef", "/subjects", "/rules", "/aggregationRule"];

/// Labels and annotations that mark a propagated object. The controllers set them after the overrides.
const MARKS: [&str; 13] = [
    MANAGED,
    MANAGED_ANNOTATIONS,
    MANAGED_LABELS,
    TEMPLATE_UID,
    TEMPLATE_GENERATION,
    WORK_NAME,
    WORK_NAMESPACE,
    WORK_PERMANENT_ID,
    RESOURCE_BINDING_NAMESPACE,
    RESOURCE_BINDING_NAME,
    RESOURCE_BINDING_PERMANENT_ID,
    CLUSTER_RESOURCE_BINDING_NAME,
    CLUSTER_RESOURCE_BINDING_PERMANENT_ID,
];

/// Returns the identifying field that a JSON pointer names, or that lies above or below the pointer.
pub fn identity_at(pointer: &str) -> Option<&'static str> {
    overlapping(&IDENTITY, pointer)
}

/// Returns the identifying field in which two versions of an object differ.
pub fn changed_identity(before: &Value, after: &Value) -> Option<&'static str> {
    changed(&IDENTITY, before, after)
}

/// Returns the field of RBAC objects that grants rights and that a JSON pointer names, or that lies above or below the
/// pointer.
pub fn rights_at(pointer: &str) -> Option<&'static str> {
    overlapping(&RBAC, pointer)
}

/// Returns the field that grants rights and in which two versions of an object differ. Objects of kinds that grant no
/// rights have no such field.
pub fn changed_rights(before: &Value, after: &Value) -> Option<&'static str> {
    let text = |object: &Value, pointer| {
        let value = object.pointer(pointer).and_then(Value::as_str);
        value.unwrap_or_default().to_owned()
    };
    let api_version = text(before, "/apiVersion");
    if is_rbac(&api_version) {
        return changed(&RBAC, before, after);
    }
    let is_token = |object: &Value| text(object, "/type") == SERVICE_ACCOUNT_TOKEN;
    if api_version == "v1" && text(before, "/kind") == "Secret" {
        if is_token(before) != is_token(after) {
            return Some("/type");
        }
        let account = |object: &Value| {
            let annotations = object.pointer("/metadata/annotations");
            annotations.and_then(|all| all.get(SERVICE_ACCOUNT_NAME).cloned())
        };
        if is_token(after) && account(before) != account(after) {
            return Some("/metadata/annotations");
        }
    }
    None
}

/// Reports whether the objects of an API version are RBAC objects.
pub fn is_rbac(api_version: &str) -> bool {
    api_version.starts_with("rbac.authorization.k8s.io/")
}

/// Reports whether the key of a label or annotation marks a propagated object.
pub fn is_mark(key: &str) -> bool {
    MARKS.contains(&key)
}

fn overlapping(fields: &'static [&'static str], pointer: &str) -> Option<&'static str> {
    if !pointer.is_empty() && !pointer.starts_with('/') {
        return None;
    }
    let tokens: Vec<String> = pointer
        .split('/')
        .skip(1)
        .map(|token| token.replace("~1", "/").replace("~0", "~"))
        .collect();
    let overlaps = |field: &&&str| {
        let mut pairs = field.split('/').skip(1).zip(&tokens);
        pairs.all(|(a, b)| a == b)
    };
    fields.iter().find(overlaps).copied()
}

fn changed(fields: &'static [&'static str], before: &Value, after: &Value) -> Option<&'static str> {
    let mut fields = fields.iter();
    fields
        .find(|field| before.pointer(field) != after.pointer(field))
        .copied()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pointers_to_an_identifying_field_above_it_or_below_it_are_found() {
        for (pointer, expected) in [
            ("", Some("/apiVersion")),
            ("/kind", Some("/kind")),
            ("/kind/x", Some("/kind")),
            ("/metadata", Some("/metadata/name")),
            ("/metadata/namespace", Some("/metadata/namespace")),
            ("/metadata/uid", Some("/metadata/uid")),
            ("/metadata/n~0ame", None),
            ("/metadata/names", None),
            ("/metadata/labels", None),
            ("/metadata/generateName", None),
            ("/spec/kind", None),
            ("/", None),
            ("kind", None),
        ] {
            assert_eq!(identity_at(pointer), expected, "{pointer:?}");
        }
    }

    #[test]
    fn an_object_keeps_its_identity_if_other_fields_change() {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "a", "namespace": "shop", "uid": "1"}});
        for (pointer, value, expected) in [
            ("/apiVersion", json!("v2"), Some("/apiVersion")),
            ("/kind", json!("Secret"), Some("/kind")),
            ("/metadata/name", json!("b"), Some("/metadata/name")),
            (
                "/metadata/namespace",
                Value::Null,
                Some("/metadata/namespace"),
            ),
            ("/metadata/uid", json!("2"), Some("/metadata/uid")),
            ("/metadata", json!(null), Some("/metadata/name")),
            ("/metadata/labels", json!({"a": "b"}), None),
            ("/data", json!({"a": "b"}), None),
        ] {
            let mut after = object.clone();
            match pointer {
                "/metadata/labels" => after["metadata"]["labels"] = value,
                "/data" => after["data"] = value,
                _ => *after.pointer_mut(pointer).unwrap() = value,
            }
            assert_eq!(changed_identity(&object, &after), expected, "{pointer}");
        }
    }

    #[test]
    fn rights_are_fields_of_rbac_objects_and_the_account_of_token_secrets() {
        let rbac = "rbac.authorization.k8s.io/v1";
        let token = "kubernetes.io/service-account-token";
        let secret = |of: &str, account: &str| {
            json!({"apiVersion": "v1", "kind": "Secret", "type": of,
                "metadata": {"annotations": {"kubernetes.io/service-account.name": account}}})
        };
        for (before, after, expected) in [
            (
                json!({"apiVersion": rbac, "roleRef": {"name": "view"}}),
                json!({"apiVersion": rbac, "roleRef": {"name": "admin"}}),
                Some("/roleRef"),
            ),
            (
                json!({"apiVersion": rbac, "subjects": []}),
                json!({"apiVersion": rbac}),
                Some("/subjects"),
            ),
            (
                json!({"apiVersion": rbac}),
                json!({"apiVersion": rbac, "rules": [{"verbs": ["*"]}]}),
                Some("/rules"),
            ),
            (
                json!({"apiVersion": rbac, "aggregationRule": {}}),
                json!({"apiVersion": rbac, "aggregationRule": {"clusterRoleSelectors": []}}),
                Some("/aggregationRule"),
            ),
            (
                json!({"apiVersion": rbac, "metadata": {}}),
                json!({"apiVersion": rbac, "metadata": {"labels": {"a": "b"}}}),
                None,
            ),
            (
                json!({"apiVersion": "example.com/v1", "rules": []}),
                json!({"apiVersion": "example.com/v1", "rules": [1]}),
                None,
            ),
            (secret("Opaque", "a"), secret(token, "a"), Some("/type")),
            (secret("Opaque", "a"), secret("example.com/x", "b"), None),
            (
                secret(token, "a"),
                secret(token, "b"),
                Some("/metadata/annotations"),
            ),
        ] {
            assert_eq!(
                changed_rights(&before, &after),
                expected,
                "{before} {after}"
            );
        }
        assert_eq!(rights_at("/subjects/0/name"), Some("/subjects"));
        assert_eq!(rights_at("/spec/rules"), None);
    }
}
