//! A sandbox for CEL expressions. It parses and compiles an expression, and evaluates it within limits on steps, bytes
//! and time. Expressions of the scheduler and rules of an API server have the same functions and the same semantics,
//! those of Kubernetes.
//!
//! | module | contents |
//! |---|---|
//! | `parse`, `macros`, `names`, `tree` | the syntax tree, with all macros expanded |
//! | `depth` | the nesting of an expression, and threads for deep expressions |
//! | `compile` | the check of names and constants, and the rewriting for the interpreter |
//! | `program` | a compiled expression and its evaluation |
//! | `functions` | the functions that the CEL crates lack or implement differently |
//! | `empty_entries` | maps that have an empty map for each missing key |
//! | `limits`, `metering` | the limits of an evaluation |
//!
//! This crate must not know schemas, kinds, clients or runtimes. No other crate depends on the CEL crates: the types
//! of syntax trees and values are exported here.

mod compile;
mod depth;
mod empty_entries;
mod error;
mod functions;
mod limits;
mod macros;
mod metering;
mod names;
mod parse;
mod program;
mod tree;

pub use compile::Variable;
pub use depth::{Depth, on_large_stack};
pub use empty_entries::add_empty_entries;
pub use error::{CompileError, Failure};
pub use functions::{duration, is_function, is_type, quantity, semver, timestamp};
pub use kube_cel::cel::Value;
pub use kube_cel::cel::common::value::Val;
pub use kube_cel::cel::common::{ast, types};
pub use kube_cel::cel::objects::{Key, Map, OptionalValue};
pub use limits::{Exceeded, Limits};
pub use names::escape;
pub use parse::{parse, parse_with_bindings};
pub use program::{Program, Scope, Variables};
pub use tree::children;
