//! Checks that the crates for trial and tests stay within the budgets of decision record 0014.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::source_files::{crate_folders, source_files};

/// Path of the record with the budgets.
const RECORD: &str = "docs/decisions/0014-scope-of-the-trial.md";

/// Returns the budgets in a record: the rows of a table with the folder of a crate in `trial/` and a number of lines.
fn budgets(record: &str) -> BTreeMap<String, usize> {
    let rows = record.lines().filter_map(|line| {
        let mut cells = line.strip_prefix('|')?.split('|').map(str::trim);
        let name = cells.next()?.strip_prefix("`trial/")?.strip_suffix('`')?;
        let lines = cells.next_back().filter(|cell| cell.is_empty());
        let budget = lines.and_then(|_| cells.next_back())?.replace(',', "");
        Some((name.to_owned(), budget.parse().ok()?))
    });
    rows.collect()
}

/// Reports whether a file contains only tests.
fn is_test(path: &Path) -> bool {
    let stem = path.file_stem().unwrap().to_string_lossy();
    let in_tests = path.components().any(|part| part.as_os_str() == "tests");
    in_tests || stem == "tests" || stem.ends_with("_tests")
}

/// Returns the number of lines before the unit tests.
fn lines_without_tests(text: &str) -> usize {
    let code = text.split("#[cfg(test)]\nmod tests {").next();
    code.unwrap_or_default().lines().count()
}

#[test]
fn the_trial_stays_within_its_budget() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let budgets = budgets(&fs::read_to_string(root.join(RECORD)).unwrap());
    let trial = root.join("trial");
    let mut problems = Vec::new();
    let mut names = Vec::new();
    for folder in crate_folders() {
        let Ok(name) = folder.strip_prefix(&trial) else {
            continue;
        };
        let name = name.to_str().unwrap().to_owned();
        let lines: usize = source_files(&folder.join("src"))
            .iter()
            .filter(|file| !is_test(file.strip_prefix(&folder).unwrap()))
            .map(|file| lines_without_tests(&fs::read_to_string(file).unwrap()))
            .sum();
        let budget = budgets.get(&name).copied().unwrap_or_default();
        if lines > budget {
            problems.push(format!(
                "trial/{name} has {lines} lines, but {RECORD} allows {budget}"
            ));
        }
        names.push(name);
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert_eq!(names, budgets.into_keys().collect::<Vec<_>>());
}

#[test]
fn budgets_are_read_from_the_table_and_tests_are_not_counted() {
    let record = "| Crate | Content | Lines |\n|---|---|---|\n| `trial/a` | one | 1,200 |\n| `crates/b` | two | 3 |";
    assert_eq!(budgets(record), BTreeMap::from([("a".to_owned(), 1200)]));
    for (path, expected) in [
        ("src/planner.rs", false),
        ("src/planner/tests.rs", true),
        ("src/planner/tests/jobs.rs", true),
        ("src/response_time_tests.rs", true),
    ] {
        assert_eq!(is_test(Path::new(path)), expected, "{path}");
    }
    let text = "fn a() {}\n\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\n";
    assert_eq!(lines_without_tests(text), 2);
}
