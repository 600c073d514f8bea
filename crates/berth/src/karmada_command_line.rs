//! The command line of a Berth component that is started under the name of a Karmada program, such as
//! `karmada-webhook`. The flags follow the program name directly, as they do in Karmada.

use berth_component_base::program::logging::LogArgs;
use clap::{ArgMatches, Args, Command, FromArgMatches, Parser, Subcommand};

use crate::version::VERSION;

/// Command line with the flags of a component, and no command such as `webhook` before them.
#[derive(Debug, Parser)]
#[command(
    version = VERSION,
    args_conflicts_with_subcommands = true,
    args_override_self = true,
    subcommand_negates_reqs = true
)]
pub(crate) struct KarmadaCommandLine<Flags: Args> {
    // The flags come first, because the subcommand is removed from the matches when it is parsed.
    #[command(flatten)]
    pub(crate) flags: FlagsWithoutCommand<Flags>,
    #[command(flatten)]
    pub(crate) log: LogArgs,
    #[command(subcommand)]
    pub(crate) version: Option<VersionCommand>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum VersionCommand {
    /// Print the version
    Version,
}

/// The flags of a component. `None` after a subcommand, which needs no required flags.
#[derive(Debug)]
pub(crate) struct FlagsWithoutCommand<Flags>(pub(crate) Option<Flags>);

impl<Flags: Args> Args for FlagsWithoutCommand<Flags> {
    fn augment_args(command: Command) -> Command {
        Flags::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Flags::augment_args_for_update(command)
    }
}

impl<Flags: Args> FromArgMatches for FlagsWithoutCommand<Flags> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let has_command = matches.subcommand_name().is_some();
        let flags = (!has_command).then(|| Flags::from_arg_matches(matches));
        Ok(Self(flags.transpose()?))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
