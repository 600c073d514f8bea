//! The one binary: it reads the command line and puts the other crates together.
//!
//! Nothing imports this crate but its own `main` and the end-to-end tests.

pub mod admission;
mod answer;
pub mod cli;
pub mod cluster_proxy;
pub mod clusters;
mod columns;
pub mod completion;
pub mod control_plane;
pub mod controllers;
pub mod down;
pub mod fleet;
pub mod instance;
pub mod join;
pub mod kubeconfig;
pub mod members;
pub mod mishap;
pub mod open_files;
pub mod simulate;
pub mod status;
pub mod up;
pub mod watch;
