//! Admission rules of bindings. They set the permanent id. They check the component names and the annotation that lists
//! the dependencies.

use std::collections::BTreeSet;

use serde_json::Value;

use super::field_error::{FieldError, Path};
use super::metadata::{entry, set_label};
use super::{Environment, GuardedKind, Operation};
use crate::well_known::DEPENDENCIES;

pub(super) fn mutate(
    kind: GuardedKind,
    operation: Operation,
    binding: &mut Value,
    environment: &mut dyn Environment,
) {
    if operation == Operation::Create
        && let Some(label) = kind.permanent_id_label()
        && entry(binding, "labels", label).is_none_or(str::is_empty)
    {
        set_label(binding, label, environment.new_id());
    }
}

pub(super) fn check(binding: &Value) -> Vec<FieldError> {
    let mut errors = check_dependencies(binding);
    errors.extend(check_components(binding));
    errors
}

fn check_dependencies(binding: &Value) -> Vec<FieldError> {
    let Some(text) = entry(binding, "annotations", DEPENDENCIES) else {
        return Vec::new();
    };
    let list: Result<Option<Vec<serde_json::Map<String, Value>>>, _> = serde_json::from_str(text);
    match list {
        Ok(_) => Vec::new(),
        Err(error) => vec![
            Path::new("metadata.annotations")
                .key(DEPENDENCIES)
                .invalid(format!("must be a JSON array of references: {error}")),
        ],
    }
}

/// Rejects components with an empty name and components with the name of an earlier component.
fn check_components(binding: &Value) -> Vec<FieldError> {
    let path = Path::new("spec.components");
    let components = binding.pointer("/spec/components");
    let components = components.and_then(Value::as_array).into_iter().flatten();
    let mut names = BTreeSet::new();
    let mut errors = Vec::new();
    for (index, component) in components.enumerate() {
        let name = component.get("name").and_then(Value::as_str);
        let name = name.unwrap_or_default();
        let message = if name.is_empty() {
            "component names must be non-empty"
        } else if names.insert(name) {
            continue;
        } else {
            "component names must be unique"
        };
        errors.push(path.index(index).child("name").invalid(message));
    }
    errors
}
