//! Check that CEL has one sandbox: only the crate `berth-cel` depends on the crates of the CEL interpreter.

use std::path::PathBuf;

use crate::source_files::manifests_with;

#[test]
fn cel_has_one_sandbox() {
    let users = manifests_with(&["cel", "kube-cel", "cel-interpreter", "cel-parser"]);
    // The manifest of the workspace only names the version.
    assert_eq!(
        users,
        ["Cargo.toml", "crates/cel/Cargo.toml"].map(PathBuf::from)
    );
}
