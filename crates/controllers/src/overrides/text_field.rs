//! Fields that hold JSON or YAML as text, for example in a ConfigMap.

use berth_api::override_policy::FieldOverrider;
use serde_json::Value;

use super::json_text::Document;
use super::{Reason, patch, yaml_text};

/// Reads the text, patches the document, writes it back.
pub(super) fn apply(resource: &mut Value, overrider: &FieldOverrider) -> Result<(), Reason> {
    let path = &overrider.field_path;
    let field = resource.pointer_mut(path);
    let Some(Value::String(text)) = field else {
        return Err(Reason::NotText(path.clone()));
    };
    let failed = |message: String| Reason::Document {
        path: path.clone(),
        message,
    };
    if overrider.yaml.is_empty() {
        let mut document = Document::read(text).map_err(|error| failed(error.to_string()))?;
        for operation in &overrider.json {
            let value = operation.value.as_ref();
            let patched = document.patch(&operation.sub_path, &operation.operator, value);
            patched.map_err(|misfit| Reason::Text {
                operator: operation.operator.as_str().to_owned(),
                path: operation.sub_path.clone(),
                problem: misfit.to_string(),
            })?;
        }
        *text = document.to_string();
    } else {
        let mut document: Value =
            yaml_text::read(text).map_err(|error| failed(error.to_string()))?;
        for operation in &overrider.yaml {
            let value = operation.value.as_ref();
            patch(
                &mut document,
                &operation.sub_path,
                &operation.operator,
                value,
            )?;
        }
        *text = yaml_text::write(&document);
    }
    Ok(())
}
