//! Which flags were given, and do not only have their default: those win over a configuration file.

use std::collections::BTreeSet;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, FromArgMatches};

/// The names of the flags that were given, as clap knows them (`kube_api_qps`).
///
/// Flattened into a struct of flags it adds none. It has to be the first field: reading a flag takes it out of
/// the matches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Given(BTreeSet<String>);

impl Given {
    /// Whether the flag was given.
    pub fn contains(&self, flag: &str) -> bool {
        self.0.contains(flag)
    }
}

impl FromArgMatches for Given {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = matches.ids().filter(|id| {
            let source = matches.value_source(id.as_str());
            source.is_some_and(|source| source != ValueSource::DefaultValue)
        });
        Ok(Self(given.map(ToString::to_string).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for Given {
    fn augment_args(command: Command) -> Command {
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        command
    }
}
