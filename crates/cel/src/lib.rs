//! CEL expressions: parsing, checking and bounded evaluation.

pub mod compile;
pub mod depth;
pub mod functions;
pub mod limits;
mod macros;
pub mod metering;
pub mod names;
pub mod parse;
pub mod tree;

/// A variable of an expression.
#[derive(Debug, Clone, Copy)]
pub struct Variable {
    /// The name of the variable.
    pub name: &'static str,
    /// True if the value of the variable is a CEL optional.
    pub optional: bool,
}

impl Variable {
    /// Returns a variable that always has a value.
    pub fn plain(name: &'static str) -> Self {
        Self {
            name,
            optional: false,
        }
    }
}
