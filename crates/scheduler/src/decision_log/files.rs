//! Names and order of the files in the folder of a decision log.

use std::io;
use std::path::{Path, PathBuf};

const PREFIX: &str = "decisions-";
const SUFFIX: &str = ".jsonl.gz";

/// Returns the name of a file that is created at the time `now`. The alphabetical order of names is the order of
/// creation.
pub(super) fn name(now: jiff::Timestamp, sequence: u64) -> String {
    let time = now.strftime("%Y%m%dT%H%M%S");
    let millisecond = now.subsec_millisecond();
    format!("{PREFIX}{time}.{millisecond:03}Z-{sequence:06}{SUFFIX}")
}

/// Returns the files of a log, oldest first.
///
/// # Errors
/// When the folder cannot be read.
pub(crate) fn list(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let name = entry?.file_name();
        let is_log = name
            .to_str()
            .is_some_and(|name| name.starts_with(PREFIX) && name.ends_with(SUFFIX));
        if is_log {
            files.push(folder.join(name));
        }
    }
    files.sort_unstable();
    Ok(files)
}
