//! Runner of the real kubectl. Tests that use it need `#[needs(kubectl)]`.

use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs kubectl with a kubeconfig and a separate cache folder.
///
/// # Errors
/// If kubectl cannot be started.
pub fn run(kubeconfig: &Path, cache: &Path, arguments: &[&str]) -> std::io::Result<Output> {
    run_with_editor(kubeconfig, cache, "true", arguments)
}

/// Runs kubectl with `editor` as its editor.
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
