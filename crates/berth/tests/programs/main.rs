//! Tests of the binary under its names, such as `kubectl-berth` and `karmada-scheduler`: help texts, versions, and the
//! command lines that Karmada's programs accept.

#![expect(clippy::unwrap_used, reason = "this is how a test fails")]

mod command_line;
mod flags_of_karmada;
mod image_root;
mod interpret;
mod lost_log;
mod manifests_of_karmada;
mod names;
