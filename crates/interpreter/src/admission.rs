//! The admission rule of ResourceInterpreterCustomizations: all scripts must compile.

use berth_api::ResourceInterpreterCustomization;
use berth_api::admission::{FieldError, Reason};
use serde_json::Value;

use crate::lua::check_syntax;
use crate::operation::Operation;

/// Checks the scripts of a ResourceInterpreterCustomization. Accepts an object that cannot be decoded, because the
/// schema rejects such an object.
///
/// # Errors
/// The first script that does not compile.
pub fn check_scripts(object: &Value) -> Result<(), FieldError> {
    let Ok(customization) =
        serde_json::from_value::<ResourceInterpreterCustomization>(object.clone())
    else {
        return Ok(());
    };
    let rules = &customization.spec.customizations;
    for operation in Operation::ALL {
        let Some(script) = operation.script(rules) else {
            continue;
        };
        if let Err(error) = check_syntax(script) {
            return Err(FieldError {
                field: format!("spec.customizations.{}.luaScript", operation.field()),
                reason: Reason::Invalid,
                message: format!("InterpreterOperation({operation}): {error}"),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn scripts_must_compile() {
        let of = |script: &str| {
            json!({"apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterCustomization",
                "metadata": {"name": "c"}, "spec": {"target": {"apiVersion": "x/v1", "kind": "X"},
                "customizations": {"retention": {"luaScript": "function Retain(d) return d end"},
                    "healthInterpretation": {"luaScript": script}}}})
        };
        assert!(check_scripts(&of("function InterpretHealth() return true end")).is_ok());
        assert!(check_scripts(&json!({"spec": 1})).is_ok());
        let error = check_scripts(&of("function InterpretHealth(")).unwrap_err();
        assert_eq!(
            error.field,
            "spec.customizations.healthInterpretation.luaScript"
        );
        assert!(error.message.contains("script:1:"), "{}", error.message);
    }
}
