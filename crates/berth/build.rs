//! Sets the version that the programs print: that of the package and, in release builds, the commit.
//!
//! `BERTH_COMMIT` names the commit where the sources are not a git checkout, such as in the build of an image.
//! Development builds have no commit, because every commit would compile the crate again.

use std::env;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=BERTH_COMMIT");
    let given = env::var("BERTH_COMMIT")
        .ok()
        .filter(|name| !name.is_empty());
    // The profile `dist` inherits `release`, and has its name here.
    let is_release = env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let commit = given.or_else(|| is_release.then(commit_of_checkout).flatten());
    let version = env!("CARGO_PKG_VERSION");
    match commit {
        Some(commit) => println!("cargo::rustc-env=BERTH_VERSION={version} ({commit})"),
        None => println!("cargo::rustc-env=BERTH_VERSION={version}"),
    }
}

/// Returns the commit of the sources, if they are a git checkout.
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
