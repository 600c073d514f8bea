//! Functions that run the binary under the name of one of its programs, such as `karmada-scheduler`.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, Output, Stdio};

/// Returns a command that runs the binary under a name, as if a symbolic link with this name were executed.
pub(crate) fn command(name: &str, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
    command
        .arg0(name)
        .args(words)
        .env_remove("KUBECONFIG")
        .stdin(Stdio::null());
    command
}

/// Runs the binary under a name.
pub(crate) fn run(name: &str, words: &[&str]) -> Output {
    command(name, words).output().unwrap()
}

/// Parses a command line without starting the program. Appends `--help`, which succeeds only if the program accepts all
/// words before it. Returns the error message for a word that the program refuses.
pub(crate) fn parse(name: &str, words: &[&str]) -> Result<(), String> {
    let words: Vec<&str> = words.iter().copied().chain(["--help"]).collect();
    let output = run(name, &words);
    if output.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8(output.stderr).unwrap())
    }
}
