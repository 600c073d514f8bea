//! What has to be done in a member so that an object there is what a manifest says.

use std::hash::{DefaultHasher, Hash, Hasher};

use berth_api::manifest::prune;
use berth_api::well_known::{CONFLICT_RESOLUTION, MANAGED, MANAGED_VALUE};
use serde_json::{Value, json};

use crate::interpreter::retain;

/// What has to be done.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// The object is as it should be, or is going and has to be gone first.
    Nothing,
    /// It has to be created.
    Create,
    /// It has to be replaced by this.
    Update(Box<Value>),
    /// It is somebody else's.
    Refuse,
}

/// A manifest, and the content that an API server made of it. As long as neither changes there is nothing to do,
/// although servers fill in defaults, so that the two differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settled {
    manifest: u64,
    content: u64,
}

impl Settled {
    /// The manifest has been applied, and this came out.
    pub fn of(manifest: &Value, object: &Value) -> Self {
        Self {
            manifest: fingerprint(manifest),
            content: content(object),
        }
    }
}

/// What has to be done with an object, or where there is none.
pub fn decide(manifest: &Value, observed: Option<&Value>, settled: Option<Settled>) -> Action {
    let Some(observed) = observed else {
        return Action::Create;
    };
    if observed.pointer("/metadata/deletionTimestamp").is_some() {
        return Action::Nothing;
    }
    if settled == Some(Settled::of(manifest, observed)) {
        return Action::Nothing;
    }
    if !is_managed(observed) && !overwrites(manifest) {
        return Action::Refuse;
    }
    let mut desired = manifest.clone();
    retain(&mut desired, observed);
    let mut there = observed.clone();
    prune(&mut there);
    retain(&mut there, observed);
    if desired == there {
        Action::Nothing
    } else {
        Action::Update(Box::new(desired))
    }
}

/// Whether an object came from a control plane, and so may be changed and deleted.
pub fn is_managed(object: &Value) -> bool {
    let labels = object.pointer("/metadata/labels");
    labels.and_then(|labels| labels.get(MANAGED)) == Some(&json!(MANAGED_VALUE))
}

fn overwrites(manifest: &Value) -> bool {
    let annotations = manifest.pointer("/metadata/annotations");
    annotations.and_then(|annotations| annotations.get(CONFLICT_RESOLUTION))
        == Some(&json!("overwrite"))
}

/// What a Work has put into an object, without what the server counts and what controllers report.
fn content(object: &Value) -> u64 {
    const COUNTED: [&str; 3] = ["resourceVersion", "managedFields", "generation"];
    let mut sum = 0_u64;
    for (key, value) in object.as_object().into_iter().flatten() {
        match key.as_str() {
            "status" => {}
            "metadata" => {
                let fields = value.as_object().into_iter().flatten();
                for (field, value) in fields.filter(|(field, _)| !COUNTED.contains(&field.as_str()))
                {
                    sum = sum.wrapping_add(entry(field, value).rotate_left(1));
                }
            }
            _ => sum = sum.wrapping_add(entry(key, value)),
        }
    }
    sum
}

fn entry(key: &str, value: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    fingerprint(value).hash(&mut hasher);
    hasher.finish()
}

/// A hash that does not depend on the order of fields.
fn fingerprint(value: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    match value {
        Value::Object(fields) => {
            let entries = fields.iter().map(|(key, value)| entry(key, value));
            entries.fold(1_u64, u64::wrapping_add).hash(&mut hasher);
        }
        Value::Array(items) => {
            for item in items {
                fingerprint(item).hash(&mut hasher);
            }
            items.len().hash(&mut hasher);
        }
        other => other.to_string().hash(&mut hasher),
    }
    hasher.finish()
}

