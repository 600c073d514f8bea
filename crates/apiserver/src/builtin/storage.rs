//! Defaults of volumes and claims.

use serde_json::{Value, json};

use super::set;

/// Fills in the spec of a claim, alone or in a template.
pub(super) fn claim_spec(spec: &mut Value) {
    set(spec, "volumeMode", json!("Filesystem"));
}

/// The newer name of a claim's source says the same as the older one.
pub(super) fn claim_source(spec: &mut Value) {
    if let Some(source) = spec.get_mut("dataSource").filter(|s| s.is_object()) {
        set(source, "apiGroup", Value::Null);
        let source = source.clone();
        set(spec, "dataSourceRef", source);
    }
}

pub(super) fn volume(value: &mut Value) {
    let spec = &mut value["spec"];
    set(spec, "volumeMode", json!("Filesystem"));
    set(spec, "persistentVolumeReclaimPolicy", json!("Retain"));
    if let Some(path) = spec.get_mut("hostPath").filter(|p| p.is_object()) {
        set(path, "type", json!(""));
    }
}
