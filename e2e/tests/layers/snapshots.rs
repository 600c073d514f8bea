//! Check that snapshots have no leftovers: the test whose name a file in a folder `snapshots/` has exists, in the source
//! file that the snapshot names.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns the snapshots in a folder and its subfolders, except those of build results.
fn snapshots(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let found = paths.flat_map(|path| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            snapshots(&path)
        } else if path
            .extension()
            .is_some_and(|extension| extension == "snap")
        {
            vec![path]
        } else {
            Vec::new()
        }
    });
    found.collect()
}

#[test]
fn each_snapshot_has_its_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let all = snapshots(&root);
    assert!(!all.is_empty());
    for snapshot in all {
        let text = fs::read_to_string(&snapshot).unwrap();
        let source = text.lines().find_map(|line| line.strip_prefix("source: "));
        let source = root.join(source.unwrap());
        let function = format!("fn {}()", snapshot.file_stem().unwrap().to_string_lossy());
        let sources = fs::read_to_string(&source).unwrap_or_default();
        assert!(
            sources.contains(&function)
                && source.parent() == snapshot.parent().and_then(Path::parent),
            "delete {}: {} has no {function}",
            snapshot.display(),
            source.display()
        );
    }
}
