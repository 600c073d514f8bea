//! Tests of the commands that register, remove and manage members: `berth join`, `unjoin`, `get clusters`, `cordon` and
//! `taint`. Each test starts in-process API servers for the control plane and the members.

#![expect(clippy::unwrap_used, reason = "this is how a test fails")]

mod documented;
mod join_command;
mod limited_rights;
mod manage_members;
mod refusals;
mod shared_member;
mod test_servers;
mod uninstall;
mod unjoin;
mod unusable_control_planes;
