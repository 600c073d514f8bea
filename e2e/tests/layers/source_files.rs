//! The Rust files of a folder.

use std::fs;
use std::path::{Path, PathBuf};

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
