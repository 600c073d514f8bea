//! The differences between the manifest of a Work and the object in the member, as fields. [`drift`](super::drift)
//! decides what to do about them.
//!
//! A manifest lacks the defaults of the member's server. Only the server knows them, so the exact comparison needs its
//! response to a write of [`wanted_object`], or to a dry run of this write: [`changed_fields`] then returns what the
//! write changes. Without a response, [`certain_changes`] leaves out the fields that may be defaults.

use berth_api::manifest::prune;
use berth_api::well_known as known;
use berth_apimachinery::field_changes::{FieldChange, field_changes};
use berth_interpreter::{InterpretError, Interpreter};
use serde_json::Value;

use super::applied_state::VOLATILE;
pub use super::ownership::is_managed;
use super::ownership::retain_id;

/// Maximum number of fields in a message.
const MAX_FIELDS: usize = 5;
/// Maximum length of a field's path in a message.
const MAX_FIELD_LENGTH: usize = 120;
/// Objects whose keys are chosen by users, so that a server adds no defaults to them.
const FREE_KEYS: [&str; 9] = [
    "data",
    "binaryData",
    "stringData",
    "labels",
    "annotations",
    "nodeSelector",
    "matchLabels",
    "selector",
    "limits",
];

/// Returns the object that a write of this manifest stores, without the defaults of the member's server. The fields
/// that the member owns are those of the observed object.
///
/// # Errors
/// When the interpreter cannot retain the fields that the member owns.
pub fn wanted_object(
    manifest: &Value,
    observed: &Value,
    interpreter: &Interpreter,
) -> Result<Value, InterpretError> {
    let mut wanted = manifest.clone();
    interpreter.retain(&mut wanted, observed)?;
    retain_id(&mut wanted, observed);
    Ok(wanted)
}

/// Returns the fields in which two versions of an object differ, except for the status, the marks and the metadata that
/// changes with every write.
pub fn changed_fields(old: &Value, new: &Value) -> Vec<FieldChange> {
    field_changes(&content(old), &content(new))
}

/// Returns the fields in which an object in a member differs from the [`wanted_object`]. Fields that only the observed
/// object has are left out if they may be defaults of the server.
pub fn certain_changes(wanted: &Value, observed: &Value) -> Vec<FieldChange> {
    let mut observed = observed.clone();
    prune(&mut observed);
    let mut wanted = wanted.clone();
    prune(&mut wanted);
    let (wanted, mut observed) = (content(&wanted), content(&observed));
    remove_possible_defaults(&wanted, &mut observed);
    field_changes(&wanted, &observed)
}

/// Removes the fields of `observed` that `wanted` lacks, except for items of lists and for keys that users choose.
fn remove_possible_defaults(wanted: &Value, observed: &mut Value) {
    match (wanted, observed) {
        (Value::Object(wanted), Value::Object(observed)) => {
            observed.retain(|name, _| wanted.contains_key(name));
            for (name, value) in observed {
                if let Some(wanted) = wanted.get(name)
                    && !FREE_KEYS.contains(&name.as_str())
                {
                    remove_possible_defaults(wanted, value);
                }
            }
        }
        (Value::Array(wanted), Value::Array(observed)) => {
            for (index, value) in observed.iter_mut().enumerate() {
                let name = value.get("name").and_then(Value::as_str);
                let named = name.and_then(|name| {
                    let mut items = wanted.iter();
                    items.find(|item| item.get("name").and_then(Value::as_str) == Some(name))
                });
                if let Some(wanted) = named.or_else(|| wanted.get(index)) {
                    remove_possible_defaults(wanted, value);
                }
            }
        }
        _ => {}
    }
}

/// Returns an object without its status, its marks and the metadata that changes with every write.
pub fn content(object: &Value) -> Value {
    let mut content = without_marks(object);
    if let Some(fields) = content.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = content.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in VOLATILE {
            metadata.remove(field);
        }
        for map in ["labels", "annotations"] {
            if let Some(annotations) = metadata.get_mut(map).and_then(Value::as_object_mut) {
                annotations.remove(known::CONFLICT_RESOLUTION);
                annotations.remove(known::DRIFT_MODE);
                if annotations.is_empty() {
                    metadata.remove(map);
                }
            }
        }
    }
    content
}

