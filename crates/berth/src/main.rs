//! The `berth` program.

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    berth::cli::Cli::parse().run()
}
