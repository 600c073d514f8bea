//! The command line of a Berth component that is started under the name of a Karmada program, such as
//! `karmada-webhook`. The flags follow the program name directly, as they do in Karmada.

use berth_component_base::program::logging::LogArgs;
use clap::{Args, Parser, Subcommand};

use crate::version::VERSION;

/// Command line with the flags of a component, and no command such as `webhook` before them.
#[derive(Debug, Parser)]
#[command(
    version = VERSION,
    args_conflicts_with_subcommands = true,
    args_override_self = true
)]
pub(crate) struct KarmadaCommandLine<Flags: Args> {
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
