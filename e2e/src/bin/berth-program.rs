//! The `berth` program for tests, which find it as `CARGO_BIN_EXE_berth-program`.

use std::process::ExitCode;

fn main() -> ExitCode {
    berth::cli::main()
}
