//! Errors of the compilation and of the evaluation of expressions.

use std::fmt;

use kube_cel::cel::{ExecutionError, Value};

use super::limits::Exceeded;

/// A mistake in an expression. The text of the error is that of the API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CompileError {
    /// The text is no expression.
    Syntax {
        /// The line, counted from 1.
        line: usize,
        /// The column, counted from 1.
        column: usize,
        /// The description of the parser.
        message: String,
    },
    /// A name is unknown.
    Undeclared {
        /// The noun for the name: variable, function or type.
        noun: &'static str,
        /// The unknown name.
        name: String,
    },
    /// A constant pattern cannot be compiled.
    Pattern {
        /// The function that gets the pattern.
        function: String,
        /// The mistake in the pattern.
        message: String,
    },
    /// Another mistake.
    Other(String),
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax {
                line,
                column,
                message,
            } => write!(f, "line {line}, column {column}: {message}"),
            Self::Undeclared { name, .. } => write!(f, "undeclared reference to '{name}'"),
            Self::Pattern { message, .. } | Self::Other(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for CompileError {}

impl From<String> for CompileError {
    fn from(message: String) -> Self {
        Self::Other(message)
    }
}

/// The reason for which an evaluation has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The evaluation exceeded a limit.
    Exceeded(Exceeded),
    /// The evaluation failed. The text is the message of Kubernetes.
    Error(String),
}

/// Returns the message for a failed evaluation.
pub(crate) fn message(error: &ExecutionError) -> String {
    match error {
        ExecutionError::NoSuchKey(key) => format!("no such key: {key}"),
        ExecutionError::IndexOutOfBounds(Value::Int(at)) => format!("index out of bounds: {at}"),
        ExecutionError::DivisionByZero(_) => "division by zero".to_owned(),
        ExecutionError::RemainderByZero(_) => "modulus by zero".to_owned(),
        ExecutionError::Overflow(..) => "integer overflow".to_owned(),
        ExecutionError::MissingArgumentOrTarget => {
            "an argument of a function is missing".to_owned()
        }
        ExecutionError::UndeclaredReference(name) => format!("undeclared reference to '{name}'"),
        ExecutionError::FunctionError { message, .. } => message.clone(),
        _ => "no such overload".to_owned(),
    }
}
