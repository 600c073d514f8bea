//! The fields that an apply would change, for the output of a dry run.

use berth_apimachinery::field_changes::{FieldChange, field_changes};
use kube::Resource;
use serde::Serialize;
use serde_json::Value;

/// Metadata that the server sets.
const OF_SERVER: [&str; 6] = [
    "creationTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
];
/// Text for a field that an object does not have.
const NONE: &str = "(none)";

/// Describes the fields that differ between an object before and after an apply. The values of a Secret are hidden.
pub(super) fn describe<K>(before: &K, after: &K) -> Result<Vec<String>, serde_json::Error>
where
    K: Resource<DynamicType = ()> + Serialize,
{
    let is_secret = K::kind(&()) == "Secret";
    let changes = field_changes(&own_fields(before)?, &own_fields(after)?);
    let lines = changes.into_iter().map(|FieldChange { field, old, new }| {
        if is_secret && field.starts_with("data") {
            return format!("{field} changes");
        }
        let text = |value: Option<Value>| value.map_or_else(|| NONE.to_owned(), |v| v.to_string());
        format!("{field}: {} -> {}", text(old), text(new))
    });
    Ok(lines.collect())
}

/// Returns an object without the fields that the server sets.
fn own_fields<K: Serialize>(object: &K) -> Result<Value, serde_json::Error> {
    let mut object = serde_json::to_value(object)?;
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|field, _| !OF_SERVER.contains(&field.as_str()));
    }
    Ok(object)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Node, Secret};
    use serde_json::json;

    use super::*;

    #[test]
    fn changed_fields_are_listed_without_those_of_the_server() {
        let node = |version: &str, labels: Value, unschedulable: Value| -> Node {
            serde_json::from_value(json!({
                "metadata": { "name": "n", "resourceVersion": version, "labels": labels },
                "spec": { "unschedulable": unschedulable, "podCIDRs": ["a"] } }))
            .unwrap()
        };
        let before = node("1", json!({ "a": "1", "b": "1" }), json!(null));
        let after = node("2", json!({ "b": "2", "c/d": "1" }), json!(true));
        assert_eq!(
            describe(&before, &after).unwrap(),
            [
                r#"metadata.labels.a: "1" -> (none)"#,
                r#"metadata.labels.b: "1" -> "2""#,
                r#"metadata.labels[c/d]: (none) -> "1""#,
                "spec.unschedulable: (none) -> true",
            ]
        );
        assert_eq!(describe(&before, &before).unwrap(), [""; 0]);
    }

    #[test]
    fn values_of_a_secret_are_hidden() {
        let secret = |object: Value| -> Secret { serde_json::from_value(object).unwrap() };
        let token = |token: &str| secret(json!({ "data": { "token": token, "c.d": token } }));
        assert_eq!(
            describe(&token("YQ=="), &token("Yg==")).unwrap(),
            ["data[c.d] changes", "data.token changes"]
        );
        assert_eq!(
            describe(&secret(json!({})), &token("Yg==")).unwrap(),
            ["data changes"]
        );
    }
}
