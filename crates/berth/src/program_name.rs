//! Selection of a program by the file name of the executable. One executable contains several programs, and a link with
//! the name of a program starts this program.
//!
//! This module does not run programs. The module `cli` does.

use std::ffi::OsStr;
use std::path::Path;

use clap::Command;
use clap::builder::StyledStr;

/// A program in the executable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    /// The program with all commands of Berth.
    Berth {
        /// The name that users type before a command, which is `berth` or `kubectl berth`.
        program_name: &'static str,
    },
    /// The scheduler, as a replacement for karmada-scheduler.
    Scheduler,
    /// The controllers, as a replacement for karmada-controller-manager.
    ControllerManager,
    /// The admission webhooks, as a replacement for karmada-webhook.
    Webhook,
    /// The estimator of a member, as a replacement for karmada-scheduler-estimator.
    Estimator,
}

/// File name that selects the scheduler.
pub(crate) const SCHEDULER: &str = "karmada-scheduler";
/// File name that selects the controllers.
pub(crate) const CONTROLLER_MANAGER: &str = "karmada-controller-manager";
/// File name that selects the admission webhooks.
pub(crate) const WEBHOOK: &str = "karmada-webhook";
/// File name that selects the estimator.
pub(crate) const ESTIMATOR: &str = "karmada-scheduler-estimator";

/// The name of the main program in help texts and messages.
const BERTH: &str = "berth";
/// The name of the main program as a plugin of kubectl.
const KUBECTL_PLUGIN: &str = "kubectl berth";

/// File names of the executable and the programs that they select. Every other file name selects the main program.
const PROGRAMS: &[(&str, Program)] = &[
    (SCHEDULER, Program::Scheduler),
    (CONTROLLER_MANAGER, Program::ControllerManager),
    (WEBHOOK, Program::Webhook),
    (ESTIMATOR, Program::Estimator),
    (
        "kubectl-berth",
        Program::Berth {
            program_name: KUBECTL_PLUGIN,
        },
    ),
];

/// Returns the program for the first word of a command line, which is a path or a file name.
pub(crate) fn select(first_word: Option<&OsStr>) -> Program {
    let name = first_word.and_then(|word| Path::new(word).file_stem());
    let found = PROGRAMS
        .iter()
        .find(|(known, _)| name == Some(OsStr::new(known)));
    found.map_or(
        Program::Berth {
            program_name: BERTH,
        },
        |(_, program)| *program,
    )
}

/// Replaces `berth` by `kubectl berth` in the command lines of a text, if users run the program as a plugin of kubectl.
/// The word `berth` begins a command line if one of `commands` follows.
pub(crate) fn rename(text: &str, program_name: &str, commands: &[String]) -> String {
    if program_name != KUBECTL_PLUGIN {
        return text.to_owned();
    }
    let mut renamed = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(BERTH) {
        let (before, found) = rest.split_at(start);
        let after = &found[BERTH.len()..];
        renamed.push_str(before);
        renamed.push_str(if is_command_line(before, after, commands) {
            program_name
        } else {
            BERTH
        });
        rest = after;
    }
    renamed + rest
}

/// Reports whether the word `berth` between `before` and `after` begins a command line.
fn is_command_line(before: &str, after: &str, commands: &[String]) -> bool {
    let begins_word = !before.ends_with(|c: char| c.is_alphanumeric() || "-_./~".contains(c));
    let command = after.strip_prefix(' ').map(|text| {
        let end = text.find(|c: char| !c.is_ascii_lowercase());
        &text[..end.unwrap_or(text.len())]
    });
    begins_word && command.is_some_and(|command| commands.iter().any(|known| known == command))
}

/// Returns the names of the commands of the main program.
pub(crate) fn commands(program: &Command) -> Vec<String> {
    let names = program.get_subcommands().map(Command::get_name);
    names.map(ToOwned::to_owned).collect()
}

/// Returns the program with `kubectl berth` in its help texts, if users run it as a plugin of kubectl.
pub(crate) fn renamed(program: Command, program_name: &'static str) -> Command {
    if program_name != KUBECTL_PLUGIN {
        return program;
    }
    let commands = commands(&program);
    map_help_texts(program, &|text| {
        rename(&text.to_string(), program_name, &commands).into()
    })
    .bin_name(program_name)
}

fn map_help_texts(mut command: Command, rename: &dyn Fn(&StyledStr) -> StyledStr) -> Command {
    if let Some(text) = command.get_about().map(rename) {
        command = command.about(text);
    }
    if let Some(text) = command.get_long_about().map(rename) {
        command = command.long_about(text);
    }
    if let Some(text) = command.get_after_help().map(rename) {
        command = command.after_help(text);
    }
    command
        .mut_args(|mut arg| {
            if let Some(text) = arg.get_help().map(rename) {
                arg = arg.help(text);
            }
            if let Some(text) = arg.get_long_help().map(rename) {
                arg = arg.long_help(text);
            }
            arg
        })
        .mut_subcommands(|command| map_help_texts(command, rename))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_name_selects_the_program() {
        let berth = Program::Berth {
            program_name: "berth",
        };
        for (first_word, expected) in [
            (Some("/bin/karmada-scheduler"), Program::Scheduler),
            (Some("karmada-scheduler"), Program::Scheduler),
            (
                Some("/bin/karmada-controller-manager"),
                Program::ControllerManager,
            ),
            (Some("/bin/karmada-webhook"), Program::Webhook),
            (Some("/bin/karmada-scheduler-estimator"), Program::Estimator),
            (
                Some("/usr/local/bin/kubectl-berth"),
                Program::Berth {
                    program_name: "kubectl berth",
                },
            ),
            (Some("/usr/local/bin/berth"), berth),
            (Some("my-berth"), berth),
            (Some(""), berth),
            (None, berth),
        ] {
            let program = select(first_word.map(OsStr::new));
            assert_eq!(program, expected, "{first_word:?}");
        }
    }

    #[test]
    fn only_command_lines_are_renamed() {
        let commands = ["up".to_owned(), "join".to_owned()];
        for (text, expected) in [
            ("berth up --port 1", "kubectl berth up --port 1"),
            (
                "run `berth up`, then `berth join`",
                "run `kubectl berth up`, then `kubectl berth join`",
            ),
            ("no berth here", "no berth here"),
            ("berth upgrade", "berth upgrade"),
            ("~/.berth up, my-berth up", "~/.berth up, my-berth up"),
            ("berth", "berth"),
        ] {
            assert_eq!(rename(text, "kubectl berth", &commands), expected);
            assert_eq!(rename(text, "berth", &commands), text);
        }
    }
}
