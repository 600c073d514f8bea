//! Execution of the binary under a name.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, Output, Stdio};

/// Runs the binary under a name, as through a link.
pub(crate) fn run(name: &str, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_berth"))
        .arg0(name)
        .args(words)
        .env_remove("KUBECONFIG")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// Parses a command line without starting the program: `--help` at its end is reached only if all words before it are
/// accepted. Returns the error message otherwise.
pub(crate) fn parse(name: &str, words: &[&str]) -> Result<(), String> {
    let words: Vec<&str> = words.iter().copied().chain(["--help"]).collect();
    let output = run(name, &words);
    if output.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8(output.stderr).unwrap())
    }
}
