//! Command-line flags: their effect, and errors in one line.
//!
//! `table` maps each flag to options. `effects` checks the effect of options on running processes.

mod effects;
mod table;
