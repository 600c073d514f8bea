//! Removal of unknown plugins from a scheduler configuration, such as the out-of-tree plugins of another program.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::framework::Registry;

/// Returns a copy of a configuration document in which only registered plugins remain, and the names of the removed
/// plugins.
pub(crate) fn known_part(document: &Value, registry: &Registry) -> (Value, BTreeSet<String>) {
    let mut document = document.clone();
    let mut unknown = BTreeSet::new();
    let mut keep_known = |list: &mut Value| {
        let Some(list) = list.as_array_mut() else {
            return;
        };
        list.retain(|plugin| {
            let name = plugin.get("name").and_then(Value::as_str).unwrap_or("*");
            let is_known = name == "*" || registry.contains(name);
            if !is_known {
                unknown.insert(name.to_owned());
            }
            is_known
        });
    };
    let profiles = document.get_mut("profiles").and_then(Value::as_array_mut);
    for profile in profiles.into_iter().flatten() {
        if let Some(list) = profile.get_mut("pluginConfig") {
            keep_known(list);
        }
        let points = profile.get_mut("plugins").and_then(Value::as_object_mut);
        for lists in points.into_iter().flat_map(|points| points.values_mut()) {
            for field in ["enabled", "disabled"] {
                if let Some(list) = lists.get_mut(field) {
                    keep_known(list);
                }
            }
        }
    }
    (document, unknown)
}
