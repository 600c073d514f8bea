//! The commands of the `berth` program, which combine the other crates.
//!
//! Only the program's `main`, programs with plugins of their own and the end-to-end tests import this crate.
//!
//! - [`cli`]: the command line. `program_name` selects the program by the file name of the executable, and
//!   `karmada_command_line` parses the command lines of Karmada's programs.
//! - [`control_plane`]: the selection of the control plane to which a command connects.
//! - [`up`], [`status`], [`down`]: the embedded control plane. The crate `berth_up` has its servers and its files. [`status`]
//!   also lists the workloads of any control plane that are not well.
//! - [`fault_injection`]: the commands that make simulated members of `berth up` unreachable.
//! - [`controllers`]: the controllers, and the flags of `berth controllers`.
//! - [`webhook`]: the admission webhooks, and the flags of `berth webhook`.
//! - [`estimator`]: the estimator of a member, and the flags of `berth estimator`.
//! - [`join`], [`clusters`], [`drain`]: the commands that register and manage members, and move workloads away from them.
//! - [`explain`], [`simulate`], [`replay`]: scheduling decisions about one binding, about manifests or after a change,
//!   and from a decision log.
//! - [`diff`]: the differences between the copies of a workload. [`workload_args`]: the arguments that select it.
//! - [`workloads`]: the rows of workloads that `status` and `top` show.
//! - [`watch`], [`top`], [`dashboard`]: the state of a control plane, in the terminal and on a web page.
//! - [`engine_flags`], [`scheduler_endpoint`]: the flags for scheduling decisions, and for a running scheduler.
//! - [`interpret`]: the scripts of ResourceInterpreterCustomizations.
//! - [`completion`], [`man`]: shell completion scripts and manual pages.

pub mod cli;
pub mod clusters;
mod columns;
pub mod completion;
pub mod control_plane;
pub mod controllers;
pub mod dashboard;
pub mod diff;
pub mod down;
pub mod drain;
pub mod engine_flags;
pub mod estimator;
pub mod explain;
pub mod fault_injection;
mod field_lines;
pub mod interpret;
pub mod join;
mod karmada_command_line;
pub mod man;
mod member_name;
mod output;
pub mod persistence;
mod program_name;
pub mod replay;
pub mod scheduler_endpoint;
pub mod simulate;
pub mod status;
pub mod top;
pub mod uninstall;
pub mod up;
mod version;
pub mod watch;
pub mod webhook;
pub mod workload_args;
pub mod workloads;
