//! Admission of bindings: the permanent id and the annotation with the dependencies.

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
