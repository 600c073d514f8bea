//! Check that log lines and errors are sentences: no log line shows a Rust structure, and no error shows the text of a
//! `kube::Error`, which contains the whole `Status` of a response.
//!
//! The test searches the sources, but not the tests, of all crates.

use std::fs;
use std::path::Path;

use crate::source_files::{crate_folders, source_files};

/// The macros of log lines.
const MACROS: [&str; 5] = ["trace!(", "debug!(", "info!(", "warn!(", "error!("];

/// Values whose debug form is the form for users: durations, and names in quotes.
const READABLE: [&str; 3] = ["duration", "deadline", "plugin"];

/// Functions that return a message of a `kube::Error` for users.
const MESSAGES: [&str; 4] = [
    "api_error_message(",
    "describe(",
    "client_problem(",
    "root_cause(",
];

/// Returns the part of a text up to the bracket that closes a bracket before the text.
fn until_closed(text: &str) -> &str {
    let (mut depth, mut in_string, mut escaped) = (1, false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if in_string => escaped = true,
            '"' => in_string = !in_string,
            '(' if !in_string => depth += 1,
            ')' if !in_string => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return &text[..at];
        }
    }
    text
}

/// Returns the number of the line at a position.
fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

/// Returns the last word of a text.
fn last_word(text: &str) -> &str {
    let rest = text.trim_end_matches(|c: char| c.is_alphanumeric() || c == '_');
    &text[rest.len()..]
}

/// Returns the first word of a text.
fn first_word(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_');
    &text[..end.unwrap_or(text.len())]
}

/// Returns the values that a log macro with these arguments shows in debug form, except [`READABLE`] ones.
fn debug_values(arguments: &str) -> Vec<&str> {
    let fields = arguments.match_indices('?').filter_map(|(at, _)| {
        let before = arguments[..at].trim_end();
        let is_field = before.is_empty() || before.ends_with([',', '=', '(']);
        is_field.then(|| first_word(&arguments[at + 1..]))
    });
    let placeholders = arguments
        .match_indices("?}")
        .filter_map(|(at, _)| arguments[..at].rsplit_once('{'))
        .map(|(_, name)| first_word(name));
    fields
        .chain(placeholders)
        .filter(|name| !READABLE.contains(name))
        .collect()
}

/// Returns the log macros that show values in debug form, each with its line and the value.
fn debug_lines(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for name in MACROS {
        for (at, _) in text.match_indices(name) {
            let before = &text[..at];
            let line = line_of(text, at);
            let is_log = before.ends_with("tracing::") || last_word(before).is_empty();
            let is_comment = before
                .lines()
                .last()
                .is_some_and(|line| line.trim_start().starts_with("//"));
            if is_log && !is_comment {
                let arguments = until_closed(&text[at + name.len()..]);
                let values = debug_values(arguments).into_iter();
                found.extend(values.map(|value| (line, value)));
            }
        }
    }
    found
}

/// Returns the lines of the `#[error]` attributes that show a `kube::Error` without a message for users.
fn raw_errors(text: &str) -> Vec<usize> {
    let mut found = Vec::new();
    for (at, name) in text.match_indices("#[error(") {
        let attribute = until_closed(&text[at + name.len()..]);
        let rest = &text[at + name.len() + attribute.len()..];
        let end = rest.find("#[error(").unwrap_or(rest.len());
        let item = rest[..end].split("\n}").next().unwrap_or_default();
        let has_message = MESSAGES.iter().any(|message| attribute.contains(message));
        if item.contains("kube::Error") && !has_message {
            found.push(line_of(text, at));
        }
    }
    found
}

/// Returns the sources of all crates without tests, each with its path.
fn sources() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let files = crate_folders()
        .into_iter()
        .flat_map(|folder| source_files(&folder.join("src")));
    files
        .map(|file| (file.strip_prefix(&root).unwrap().to_owned(), file))
        .filter(|(path, _)| !path.to_string_lossy().contains("tests"))
        .map(|(path, file)| {
            let text = fs::read_to_string(file).unwrap();
            let code = text
                .split("\n#[cfg(test)]\nmod ")
                .next()
                .unwrap_or_default();
            (path.display().to_string(), code.to_owned())
        })
        .collect()
}

#[test]
fn log_lines_show_no_rust_structures() {
    let mut problems = Vec::new();
    let sources = sources();
    assert!(sources.len() > 300, "only {} sources", sources.len());
    for (path, code) in sources {
        for (line, value) in debug_lines(&code) {
            problems.push(format!("{path}:{line}: {value}"));
        }
    }
    assert!(
        problems.is_empty(),
        "log the text of these values, `%value` or `api_error_message(&error)`, instead of their debug form:\n{}",
        problems.join("\n")
    );
}

#[test]
fn errors_show_the_message_of_the_api_server_only() {
    let mut problems = Vec::new();
    for (path, code) in sources() {
        problems.extend(
            raw_errors(&code)
                .iter()
                .map(|line| format!("{path}:{line}")),
        );
    }
    assert!(
        problems.is_empty(),
        "use `#[error(\"… {{}}\", api_error_message(source))]` for a `kube::Error`:\n{}",
        problems.join("\n")
    );
}

#[test]
fn structures_in_log_lines_and_errors_are_found() {
    for (code, expected) in [
        ("tracing::warn!(?error, \"a\");", vec!["error"]),
        (
            "tracing::warn!(%error, ?duration, \"a {deadline:?}\");",
            vec![],
        ),
        (
            "debug!(key, error = ?self.error, \"(a) {:?}\", b)",
            vec!["self", ""],
        ),
        ("tracing::info!(%a, \"{error:.0?}\");", vec!["error"]),
        ("// tracing::warn!(?error)", vec![]),
        ("tracing::warn!(a = b?, \"Why?\"); f(?c)", vec![]),
    ] {
        let found = debug_lines(code).into_iter().map(|(_, value)| value);
        assert_eq!(found.collect::<Vec<_>>(), expected, "{code}");
    }
    let errors = "\
        #[error(\"a: {0}\")]\nA(#[from] kube::Error),\n\
        #[error(\"b: {}\", api_error_message(.0))]\nB(kube::Error),\n\
        #[error(transparent)]\nC { source: Box<kube::Error> },\n\
        #[error(\"d\")]\nD,\n}\nfn e() -> kube::Error";
    assert_eq!(raw_errors(errors), [1, 5]);
}
