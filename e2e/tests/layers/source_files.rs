//! The folders of the crates, and the Rust files of a folder.

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
