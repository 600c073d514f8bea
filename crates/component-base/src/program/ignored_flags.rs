//! The parser of flags that Berth accepts without effect, from tables that each program declares. The flags are flags
//! of Karmada's programs, so a user can change the image of a Karmada Deployment and keep its arguments.
//!
//! A program flattens [`AcceptedFlags`] into its own flags. [`AcceptedFlags`] parses every flag of the program's
//! tables, rejects malformed values, and records which flags are set. Help texts hide these flags;
//! docs/compatibility.md lists them.

use std::marker::PhantomData;

use berth_apimachinery::go_bool::go_bool;
use berth_apimachinery::quantity::Quantity;
use clap::builder::ValueParser;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};

use crate::go_duration::go_duration;

/// A flag that is accepted without effect.
#[derive(Clone, Copy, Debug)]
pub struct AcceptedFlag {
    /// Name of the flag without its leading hyphens.
    pub name: &'static str,
    /// Values that Karmada accepts for the flag.
    pub value: ValueKind,
    /// Karmada's default value.
    pub default: &'static str,
}

/// Values that a flag accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// `true` or `false`. The flag without a value means `true`.
    Bool,
    /// A whole number.
    Int,
    /// A whole number of at least 0.
    Uint,
    /// A number.
    Float,
    /// A duration in Go's notation.
    Duration,
    /// A number of bytes, such as `512`, `1K` or `1Ki`.
    Quantity,
    /// A log severity: INFO, WARNING, ERROR, FATAL, or a number.
    Severity,
    /// A position in source code, as FILE:LINE.
    Location,
    /// Log levels of source files, as PATTERN=LEVEL entries separated by commas.
    Levels,
    /// Any text.
    Text,
}

impl ValueKind {
    fn check(self, text: &str) -> Result<(), String> {
        let is_valid = match self {
            Self::Bool => return go_bool(text).map(drop),
            Self::Duration => return go_duration(text).map(drop),
            Self::Int => text.parse::<i64>().is_ok(),
            Self::Uint => text.parse::<u64>().is_ok(),
            Self::Float => text.parse::<f64>().is_ok(),
            Self::Quantity => Quantity::parse(text).is_ok(),
            Self::Severity => {
                let is_name = |name: &&str| name.eq_ignore_ascii_case(text);
                let names = ["INFO", "WARNING", "ERROR", "FATAL"];
                names.iter().any(is_name) || text.parse::<i32>().is_ok()
            }
            Self::Location => {
                let line = text.rsplit_once(':').map(|(_, line)| line);
                text.is_empty() || line.is_some_and(|line| line.parse::<u32>().is_ok())
            }
            Self::Levels => text
                .split(',')
                .filter(|entry| !entry.is_empty())
                .all(|entry| {
                    let level = entry.split_once('=').map(|(_, level)| level);
                    level.is_some_and(|level| level.parse::<u32>().is_ok())
                }),
            Self::Text => true,
        };
        if is_valid {
            Ok(())
        } else {
            Err(format!("must be {}", self.description()))
        }
    }

    fn description(self) -> &'static str {
        match self {
            Self::Bool => "true or false",
            Self::Int => "a whole number",
            Self::Uint => "a whole number of at least 0",
            Self::Float => "a number",
            Self::Duration => "a duration such as 300ms, 15s or 1m30s",
            Self::Quantity => "a number of bytes such as 512, 1K or 1Ki",
            Self::Severity => "INFO, WARNING, ERROR, FATAL or a number",
            Self::Location => "FILE:LINE",
            Self::Levels => "PATTERN=LEVEL, separated by commas",
            Self::Text => "a text",
        }
    }

    fn parser(self) -> ValueParser {
        ValueParser::from(move |text: &str| self.check(text).map(|()| text.to_owned()))
    }
}

/// The flags that a program accepts without effect.
pub trait FlagTables {
    /// The tables of the program.
    const TABLES: &'static [&'static [AcceptedFlag]];

    /// Returns the flags of all tables.
    fn flags() -> impl Iterator<Item = &'static AcceptedFlag> {
        Self::TABLES.iter().copied().flatten()
    }
}

