//! The commands of the `berth` program, which assemble the other crates.
//!
//! Only its own `main` and the end-to-end tests import this crate.
//!
//! - [`cli`]: command line and dispatch; `program_name` selects the program by the name of the binary, `stand_in`
//!   parses the command lines of Karmada's programs,
//!   [`control_plane`] finds the control plane that a command works on
//! - [`up`], [`status`], [`down`]: embedded control plane; [`instance`] and [`kubeconfig`] are its files,
//!   [`admission`] and [`cluster_proxy`] plug Karmada's rules into the API server
//! - [`fleet`], [`members`], [`fault_injection`]: simulated members of `berth up`, and `berth fail` and `berth heal`
//! - [`controllers`]: the controller set and its flags
//! - [`webhook`]: admission webhooks and their flags
//! - [`join`], [`clusters`]: registering and managing members
//! - [`simulate`], [`watch`], [`top`]: decisions without writes, the live view, and free capacity; `what_if` compares
//!   two states
//! - [`explain`], [`replay`]: one decision in detail, and all recorded ones again
//! - [`scheduler_configuration`], [`scheduler_endpoint`]: the configuration that commands decide with, and the running
//!   scheduler
//! - [`interpret`]: scripts of custom kinds, checked and run on files
//! - [`dashboard`]: the page about a control plane
//! - [`completion`], [`man`]: shell completion scripts and manual pages

pub mod admission;
pub mod cli;
pub mod cluster_proxy;
pub mod clusters;
mod columns;
pub mod completion;
pub mod control_plane;
pub mod controllers;
pub mod dashboard;
pub mod down;
pub mod engine_flags;
pub mod explain;
pub mod fault_injection;
pub mod fleet;
pub mod instance;
pub mod interpret;
pub mod join;
pub mod kubeconfig;
pub mod man;
pub mod members;
pub mod open_files;
mod output;
pub mod persistence;
mod program_name;
pub mod replay;
pub mod scheduler_configuration;
pub mod scheduler_endpoint;
pub mod simulate;
mod stand_in;
pub mod status;
pub mod top;
pub mod up;
mod version;
pub mod watch;
pub mod webhook;
mod what_if;
