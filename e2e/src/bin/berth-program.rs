//! The program itself, built beside the tests so that they find it: `CARGO_BIN_EXE_berth-program`.

use std::process::ExitCode;

fn main() -> ExitCode {
    berth::cli::main()
}