/// The flags that the command line sets, out of the tables of `T`.
#[derive(Clone, Debug)]
pub struct AcceptedFlags<T> {
    names: Vec<&'static str>,
    tables: PhantomData<fn() -> T>,
}

impl<T> Default for AcceptedFlags<T> {
    fn default() -> Self {
        Self {
            names: Vec::new(),
            tables: PhantomData,
        }
    }
}

impl<T> AcceptedFlags<T> {
    /// Returns the names of the flags that the command line sets.
    pub fn names(&self) -> &[&'static str] {
        &self.names
    }
}

/// Logs a warning that these flags have no effect. `flags` are the names of the flags that the command line sets. A name
/// may be followed by `=` and a value, if only this value has no effect.
pub fn log_ineffective(flags: &[&str]) {
    if !flags.is_empty() {
        let names: Vec<String> = flags.iter().map(|name| format!("--{name}")).collect();
        let names = names.join(", ");
        tracing::warn!("flags without effect: {names}; docs/compatibility.md gives the reasons");
    }
}

impl<T: FlagTables> FromArgMatches for AcceptedFlags<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let names = T::flags().map(|flag| flag.name);
        let is_set = |name: &&str| matches.value_source(name) == Some(ValueSource::CommandLine);
        Ok(Self {
            names: names.filter(is_set).collect(),
            tables: PhantomData,
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl<T: FlagTables> Args for AcceptedFlags<T> {
    fn augment_args(command: Command) -> Command {
        command.args(T::flags().map(|flag| {
            let arg = Arg::new(flag.name)
                .long(flag.name)
                .value_name("VALUE")
                .value_parser(flag.value.parser())
                .hide(true);
            if flag.value == ValueKind::Bool {
                arg.num_args(0..=1)
                    .require_equals(true)
                    .default_missing_value("true")
            } else {
                arg
            }
        }))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn values_are_checked_by_their_kind() {
        for (kind, valid, invalid) in [
            (ValueKind::Bool, &["true", "F", "0"][..], &["", "yes"][..]),
            (ValueKind::Int, &["5", "-5"], &["", "5.0", "many"]),
            (ValueKind::Uint, &["1800"], &["-1", ""]),
            (ValueKind::Float, &["40", "0.1", "-1"], &["", "x"]),
            (ValueKind::Duration, &["0s", "2m0s", "0"], &["5", "", "s"]),
            (ValueKind::Quantity, &["0", "1Ki", "3M"], &["", "1X"]),
            (ValueKind::Severity, &["2", "error", "INFO"], &["", "bad"]),
            (ValueKind::Location, &[":0", "", "a.go:7"], &["a.go", "a:b"]),
            (ValueKind::Levels, &["", "a=1,b*=2"], &["a", "a=b"]),
            (ValueKind::Text, &["", "anything"], &[]),
        ] {
            for text in valid {
                assert_eq!(kind.check(text), Ok(()), "{kind:?} {text:?}");
            }
            for text in invalid {
                let error = kind.check(text).unwrap_err();
                assert!(error.starts_with("must be "), "{kind:?} {text:?}: {error}");
            }
        }
    }

    #[derive(Clone, Debug)]
    struct Tables;

    impl FlagTables for Tables {
        const TABLES: &'static [&'static [AcceptedFlag]] = &[
            &[AcceptedFlag {
                name: "one-output",
                value: ValueKind::Bool,
                default: "false",
            }],
            &[AcceptedFlag {
                name: "log-dir",
                value: ValueKind::Text,
                default: "",
            }],
        ];
    }

    #[derive(Debug, Parser)]
    struct Program {
        #[command(flatten)]
        accepted: AcceptedFlags<Tables>,
    }

    #[test]
    fn only_flags_that_were_set_are_returned() {
        for (words, expected) in [
            (&["p"][..], &[][..]),
            (&["p", "--one-output"], &["one-output"]),
            (
                &["p", "--log-dir", "/tmp", "--one-output=false"],
                &["one-output", "log-dir"],
            ),
        ] {
            let program = Program::try_parse_from(words).unwrap();
            assert_eq!(program.accepted.names(), expected, "{words:?}");
        }
        let error = Program::try_parse_from(["p", "--one-output=2"]).unwrap_err();
        assert!(error.to_string().contains("--one-output"), "{error}");
    }
}