/// Returns the names of changed fields for a message, such as `spec.replicas, spec.paused and 2 more`.
pub(crate) fn field_names(changes: &[FieldChange]) -> String {
    let shorten = |field: &str| match field.char_indices().nth(MAX_FIELD_LENGTH) {
        Some((end, _)) => format!("{}…", field.get(..end).unwrap_or_default()),
        None => field.to_owned(),
    };
    let shown = changes.iter().take(MAX_FIELDS);
    let shown: Vec<String> = shown.map(|change| shorten(&change.field)).collect();
    match (changes.len().saturating_sub(shown.len()), &shown[..]) {
        (0, [first @ .., last]) if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        (0, _) => shown.concat(),
        (more, _) => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Reports whether a manifest asks to report drift instead of correcting it.
pub fn reports_drift(manifest: &Value) -> bool {
    let annotations = manifest.pointer("/metadata/annotations");
    let mode = annotations.and_then(|annotations| annotations.get(known::DRIFT_MODE)?.as_str());
    mode == Some(known::DRIFT_MODE_REPORT)
}

/// Returns an object without the labels and annotations that mark it as managed.
pub fn without_marks(object: &Value) -> Value {
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
        known::CONTROL_PLANE,
        known::PROPAGATION_POLICY_NAMESPACE,
        known::PROPAGATION_POLICY_NAME,
        known::CLUSTER_PROPAGATION_POLICY_NAME,
    ];
    let mut unmarked = object.clone();
    for (map, keys) in [("labels", &labels[..]), ("annotations", &annotations[..])] {
        let entries = unmarked.pointer_mut(&format!("/metadata/{map}"));
        if let Some(entries) = entries.and_then(Value::as_object_mut) {
            for key in keys {
                entries.remove(*key);
            }
        }
    }
    unmarked
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn names(changes: &[FieldChange]) -> Vec<&str> {
        changes.iter().map(|change| change.field.as_str()).collect()
    }

    /// A manifest as the propagation writes it, with its marks.
    fn manifest() -> Value {
        json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "default",
                "labels": {(known::MANAGED): "true", "app": "web"},
                "annotations": {(known::MANAGED_LABELS): "app", (known::TEMPLATE_GENERATION): "3"}},
            "spec": {"replicas": 2, "template": {"spec": {"containers": [{"name": "web", "image": "nginx:1"}]}}}})
    }

    /// The object of the manifest with the fields that a member's server and its controllers add.
    fn observed() -> Value {
        let mut object = manifest();
        let metadata = &mut object["metadata"];
        metadata["uid"] = json!("u");
        metadata["resourceVersion"] = json!("7");
        metadata["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
        metadata["annotations"]["deployment.kubernetes.io/revision"] = json!("1");
        object["spec"]["progressDeadlineSeconds"] = json!(600);
        object["spec"]["template"]["spec"]["restartPolicy"] = json!("Always");
        object["spec"]["template"]["spec"]["containers"][0]["imagePullPolicy"] =
            json!("IfNotPresent");
        object["status"] = json!({"replicas": 2});
        object
    }

    #[test]
    fn defaults_marks_and_fields_of_the_member_are_no_difference() {
        let container = "/spec/template/spec/containers";
        let cases: [(&str, &str, Value, &[&str]); 10] = [
            ("nothing", "/spec/replicas", json!(2), &[]),
            ("a field", "/spec/replicas", json!(5), &["spec.replicas"]),
            ("a default", "/spec/minReadySeconds", json!(0), &[]),
            (
                "a label of the member",
                "/metadata/labels/theirs",
                json!("1"),
                &[],
            ),
            (
                "a label of the template",
                "/metadata/labels/app",
                json!("x"),
                &["metadata.labels.app"],
            ),
            (
                "a mark",
                "/metadata/annotations/resourcetemplate.karmada.io~1generation",
                json!("2"),
                &[],
            ),
            (
                "the mode",
                "/metadata/annotations/drift.berth~1mode",
                json!("report"),
                &[],
            ),
            ("the status", "/status/replicas", json!(1), &[]),
            (
                "a container",
                container,
                json!([{"name": "log"}, {"name": "web", "image": "nginx:2", "stdin": false}]),
                &[
                    "spec.template.spec.containers[0].image",
                    "spec.template.spec.containers[0]",
                ],
            ),
            (
                "no list",
                container,
                json!(null),
                &["spec.template.spec.containers"],
            ),
        ];
        for (case, pointer, value, expected) in cases {
            let mut object = observed();
            let (parent, field) = pointer.rsplit_once('/').unwrap();
            object.pointer_mut(parent).unwrap()[field.replace("~1", "/")] = value;
            let interpreter = Interpreter::default();
            let wanted = wanted_object(&manifest(), &object, &interpreter).unwrap();
            let changes = certain_changes(&wanted, &object);
            assert_eq!(names(&changes), expected, "{case}");
        }
    }

    #[test]
    fn keys_that_users_choose_are_never_defaults() {
        let map = |data: Value| {
            json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "c"}, "data": data})
        };
        let changes = certain_changes(&map(json!({"a": "1"})), &map(json!({"a": "1", "b": "2"})));
        assert_eq!(names(&changes), ["data.b"]);
        assert_eq!(
            (&changes[0].old, &changes[0].new),
            (&None, &Some(json!("2")))
        );
    }

    /// The responses of a server contain its defaults, so every other field counts.
    #[test]
    fn two_versions_of_an_object_are_compared_exactly() {
        let mut paused = observed();
        paused["spec"]["paused"] = json!(true);
        paused["metadata"]["generation"] = json!(9);
        paused["metadata"]["resourceVersion"] = json!("9");
        paused["status"] = json!({"replicas": 1});
        paused["metadata"]["labels"]["theirs"] = json!("1");
        assert_eq!(
            names(&changed_fields(&observed(), &paused)),
            ["metadata.labels.theirs", "spec.paused"]
        );
    }

    #[test]
    fn a_message_names_five_fields_at_most() {
        let changes = |count: usize| -> Vec<FieldChange> {
            let fields = (0..count).map(|index| FieldChange {
                field: format!("f{index}"),
                old: None,
                new: None,
            });
            fields.collect()
        };
        for (count, expected) in [
            (1, "f0"),
            (2, "f0 and f1"),
            (3, "f0, f1 and f2"),
            (5, "f0, f1, f2, f3 and f4"),
            (7, "f0, f1, f2, f3, f4 and 2 more"),
        ] {
            assert_eq!(field_names(&changes(count)), expected);
        }
    }

    #[test]
    fn an_object_without_marks_is_not_managed() {
        let unmarked = without_marks(&manifest());
        assert!(!super::super::ownership::is_managed(&unmarked));
        assert_eq!(unmarked["metadata"]["labels"], json!({"app": "web"}));
    }
}
