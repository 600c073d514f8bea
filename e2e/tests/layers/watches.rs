//! Check that watches have one retry: only `list_watch` of `berth-component-base` lists and watches objects repeatedly. A
//! second loop would have rules of its own about expired versions, pauses and log lines.
//!
//! The test searches the sources, but not the tests, for the watches of the crate `kube`.

use std::fs;
use std::path::Path;

use crate::source_files::{crate_folders, source_files};

/// Parts of code that send a watch request, or repeat watches.
const WATCHES: &[&str] = &[
    "WatchParams",
    " watcher(",
    "metadata_watcher(",
    ".watch_metadata(",
    "reflector",
    "runtime::Controller",
    "runtime::controller",
];

/// The only folder that may contain [`WATCHES`].
const LIST_WATCH: &str = "crates/component-base/src/list_watch";

/// Returns the lines of code that contain one of [`WATCHES`], with their numbers.
fn watches(text: &str) -> Vec<(usize, &str)> {
    let is_watch = |line: &str| WATCHES.iter().any(|watch| line.contains(watch));
    let lines = (1..).zip(text.lines().map(str::trim_start));
    lines
        .filter(|(_, line)| !line.starts_with("//") && is_watch(line))
        .collect()
}

#[test]
fn watches_have_one_retry() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let crates = crate_folders().into_iter();
    let folders = crates.map(|folder| folder.join("src"));
    let folders = folders.chain([root.join("e2e/src")]);
    let mut problems = Vec::new();
    let mut in_list_watch = 0;
    for file in folders.flat_map(|folder| source_files(&folder)) {
        let text = fs::read_to_string(&file).unwrap();
        let path = file.strip_prefix(&root).unwrap().display().to_string();
        for (number, line) in watches(&text) {
            if path.starts_with(LIST_WATCH) {
                in_list_watch += 1;
            } else {
                problems.push(format!("{path}:{number}: {line}"));
            }
        }
    }
    assert!(in_list_watch > 0, "{LIST_WATCH} contains no watch");
    assert!(
        problems.is_empty(),
        "use `list_watch::events` of berth-component-base instead of another watch:\n{}",
        problems.join("\n")
    );
}

#[test]
fn watches_are_found_in_code_only() {
    let text = "use kube::api::WatchParams;\n// WatchParams\nlet events = watcher(api, config);\nfn watch() {}";
    let lines: Vec<usize> = watches(text).into_iter().map(|(line, _)| line).collect();
    assert_eq!(lines, [1, 3]);
}
