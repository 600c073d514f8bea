//! The folders of the crates, the Rust files of a folder, and the manifests that name a dependency.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns the folders of the crates that have sources, in the order of their names.
pub(crate) fn crate_folders() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let crates = ["crates", "trial"].map(|folder| fs::read_dir(root.join(folder)).unwrap());
    let mut folders: Vec<PathBuf> = crates
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().path())
        .filter(|folder| folder.join("src").is_dir())
        .collect();
    folders.sort();
    folders
}

/// Returns the Rust files of a folder and its subfolders.
pub(crate) fn source_files(folder: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(folder).unwrap();
    let paths = paths.map(|entry| entry.unwrap().path());
    let files = paths.flat_map(|path| {
        if path.is_dir() {
            source_files(&path)
        } else {
            vec![path]
        }
    });
    files
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .collect()
}

/// Returns the manifests of the repository that name one of these dependencies, in the order of their paths.
pub(crate) fn manifests_with(dependencies: &[&str]) -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = Vec::new();
    manifests(&root, &mut found);
    let names_one = |line: &str| {
        let name: String = line
            .chars()
            .take_while(|c| c.is_alphanumeric() || "-_".contains(*c))
            .collect();
        dependencies.contains(&name.as_str())
    };
    let mut users: Vec<PathBuf> = found
        .into_iter()
        .filter(|manifest| fs::read_to_string(manifest).unwrap().lines().any(names_one))
        .map(|manifest| manifest.strip_prefix(&root).unwrap().to_owned())
        .collect();
    users.sort();
    users
}

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
