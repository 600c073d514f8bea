//! The `berth` program for tests. The environment variable `CARGO_BIN_EXE_berth-program` has its path.

use std::process::ExitCode;

fn main() -> ExitCode {
    berth::cli::main()
}
