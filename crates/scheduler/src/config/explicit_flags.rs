//! The flags that the user set explicitly. They override a configuration file.

use std::collections::BTreeSet;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, FromArgMatches};

/// The clap IDs of the flags that are set explicitly, for example `kube_api_qps`.
///
/// A struct of flags contains a flattened field of this type, which adds no flag. The field must be the first field of
/// the struct: clap fills the fields in order, and removes the flags of each filled field from its `ArgMatches`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ExplicitFlags(BTreeSet<String>);

impl ExplicitFlags {
    /// Reports whether the flag with this clap ID is set explicitly.
    pub(crate) fn contains(&self, flag: &str) -> bool {
        self.0.contains(flag)
    }
}

impl FromArgMatches for ExplicitFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let explicit = matches.ids().filter(|id| {
            let source = matches.value_source(id.as_str());
            source.is_some_and(|source| source != ValueSource::DefaultValue)
        });
        Ok(Self(explicit.map(ToString::to_string).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for ExplicitFlags {
    fn augment_args(command: Command) -> Command {
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        command
    }
}
