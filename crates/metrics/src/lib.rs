//! Metrics of all programs.

pub mod process;
