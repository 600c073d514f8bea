//! Labels and annotations.

use berth_api::override_policy::{LabelAnnotationOverrider, OverriderOperator};
use serde_json::{Value, json};

/// Changes a map of `metadata`; only keys that are there are replaced and removed.
pub(super) fn apply(resource: &mut Value, map: &str, overrider: &LabelAnnotationOverrider) {
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
