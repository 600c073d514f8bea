//! Tests of command-line flags.
//!
//! [`table`] checks the options that each flag sets. [`effects`] checks the effects of flags on running processes, and
//! the errors for invalid arguments.

mod effects;
mod table;
