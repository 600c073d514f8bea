//! Checks that each noun that several crates share has one home.

use std::fs;

use crate::source_files::{crate_folders, source_files};

/// Returns the lines before the unit tests of all sources of the crates, each with the path of its file below the folder
/// of the crates.
fn lines() -> Vec<(String, String)> {
    let mut lines = Vec::new();
    for folder in crate_folders() {
        for file in source_files(&folder.join("src")) {
            let stem = file.file_stem().unwrap().to_string_lossy();
            if stem == "tests" || stem.ends_with("_tests") {
                continue;
            }
            let text = fs::read_to_string(&file).unwrap();
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            let name = file.strip_prefix(folder.parent().unwrap()).unwrap();
            let of_file = code
                .lines()
                .map(|line| (name.display().to_string(), line.trim().to_owned()));
            lines.extend(of_file);
        }
    }
    lines
}

/// Returns the name of the type that a line defines.
fn defined_type(line: &str) -> Option<&str> {
    let words: Vec<&str> = line
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
        .take_while(|word| !matches!(*word, "fn" | "impl" | "use" | "let"))
        .collect();
    let at = words
        .iter()
        .position(|word| matches!(*word, "struct" | "enum" | "type"))?;
    let is_definition = words[..at]
        .iter()
        .all(|word| matches!(*word, "pub" | "crate" | "super" | "in"));
    words.get(at + 1).copied().filter(|_| is_definition)
}

/// Asserts that the only files with a matching line are `homes`.
pub(crate) fn assert_homes(homes: &[&str], matches: impl Fn(&str) -> bool) {
    let mut found: Vec<String> = lines()
        .into_iter()
        .filter(|(_, line)| matches(line))
        .map(|(file, _)| file)
        .collect();
    found.sort();
    found.dedup();
    assert_eq!(found, homes);
}

#[test]
fn a_binding_has_one_identity_type() {
    assert_homes(&["api/src/binding_key.rs"], |line| {
        let identity = defined_type(line).and_then(|name| name.strip_prefix("Binding"));
        let endings = ["Id", "Identity", "Key", "Kind", "Name", "Ref"];
        identity.is_some_and(|rest| endings.contains(&rest))
    });
}

#[test]
fn a_binding_is_decoded_into_one_type() {
    assert_homes(&["api/src/decoded_binding.rs"], |line| {
        line.starts_with("pub") && defined_type(line) == Some("Binding")
    });
}

#[test]
fn an_engine_error_has_one_method_that_gives_the_reason() {
    assert_homes(&["engine/src/scheduled_reason.rs"], |line| {
        line.contains("=> \"NoClusterFit\"")
    });
    // Other crates may not map the variants of the error to reasons.
    assert_homes(&[], |line| {
        line.contains("ScheduleError::Plugin(") && line.contains("is_unschedulable")
    });
}

#[test]
fn a_recorded_decision_has_one_type_in_memory_and_one_in_files() {
    let names = [
        "RecordedDecision",
        "LoggedDecision",
        "DecisionRecord",
        "DecisionInput",
    ];
    assert_homes(&["scheduler/src/recorded_decision.rs"], |line| {
        defined_type(line).is_some_and(|name| names.contains(&name.trim_end_matches('s')))
    });
    // Only the type of the files contains the serialized form of a binding.
    assert_homes(&["scheduler/src/decision_log/format.rs"], |line| {
        line.ends_with(": RecordedBinding,")
    });
}

#[test]
fn feature_gates_have_one_home() {
    let homes = ["api/src/feature_gates.rs", "api/src/feature_gates/flag.rs"];
    assert_homes(&homes, |line| {
        defined_type(line).is_some_and(|name| name.ends_with("Gates"))
    });
}

#[test]
fn times_are_truncated_in_one_way() {
    assert_homes(&["apimachinery/src/timestamp.rs"], |line| {
        line.contains("from_second(") && line.contains(".as_second())")
    });
}
