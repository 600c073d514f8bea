//! The command line of a component that runs under the name of one of Karmada's programs.

use berth_scheduler::process::logging::LogArgs;
use clap::{Args, Parser, Subcommand};

use crate::version::VERSION;

/// The flags of a component without a command in front.
#[derive(Debug, Parser)]
#[command(
    version = VERSION,
    args_conflicts_with_subcommands = true,
    args_override_self = true
)]
pub(crate) struct StandIn<Flags: Args> {
    #[command(subcommand)]
    pub(crate) version: Option<VersionCommand>,
    #[command(flatten)]
    pub(crate) flags: Flags,
    #[command(flatten)]
    pub(crate) log: LogArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum VersionCommand {
    /// Print the version
    Version,
}
