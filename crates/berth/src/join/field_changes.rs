//! The fields that an apply would change, for the output of a dry run.

use std::collections::BTreeSet;

use kube::Resource;
use serde::Serialize;
use serde_json::Value;

/// Fields that the server sets.
const OF_SERVER: [&str; 7] = [
    "/metadata/creationTimestamp",
    "/metadata/generation",
    "/metadata/managedFields",
    "/metadata/resourceVersion",
    "/metadata/selfLink",
    "/metadata/uid",
    "/status",
];
/// Text for a field that an object does not have.
const NONE: &str = "(none)";

/// Describes the fields that differ between an object before and after an apply. The values of a Secret are hidden.
pub(super) fn describe<K>(before: &K, after: &K) -> Result<Vec<String>, serde_json::Error>
where
    K: Resource<DynamicType = ()> + Serialize,
{
    let hides_values = K::kind(&()) == "Secret";
    let (before, after) = (serde_json::to_value(before)?, serde_json::to_value(after)?);
    let mut changes = Vec::new();
    compare("", Some(&before), Some(&after), hides_values, &mut changes);
    Ok(changes)
}

/// Compares two values at a JSON pointer. Lists are compared as a whole.
fn compare(
    path: &str,
    before: Option<&Value>,
    after: Option<&Value>,
    hides_values: bool,
    changes: &mut Vec<String>,
) {
    if before == after || OF_SERVER.contains(&path) {
        return;
    }
    let is_map = |value: Option<&Value>| value.is_none_or(Value::is_object);
    if is_map(before) && is_map(after) {
        let maps = [before, after].map(|value| value.and_then(Value::as_object));
        let keys: BTreeSet<&String> = maps.iter().flatten().flat_map(|map| map.keys()).collect();
        for key in keys {
            let [before, after] = maps.map(|map| map.and_then(|map| map.get(key)));
            compare(
                &format!("{path}/{}", key.replace('~', "~0").replace('/', "~1")),
                before,
                after,
                hides_values,
                changes,
            );
        }
        return;
    }
    let name = name(path);
    if hides_values && path.starts_with("/data/") {
        changes.push(format!("{name} changes"));
        return;
    }
    let text = |value: Option<&Value>| value.map_or_else(|| NONE.to_owned(), ToString::to_string);
    changes.push(format!("{name}: {} -> {}", text(before), text(after)));
}

/// Returns the name of a field at a JSON pointer, such as `spec.region` or `metadata.labels[a.b/c]`.
fn name(pointer: &str) -> String {
    let mut name = String::new();
    for key in pointer.split('/').skip(1) {
        let key = key.replace("~1", "/").replace("~0", "~");
        if key.contains(['.', '/']) {
            name.extend(["[", &key, "]"]);
        } else {
            let dot = if name.is_empty() { "" } else { "." };
            name.extend([dot, &key]);
        }
    }
    name
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
        let secret = |token: &str| -> Secret {
            serde_json::from_value(json!({ "data": { "token": token } })).unwrap()
        };
        assert_eq!(
            describe(&secret("YQ=="), &secret("Yg==")).unwrap(),
            ["data.token changes"]
        );
    }
}
