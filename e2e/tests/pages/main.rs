//! Tests of the pages about installation, configuration and propagation. The commands of the pages run against servers
//! of `berth up`. The files and flags that the pages name exist.

#![expect(clippy::unwrap_used, reason = "this is how a test fails")]

mod blocks;
mod chart_values;
mod configuration;
mod helm;
mod installation;
mod propagation;
mod references;
mod site;

use std::path::{Path, PathBuf};

/// The pages that the tests in [`references`] check.
pub(crate) const PAGES: [&str; 8] = [
    "deploy/README.md",
    "deploy/chart/README.md",
    "docs/configuration.md",
    "docs/install-beside-karmada.md",
    "docs/install-stand-alone.md",
    "docs/migrate.md",
    "docs/second-scheduler.md",
    "docs/sizing.md",
];

/// Returns the root of the repository.
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .canonicalize()
        .unwrap()
}

/// Returns the text of a file of the repository.
pub(crate) fn read(path: &str) -> String {
    std::fs::read_to_string(repository().join(path)).unwrap_or_else(|error| {
        unreachable!("{path}: {error}");
    })
}

/// Compares the stored page with the generated text `fresh`. If `BERTH_WRITE_PAGES` is set, writes the page instead.
pub(crate) fn assert_current(path: &str, fresh: &str) {
    if std::env::var_os("BERTH_WRITE_PAGES").is_some() {
        std::fs::write(repository().join(path), fresh).unwrap();
        return;
    }
    let stored = std::fs::read_to_string(repository().join(path)).unwrap_or_default();
    let mut lines = stored.lines().zip(fresh.lines());
    let first = lines.find(|(stored, fresh)| stored != fresh);
    assert!(
        stored == fresh,
        "{path} is stale: run `just reference`; first difference: {first:#?}"
    );
}

/// Escapes a text for a cell of a Markdown table.
pub(crate) fn cell(text: &str) -> String {
    text.split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .replace('|', "\\|")
}
