//! The command `berth completion`, which prints a completion script for a shell.

use std::io;

use clap::{Args, Command, ValueEnum};
use clap_complete::{Shell as Script, generate};

use crate::output;

/// Flags of `berth completion`.
#[derive(Args, Clone, Copy, Debug)]
#[command(after_help = EXAMPLES)]
pub struct CompletionArgs {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub shell: Shell,
}

const EXAMPLES: &str = "\
Examples:
  source <(berth completion bash)                                    for the current bash
  berth completion bash > /etc/bash_completion.d/berth               for every bash
  source <(berth completion zsh)                                     for the current zsh, after compinit
  berth completion fish > ~/.config/fish/completions/berth.fish      for fish";

/// Supported shells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[allow(missing_docs, reason = "the variants are names of shells")]
pub enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// Prints the completion script of a shell.
///
/// # Errors
/// Fails if stdout cannot be written.
pub fn run(args: CompletionArgs, mut program: Command) -> io::Result<()> {
    let shell = match args.shell {
        Shell::Bash => Script::Bash,
        Shell::Zsh => Script::Zsh,
        Shell::Fish => Script::Fish,
    };
    let name = program.get_name().to_owned();
    // The generator would panic on a closed stdout, so it writes into memory.
    let mut script = Vec::new();
    generate(shell, &mut program, name, &mut script);
    output::print(&String::from_utf8_lossy(&script))
}
