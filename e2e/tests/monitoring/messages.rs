//! A test that the messages and reasons in `docs/troubleshooting.md` occur in the source code.

use std::path::Path;

use crate::{in_repository, read};

/// Crates whose messages users see in conditions and events.
const CRATES: [&str; 5] = ["api", "engine", "scheduler", "controllers", "diagnosis"];
/// Minimum length of a part of a message that is searched for. Shorter parts occur in the sources by chance.
const SHORTEST: usize = 4;

/// Appends the Rust files of a folder and of its subfolders to `sources`.
fn append_sources(folder: &Path, sources: &mut String) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            append_sources(&path, sources);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            // Unit tests are left out. The lines of a continued string literal are joined.
            let text = text.split("#[cfg(test)]").next().unwrap();
            let joined = text.split("\\\n").map(str::trim_start);
            sources.push_str(&joined.collect::<Vec<_>>().concat());
        }
    }
}

/// Returns the texts in backticks in the first column of each table.
fn first_column(page: &str) -> Vec<&str> {
    let rows = page.lines().filter_map(|line| line.strip_prefix("| "));
    let cells = rows.filter_map(|row| row.split(" | ").next());
    cells
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .collect()
}

#[test]
fn messages_and_reasons_of_the_page_exist_in_the_sources() {
    let mut sources = String::new();
    for name in CRATES {
        append_sources(&in_repository(&format!("crates/{name}/src")), &mut sources);
    }
    let page = read("docs/troubleshooting.md");
    let shown = first_column(&page);
    assert!(shown.len() > 60, "the page shows {} messages", shown.len());
    let mut missing = Vec::new();
    for message in shown {
        for part in message.split(['…', ':']).map(str::trim) {
            if part.len() >= SHORTEST && !sources.contains(part) {
                missing.push(format!("{part:?} of {message:?}"));
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
    for reason in [
        "NoClusterFit",
        "Unschedulable",
        "SchedulerError",
        "QuotaExceeded",
    ] {
        assert!(page.contains(&format!("\n### `{reason}`\n")), "{reason}");
        assert!(sources.contains(&format!("\"{reason}\"")), "{reason}");
    }
}
