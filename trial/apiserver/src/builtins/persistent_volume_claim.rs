//! Defaults of persistent volume claims, and the copy of `dataSource` to `dataSourceRef`.

use serde_json::{Value, json};

use super::{fill_at, set};

/// Sets the defaults of the spec of a claim or of a claim template.
pub(super) fn claim_spec(spec: &mut Value) {
    set(spec, "volumeMode", json!("Filesystem"));
}

/// Sets the defaults of a claim. The API group of a data source is null if the client omits it.
pub(super) fn claim(value: &mut Value) {
    let spec = &mut value["spec"];
    claim_spec(spec);
    for source in ["/dataSource", "/dataSourceRef"] {
        fill_at(spec, source, json!({"apiGroup": null}));
    }
}

/// Copies `dataSource` to an absent `dataSourceRef`. In a new claim, removes a `dataSource` that is neither a claim nor
/// a volume snapshot.
pub(super) fn copy_data_source(spec: &mut Value, creating: bool) {
    let Some(source) = spec.get("dataSource").filter(|s| s.is_object()).cloned() else {
        return;
    };
    let group = source["apiGroup"].as_str().unwrap_or_default();
    let known = matches!(
        (group, source["kind"].as_str()),
        ("", Some("PersistentVolumeClaim")) | ("snapshot.storage.k8s.io", Some("VolumeSnapshot"))
    );
    if known || !creating {
        set(spec, "dataSourceRef", source);
    } else if let Some(spec) = spec.as_object_mut() {
        spec.remove("dataSource");
    }
}
