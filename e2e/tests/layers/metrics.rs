//! Checks that metrics have one stack: only the crate `berth-metrics` depends on a library for metrics, and only this
//! crate writes the text of `/metrics`. A second stack would write names, labels and numbers in a form of its own.

use std::path::PathBuf;

use crate::nouns::assert_homes;
use crate::source_files::manifests_with;

/// Libraries that collect or export metrics.
const LIBRARIES: &[&str] = &[
    "metrics",
    "metrics-exporter-prometheus",
    "opentelemetry-prometheus",
    "prometheus",
    "prometheus-client",
];

/// Parts of code that write the text of `/metrics`: headers of families, media types, and calls of the library.
const TEXT: &[&str] = &[
    "# HELP",
    "# TYPE",
    "openmetrics-text",
    "version=0.0.4",
    "text::encode",
    "encode_registry",
];

#[test]
fn metrics_have_one_library() {
    // The manifest of the workspace only names the version.
    assert_eq!(
        manifests_with(LIBRARIES),
        ["Cargo.toml", "crates/metrics/Cargo.toml"].map(PathBuf::from)
    );
}

#[test]
fn metrics_are_written_in_one_place() {
    assert_homes(&["metrics/src/registry.rs"], |line| {
        !line.starts_with("//") && TEXT.iter().any(|part| line.contains(part))
    });
}
