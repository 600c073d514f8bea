//! Tests of monitoring: the alert rules, the dashboards, the runbooks, the reference of metrics, and the endpoints of
//! the programs.

#![expect(clippy::unwrap_used, clippy::panic, reason = "test code")]

mod commands;
mod controller_endpoints;
mod controllers;
mod dashboards;
mod exposition;
mod http;
mod messages;
mod promql;
mod promtool;
mod reference;
mod rules;

use std::path::{Path, PathBuf};

/// Returns a path in the repository.
fn in_repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

/// Reads a file of the repository.
fn read(path: &str) -> String {
    let file = in_repository(path);
    std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// Returns the files with this extension in a folder of the repository, sorted by name.
fn files(folder: &str, extension: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(in_repository(folder)).unwrap();
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .collect();
    files.sort();
    files
}