/// The manifest as it stays behind in a member when its Work is preserved: without the marks that make it ours.
pub fn released(manifest: &Value) -> Value {
    use berth_api::well_known as known;
    let labels = [
        known::RESOURCE_BINDING_PERMANENT_ID,
        known::CLUSTER_RESOURCE_BINDING_PERMANENT_ID,
        known::WORK_PERMANENT_ID,
        known::MANAGED,
        known::PROPAGATION_POLICY_PERMANENT_ID,
        known::CLUSTER_PROPAGATION_POLICY_PERMANENT_ID,
    ];
    let annotations = [
        known::MANAGED_ANNOTATIONS,
        known::MANAGED_LABELS,
        known::RESOURCE_BINDING_NAMESPACE,
        known::RESOURCE_BINDING_NAME,
        known::CLUSTER_RESOURCE_BINDING_NAME,
        known::TEMPLATE_UID,
        known::TEMPLATE_GENERATION,
        known::WORK_NAME,
        known::WORK_NAMESPACE,
        known::PROPAGATION_POLICY_NAMESPACE,
        known::PROPAGATION_POLICY_NAME,
        known::CLUSTER_PROPAGATION_POLICY_NAME,
    ];
    let mut released = manifest.clone();
    for (map, keys) in [("labels", &labels[..]), ("annotations", &annotations[..])] {
        let entries = released.pointer_mut(&format!("/metadata/{map}"));
        if let Some(entries) = entries.and_then(Value::as_object_mut) {
            for key in keys {
                entries.remove(*key);
            }
        }
    }
    released
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c",
            "labels": {(MANAGED): "true"}}, "data": {"a": "1"}})
    }

    fn observed(extra: Value) -> Value {
        let mut object = manifest();
        object["metadata"]["resourceVersion"] = json!("5");
        object["metadata"]["uid"] = json!("u");
        for (key, value) in extra.as_object().unwrap() {
            object[key] = value.clone();
        }
        object
    }

    #[test]
    fn missing_is_created_equal_is_left_and_drift_is_put_right() {
        assert_eq!(decide(&manifest(), None, None), Action::Create);
        assert_eq!(
            decide(&manifest(), Some(&observed(json!({}))), None),
            Action::Nothing
        );
        let drifted = observed(json!({"data": {"a": "2"}}));
        let Action::Update(desired) = decide(&manifest(), Some(&drifted), None) else {
            panic!("drift is not put right");
        };
        assert_eq!(desired["data"], json!({"a": "1"}));
        assert_eq!(desired["metadata"]["resourceVersion"], "5");
    }

    #[test]
    fn what_a_server_fills_in_is_no_drift_once_it_is_known() {
        let defaulted = observed(json!({"immutable": false, "status": {"a": 1}}));
        assert!(matches!(
            decide(&manifest(), Some(&defaulted), None),
            Action::Update(_)
        ));
        let settled = Some(Settled::of(&manifest(), &defaulted));
        let mut reported = defaulted.clone();
        reported["status"] = json!({"a": 2});
        reported["metadata"]["resourceVersion"] = json!("6");
        assert_eq!(
            decide(&manifest(), Some(&reported), settled),
            Action::Nothing
        );
        reported["data"]["a"] = json!("2");
        assert!(matches!(
            decide(&manifest(), Some(&reported), settled),
            Action::Update(_)
        ));
        let mut changed = manifest();
        changed["data"]["b"] = json!("3");
        assert!(matches!(
            decide(&changed, Some(&defaulted), settled),
            Action::Update(_)
        ));
    }

    #[test]
    fn what_is_somebody_elses_is_taken_over_only_when_asked_for() {
        let mut foreign = observed(json!({}));
        foreign["metadata"]["labels"] = json!({"app": "x"});
        assert_eq!(decide(&manifest(), Some(&foreign), None), Action::Refuse);
        let mut overwriting = manifest();
        overwriting["metadata"]["annotations"] = json!({(CONFLICT_RESOLUTION): "overwrite"});
        let Action::Update(desired) = decide(&overwriting, Some(&foreign), None) else {
            panic!("it is not taken over");
        };
        assert_eq!(
            desired["metadata"]["labels"],
            json!({"app": "x", (MANAGED): "true"})
        );
    }

    #[test]
    fn what_is_going_has_to_be_gone_first() {
        let mut going = observed(json!({"data": {}}));
        going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert_eq!(decide(&manifest(), Some(&going), None), Action::Nothing);
    }

    #[test]
    fn what_stays_behind_is_not_ours_any_more() {
        let mut there = manifest();
        there["metadata"]["labels"]["app"] = json!("x");
        let released = released(&there);
        assert!(!is_managed(&released));
        assert_eq!(released["metadata"]["labels"], json!({"app": "x"}));
    }
}
