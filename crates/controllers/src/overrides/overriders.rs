//! Overriders: the changes that one rule of a policy makes to a resource.

use berth_api::override_policy::{
    CommandArgsOverrider, FieldOverrider, LabelAnnotationOverrider, OverriderOperator, Overriders,
    PlaintextOverrider,
};
use serde_json::{Value, json};

use super::containers::containers_mut;
use super::error::ApplyError;
use super::json_text::{self, Document};
use super::{image, yaml_text};

/// Applies the overriders of a rule in Karmada's order.
pub(crate) fn apply(resource: &mut Value, overriders: &Overriders) -> Result<(), ApplyError> {
    for overrider in &overriders.image_overrider {
        image::apply(resource, overrider)?;
    }
    for overrider in &overriders.command_overrider {
        apply_to_containers(resource, "command", overrider);
    }
    for overrider in &overriders.args_overrider {
        apply_to_containers(resource, "args", overrider);
    }
    for overrider in &overriders.labels_overrider {
        apply_to_metadata(resource, "labels", overrider);
    }
    for overrider in &overriders.annotations_overrider {
        apply_to_metadata(resource, "annotations", overrider);
    }
    for overrider in &overriders.field_overrider {
        apply_to_document(resource, overrider)?;
    }
    for PlaintextOverrider {
        path,
        operator,
        value,
    } in &overriders.plaintext
    {
        patch(resource, path, operator, value.as_ref())?;
    }
    Ok(())
}

/// Appends values to a list of the overrider's container, or removes values from this list. `list` is the name of the
/// field, `command` or `args`. Creates a missing list.
fn apply_to_containers(resource: &mut Value, list: &str, overrider: &CommandArgsOverrider) {
    for container in containers_mut(resource) {
        if container.get("name") != Some(&json!(overrider.container_name)) {
            continue;
        }
        let values = container.get(list).and_then(Value::as_array);
        let mut values = values.cloned().unwrap_or_default();
        match overrider.operator {
            OverriderOperator::Add => {
                values.extend(overrider.value.iter().map(|value| json!(value)));
            }
            OverriderOperator::Remove => {
                values.retain(|value| !overrider.value.iter().any(|removed| value == removed));
            }
            OverriderOperator::Replace | OverriderOperator::Other(_) => {}
        }
        if let Some(container) = container.as_object_mut() {
            container.insert(list.to_owned(), Value::Array(values));
        }
    }
}

/// Changes labels or annotations. The operator `replace` changes only existing keys.
fn apply_to_metadata(resource: &mut Value, map: &str, overrider: &LabelAnnotationOverrider) {
    let Some(metadata) = resource.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    if overrider.operator == OverriderOperator::Add {
        let slot = metadata.entry(map).or_insert(Value::Null);
        if slot.is_null() {
            *slot = json!({});
        }
    }
    let Some(entries) = metadata.get_mut(map).and_then(Value::as_object_mut) else {
        return;
    };
    for (key, value) in &overrider.value {
        match overrider.operator {
            OverriderOperator::Add => {
                entries.insert(key.clone(), json!(value));
            }
            OverriderOperator::Replace => {
                if let Some(present) = entries.get_mut(key) {
                    *present = json!(value);
                }
            }
            OverriderOperator::Remove => {
                entries.remove(key);
            }
            OverriderOperator::Other(_) => {}
        }
    }
}

/// Patches the JSON or YAML document in a text field, for example in a ConfigMap.
fn apply_to_document(resource: &mut Value, overrider: &FieldOverrider) -> Result<(), ApplyError> {
    let path = &overrider.field_path;
    let Some(Value::String(text)) = resource.pointer_mut(path) else {
        return Err(ApplyError::NotText(path.clone()));
    };
    let malformed = |message: String| ApplyError::Document {
        path: path.clone(),
        message,
    };
    if overrider.yaml.is_empty() {
        let mut document = Document::parse(text).map_err(|error| malformed(error.to_string()))?;
        for operation in &overrider.json {
            let value = operation.value.as_ref();
            let patched = document.patch(&operation.sub_path, &operation.operator, value);
            patched.map_err(|error| ApplyError::Text {
                operator: operation.operator.as_str().to_owned(),
                path: operation.sub_path.clone(),
                problem: error.to_string(),
            })?;
        }
        *text = document.to_string();
    } else {
        let mut document: Value =
            yaml_text::parse(text).map_err(|error| malformed(error.to_string()))?;
        for operation in &overrider.yaml {
            let value = operation.value.as_ref();
            patch(
                &mut document,
                &operation.sub_path,
                &operation.operator,
                value,
            )?;
        }
        *text = yaml_text::format(&document);
    }
    Ok(())
}

/// Applies one JSON patch operation. As in Karmada, a negative index counts from the end of a list.
fn patch(
    document: &mut Value,
    path: &str,
    operator: &OverriderOperator,
    value: Option<&Value>,
) -> Result<(), ApplyError> {
    let path = &resolve_indexes(document, path, operator);
    let mut operation = json!({ "op": operator.as_str(), "path": path });
    if *operator != OverriderOperator::Remove {
        operation["value"] = value.cloned().unwrap_or_default();
    }
    let operation: json_patch::PatchOperation = serde_json::from_value(operation)?;
    json_patch::patch(document, &[operation]).map_err(|source| ApplyError::Patch {
        operator: operator.as_str().to_owned(),
        path: path.to_owned(),
        source,
    })
}

/// Replaces the negative indexes of a path by positive indexes, because standard JSON patches do not allow negative
/// indexes.
fn resolve_indexes(document: &Value, path: &str, operator: &OverriderOperator) -> String {
    let mut current = Some(document);
    let mut tokens = path.split('/').peekable();
    let mut result = Vec::new();
    result.extend(tokens.next().map(str::to_owned));
    while let Some(token) = tokens.next() {
        // An item may also be added after the last item.
        let extra = usize::from(tokens.peek().is_none() && *operator == OverriderOperator::Add);
        let index = match current {
            Some(Value::Array(items)) if token != "-" => {
                json_text::index(token, items.len() + extra)
            }
            _ => None,
        };
        current = match (current, index) {
            (Some(Value::Array(items)), Some(index)) => items.get(index),
            (Some(Value::Object(fields)), _) => fields.get(&json_text::unescape(token)),
            _ => None,
        };
        result.push(index.map_or_else(|| token.to_owned(), |index| index.to_string()));
    }
    result.join("/")
}
