//! The one binary: it reads the command line and puts the other crates together.
//!
//! Nothing imports this crate but its own `main` and the end-to-end tests.

pub mod admission;
pub mod cli;
pub mod controllers;
pub mod fleet;
pub mod kubeconfig;
pub mod release;
pub mod simulate;
pub mod up;
