//! Defaults of CustomResourceDefinitions that the OpenAPI schema of this kind does not contain.

use serde_json::{Value, json};

/// Default port of a conversion webhook behind a Service.
const WEBHOOK_PORT: u16 = 443;

/// Sets the default names, the default conversion and the default port of a conversion webhook.
pub(super) fn default(definition: &mut Value) {
    let spec = &mut definition["spec"];
    let kind = spec["names"]["kind"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let names = &mut spec["names"];
    if names.is_object() && !kind.is_empty() {
        if names["singular"].as_str().unwrap_or_default().is_empty() {
            names["singular"] = json!(kind.to_lowercase());
        }
        if names["listKind"].as_str().unwrap_or_default().is_empty() {
            names["listKind"] = json!(format!("{kind}List"));
        }
    }
    if spec.is_object() && spec["conversion"].is_null() {
        spec["conversion"] = json!({"strategy": "None"});
    }
    let service = spec.pointer_mut("/conversion/webhook/clientConfig/service");
    if let Some(Value::Object(service)) = service {
        service.entry("port").or_insert(json!(WEBHOOK_PORT));
    }
}
