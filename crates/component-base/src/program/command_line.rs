//! Parsing of command lines, and printing of errors to standard error.

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Command, Parser};

/// Parses a command line. Every flag with a value accepts a negative number, because clap would otherwise report the
/// number as an unknown flag instead of a value out of range. As in Karmada's programs, `_` in the name of a flag is
/// equivalent to `-`.
///
/// # Errors
/// When the command line is invalid or requests help.
pub fn parse<C: Parser>(
    command: Command,
    words: impl IntoIterator<Item = OsString>,
) -> Result<C, clap::Error> {
    let words = words.into_iter().map(with_hyphens);
    let matches = with_negative_numbers(command).try_get_matches_from(words)?;
    C::from_arg_matches(&matches)
}

/// Replaces each `_` in the name of a flag by `-`.
fn with_hyphens(word: OsString) -> OsString {
    let Some(text) = word.to_str().filter(|text| text.starts_with("--")) else {
        return word;
    };
    let end = text.find('=').unwrap_or(text.len());
    let (name, value) = text.split_at(end);
    format!("{}{value}", name.replace('_', "-")).into()
}

fn with_negative_numbers(command: Command) -> Command {
    let flag_takes_value =
        |arg: &clap::Arg| arg.get_long().is_some() && arg.get_action().takes_values();
    command
        .mut_args(|arg| {
            if flag_takes_value(&arg) {
                arg.allow_negative_numbers(true)
            } else {
                arg
            }
        })
        .mut_subcommands(with_negative_numbers)
}

/// Prints the help that a command line requests, or one line that describes an invalid command line. Returns the exit
/// code.
pub fn refuse(error: &clap::Error) -> ExitCode {
    if error.use_stderr() && error.kind() != ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return report(one_line(error), 2);
    }
    let _ = error.print();
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(1))
}

/// Describes an invalid command line without its usage section.
fn one_line(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let lines = text
        .lines()
        .map(str::trim)
        .take_while(|line| !line.starts_with("Usage:"));
    let message: Vec<&str> = lines
        .filter(|line| !line.is_empty() && !line.starts_with("For more information"))
        .collect();
    let message = message.join(" ");
    format!(
        "{} (see --help)",
        message.strip_prefix("error: ").unwrap_or(&message)
    )
}

/// Prints an error in one line and returns the exit code.
pub fn report(error: impl std::fmt::Display, code: u8) -> ExitCode {
    let _ = writeln!(
        std::io::stderr(),
        "error: {}",
        single_line(&error.to_string())
    );
    ExitCode::from(code)
}

/// Joins the lines of a text with spaces. Errors from other libraries, such as panic messages, may have several lines.
fn single_line(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    lines.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn underscores_in_names_of_flags_are_hyphens() {
        for (word, expected) in [
            ("--log_dir=/a_b", "--log-dir=/a_b"),
            ("--one_output", "--one-output"),
            ("a_b", "a_b"),
            ("-a_b", "-a_b"),
        ] {
            assert_eq!(with_hyphens(word.into()), expected);
        }
    }

    #[test]
    fn errors_are_printed_in_one_line() {
        assert_eq!(single_line("a\n  left: 1\n right: 2"), "a left: 1 right: 2");
    }
}
