//! Errors of the interpreter.

use crate::operation::Operation;
use crate::webhooks::WebhookError;

/// An error of the interpretation of an object.
#[derive(Debug, thiserror::Error)]
pub enum InterpretError {
    /// A field of the template has the wrong type.
    #[error("the template is not a valid {kind}: {source}")]
    Shape {
        /// The kind of the template.
        kind: String,
        /// The decoding error.
        source: serde_json::Error,
    },
    /// A quantity is malformed.
    #[error("{resource} of container {container:?} is not a quantity: {text:?}")]
    Quantity {
        /// The container, or `overhead`.
        container: String,
        /// The resource.
        resource: String,
        /// The malformed quantity.
        text: String,
    },
    /// A required field is missing.
    #[error("{0} is missing or has the wrong type; set it")]
    Field(String),
    /// A script or a webhook changed the identity of an object.
    #[error(
        "{operation} of the customization or webhook changed {field}, which identifies the object; return the field unchanged"
    )]
    Identity {
        /// The operation.
        operation: Operation,
        /// The JSON pointer of the field.
        field: &'static str,
    },
    /// A script of a customization failed.
    #[error(
        "ResourceInterpreterCustomization {customization:?} cannot run {}: {source}",
        .operation.function()
    )]
    Script {
        /// The name of the customization.
        customization: String,
        /// The operation.
        operation: Operation,
        /// The cause.
        source: ScriptError,
    },
    /// A webhook failed.
    #[error("failed calling webhook {webhook:?} for {operation}: {source}")]
    Webhook {
        /// The name of the webhook in the form `CONFIGURATION/WEBHOOK`.
        webhook: String,
        /// The operation.
        operation: Operation,
        /// The cause.
        source: WebhookError,
    },
}

impl InterpretError {
    /// Returns the failed operation if a script or a webhook performs it.
    pub fn operation(&self) -> Option<Operation> {
        match self {
            Self::Script { operation, .. }
            | Self::Webhook { operation, .. }
            | Self::Identity { operation, .. } => Some(*operation),
            Self::Shape { .. } | Self::Quantity { .. } | Self::Field(_) => None,
        }
    }

    /// Reports whether the operation may succeed later for the same object: a webhook failed, or the script did not run.
    pub fn is_temporary(&self) -> bool {
        let is_delayed =
            |source: &ScriptError| matches!(source, ScriptError::Busy | ScriptError::Paused(_));
        match self {
            Self::Webhook { .. } => true,
            Self::Script { source, .. } => is_delayed(source),
            Self::Shape { .. } | Self::Quantity { .. } | Self::Field(_) | Self::Identity { .. } => {
                false
            }
        }
    }
}

/// An error of a script.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// The script does not compile.
    #[error("the script does not compile: {0}")]
    Syntax(String),
    /// The script raised an error.
    #[error("{0}")]
    Runtime(String),
    /// The script does not declare its function.
    #[error("the script does not declare function {0}; its value is {1}")]
    NoFunction(&'static str, &'static str),
    /// The script ran too long.
    #[error("the script did not return within {0} ms")]
    Timeout(u128),
    /// The script ran out of time in an earlier call, and is paused.
    #[error("the script did not return in time; it runs again in {0} s")]
    Paused(u64),
    /// Other scripts that do not return hold all threads.
    #[error(
        "no thread is free for the script, because other scripts do not return; fix or delete them"
    )]
    Busy,
    /// The script used too much memory.
    #[error("the script needs more than {0} MiB of memory")]
    Memory(usize),
    /// The script returned a value of the wrong type.
    #[error("the returned value is a {found}; expected a {expected}")]
    Type {
        /// The expected type.
        expected: &'static str,
        /// The type of the returned value.
        found: &'static str,
    },
    /// A returned value cannot be converted to JSON.
    #[error("the returned value cannot be converted: {0}")]
    Convert(#[from] ConvertError),
    /// The returned value lacks required fields or has fields of the wrong type.
    #[error("the returned value is not a valid {what}: {source}")]
    Shape {
        /// The name of the expected type.
        what: &'static str,
        /// The decoding error.
        source: serde_json::Error,
    },
    /// A field of the returned value is invalid.
    #[error("the returned value is not valid: {0}")]
    Invalid(String),
}

/// An error of the conversion of a Lua value to JSON.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConvertError {
    /// A list has gaps, or its indices are not positive integers.
    #[error("a list has gaps")]
    Sparse,
    /// A table has both names and indices, or keys of other types.
    #[error("a table mixes names and indices, or has keys of other types")]
    Keys,
    /// A table occurs more than once in the value.
    #[error("a table occurs more than once; copy it instead")]
    Repeated,
    /// Tables are nested too deeply.
    #[error("tables are nested more than {0} levels deep")]
    Depth(usize),
    /// JSON cannot express a number.
    #[error("{0} is not a JSON number")]
    Number(String),
    /// JSON cannot express a value of this type.
    #[error("a {0} has no JSON form")]
    Type(&'static str),
    /// A table cannot be read.
    #[error("a table cannot be read: {0}")]
    Lua(String),
}
