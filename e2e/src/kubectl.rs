//! The real kubectl, where it is installed.

use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Whether kubectl is on the PATH. Tests that need it end early, and say so, where it is not.
pub fn is_installed() -> bool {
    Command::new("kubectl")
        .args(["version", "--client"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Runs kubectl with a kubeconfig, and a cache of its own so that tests do not meet in it.
///
/// # Errors
/// When kubectl cannot be started.
pub fn run(kubeconfig: &Path, cache: &Path, arguments: &[&str]) -> std::io::Result<Output> {
    run_with_editor(kubeconfig, cache, "true", arguments)
}

/// The same; `editor` is what it opens files with.
///
/// # Errors
/// When kubectl cannot be started.
pub fn run_with_editor(
    kubeconfig: &Path,
    cache: &Path,
    editor: &str,
    arguments: &[&str],
) -> std::io::Result<Output> {
    Command::new("kubectl")
        .env("KUBECONFIG", kubeconfig)
        .env("KUBE_EDITOR", editor)
        .arg(format!("--cache-dir={}", cache.display()))
        .args(arguments)
        .stdin(Stdio::null())
        .output()
}
