//! `berth completion`: scripts with which shells complete what is typed.

use std::io;

use clap::{Args, Command, ValueEnum};
use clap_complete::{Shell as Script, generate};

use crate::answer;

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
  source <(berth completion bash)                                    for this bash
  berth completion bash > /etc/bash_completion.d/berth               for each one
  source <(berth completion zsh)                                     for this zsh, after compinit
  berth completion fish > ~/.config/fish/completions/berth.fish      for fish";

/// Shells that there is a script for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[allow(missing_docs, reason = "they have their names")]
pub enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// Prints the script.
///
/// # Errors
/// When it cannot be written.
pub fn run(args: CompletionArgs, mut program: Command) -> io::Result<()> {
    let shell = match args.shell {
        Shell::Bash => Script::Bash,
        Shell::Zsh => Script::Zsh,
        Shell::Fish => Script::Fish,
    };
    let name = program.get_name().to_owned();
    // In memory: the generator would panic where nobody reads any more.
    let mut script = Vec::new();
    generate(shell, &mut program, name, &mut script);
    answer::print(&String::from_utf8_lossy(&script))
}
