//! Runner of the installed kubectl. Tests that run kubectl need the attribute `#[needs(kubectl)]`.

use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs kubectl with this kubeconfig and this cache folder.
///
/// # Errors
/// If kubectl cannot be started.
pub fn run(kubeconfig: &Path, cache: &Path, arguments: &[&str]) -> std::io::Result<Output> {
    run_with_editor(kubeconfig, cache, "true", arguments)
}

/// Runs kubectl as [`run`] does. `editor` is the command with which `kubectl edit` opens a file.
///
/// # Errors
/// If kubectl cannot be started.
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
