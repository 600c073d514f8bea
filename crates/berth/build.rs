//! The build script of the program: it sets `BERTH_VERSION`, the version that the program prints.
//!
//! The version is that of the package. The commit is appended if it is known. The environment variable `BERTH_COMMIT`
//! sets the commit for builds outside a git checkout, such as the build of an image. If this variable is unset, release
//! builds read the commit from git. Other builds omit the commit, so that a new commit does not compile the crate
//! again.

use std::env;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=BERTH_COMMIT");
    let given = env::var("BERTH_COMMIT")
        .ok()
        .filter(|name| !name.is_empty());
    // In the profile `dist`, `PROFILE` is also `release`, because `dist` inherits from `release`.
    let is_release = env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let commit = given.or_else(|| is_release.then(commit_of_checkout).flatten());
    let version = env!("CARGO_PKG_VERSION");
    match commit {
        Some(commit) => println!("cargo::rustc-env=BERTH_VERSION={version} ({commit})"),
        None => println!("cargo::rustc-env=BERTH_VERSION={version}"),
    }
}

/// Returns the commit of the sources, or `None` outside a git checkout.
fn commit_of_checkout() -> Option<String> {
    for file in ["HEAD", "logs/HEAD"] {
        let path = PathBuf::from(git(&["rev-parse", "--git-path", file])?);
        let path = path.canonicalize().ok()?;
        println!("cargo::rerun-if-changed={}", path.display());
    }
    git(&["rev-parse", "--short=12", "HEAD"])
}

fn git(words: &[&str]) -> Option<String> {
    let output = Command::new("git").args(words).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let text = text.trim();
    (output.status.success() && !text.is_empty()).then(|| text.to_owned())
}
