//! Errors of the interpreter.

use crate::operation::Operation;
use crate::webhooks::WebhookError;

/// An object that could not be interpreted.
#[derive(Debug, thiserror::Error)]
pub enum InterpretError {
    /// A field has the wrong type.
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
        /// The malformed text.
        text: String,
    },
    /// A required field is missing.
    #[error("{0} is missing or has the wrong type; set it")]
    Field(String),
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
    /// A webhook did not interpret the object.
    #[error("failed calling webhook {webhook:?} for {operation}: {source}")]
    Webhook {
        /// The name of the webhook, `CONFIGURATION/WEBHOOK`.
        webhook: String,
        /// The operation.
        operation: Operation,
        /// The cause.
        source: WebhookError,
    },
}

impl InterpretError {
    /// Returns the operation that failed, if a script or a webhook performs it.
    pub fn operation(&self) -> Option<Operation> {
        match self {
            Self::Script { operation, .. } | Self::Webhook { operation, .. } => Some(*operation),
            Self::Shape { .. } | Self::Quantity { .. } | Self::Field(_) => None,
        }
    }

    /// Reports whether a webhook failed, which may pass without a change of any object.
    pub fn is_of_webhook(&self) -> bool {
        matches!(self, Self::Webhook { .. })
    }
}

/// A failed script.
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
    /// The script ran too long before, and is not started again yet.
    #[error("the script did not return in time; it runs again in {0} s")]
    Paused(u64),
    /// The script used too much memory.
    #[error("the script needs more than {0} MiB of memory")]
    Memory(usize),
    /// A returned value has the wrong type.
    #[error("the returned value is a {found}; expected a {expected}")]
    Type {
        /// The expected type.
        expected: &'static str,
        /// The type of the value.
        found: &'static str,
    },
    /// A returned value cannot be converted to JSON.
    #[error("the returned value cannot be converted: {0}")]
    Convert(#[from] ConvertError),
    /// A returned value does not have the expected shape.
    #[error("the returned value is not a valid {what}: {source}")]
    Shape {
        /// The expected shape.
        what: &'static str,
        /// The decoding error.
        source: serde_json::Error,
    },
    /// A returned value has an invalid field.
    #[error("the returned value is not valid: {0}")]
    Invalid(String),
}

/// A Lua value without a JSON form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConvertError {
    /// A table with gaps in its list, or with indices that are not positive integers.
    #[error("a list has gaps")]
    Sparse,
    /// A table with both names and indices, or other keys.
    #[error("a table mixes names and indices, or has keys of other types")]
    Keys,
    /// A table that occurs twice.
    #[error("a table occurs more than once; copy it instead")]
    Repeated,
    /// Tables nested too deeply.
    #[error("tables are nested more than {0} levels deep")]
    Depth(usize),
    /// A number that JSON cannot express.
    #[error("{0} is not a JSON number")]
    Number(String),
    /// A value of another type.
    #[error("a {0} has no JSON form")]
    Type(&'static str),
    /// The table cannot be read.
    #[error("a table cannot be read: {0}")]
    Lua(String),
}
