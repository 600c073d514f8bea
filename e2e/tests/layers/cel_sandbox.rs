//! Check that CEL has one sandbox: only the crate `berth-cel` depends on the crates of the CEL interpreter.

use std::fs;
use std::path::{Path, PathBuf};

/// Adds the manifests of a folder and its subfolders, except those of build results.
fn manifests(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            manifests(&path, found);
        } else if name == "Cargo.toml" {
            found.push(path);
        }
    }
}

#[test]
fn cel_has_one_sandbox() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = Vec::new();
    manifests(&root, &mut found);
    let is_cel = |line: &str| {
        let name: String = line
            .chars()
            .take_while(|c| c.is_alphanumeric() || "-_".contains(*c))
            .collect();
        ["cel", "kube-cel", "cel-interpreter", "cel-parser"].contains(&name.as_str())
    };
    let mut users: Vec<PathBuf> = found
        .into_iter()
        .filter(|manifest| fs::read_to_string(manifest).unwrap().lines().any(is_cel))
        .map(|manifest| manifest.strip_prefix(&root).unwrap().to_owned())
        .collect();
    users.sort();
    // The manifest of the workspace only names the version.
    assert_eq!(
        users,
        ["Cargo.toml", "crates/cel/Cargo.toml"].map(PathBuf::from)
    );
}
