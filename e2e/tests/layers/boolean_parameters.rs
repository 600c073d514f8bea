//! Checks that calls can be read without the declaration: no call passes a literal `true` or `false` to a function of
//! the crates, and functions with a boolean parameter do not become more frequent. Two functions, an enum or a field of
//! an options type say what the value means.

use std::collections::BTreeSet;
use std::fs;

use crate::imports::{code_only, without_tests};
use crate::source_files::{crate_folders, source_files};

/// The maximum number of functions with a boolean parameter.
const MAX_FUNCTIONS: usize = 57;

/// Calls that may pass a literal.
const EXEMPT: &[&str] = &[
    "Clusters::new",
    "Decider::new",
    "compared",
    "leading",
    "predict_moves",
    "set",
    "set_leading",
    "table",
];

/// Functions outside of the crates with the names of functions of the crates.
const FOREIGN: &[&str] = &[
    "AtomicBool::new",
    "Cell::new",
    "Sender::new",
    "SpanContext::new",
];

/// A function with a boolean parameter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Function {
    name: String,
    /// The number of parameters, without the receiver.
    parameters: usize,
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Returns the items of a list that starts after its opening bracket. The lists in `opening` and `closing` brackets are
/// parts of an item.
fn items<'a>(code: &'a str, opening: &str, closing: &str) -> Vec<&'a str> {
    let (mut depth, mut start) = (0, 0);
    let mut found = Vec::new();
    for (at, c) in code.char_indices() {
        if opening.contains(c) {
            depth += 1;
        } else if closing.contains(c) && depth > 0 {
            depth -= 1;
        } else if depth == 0 && (c == ',' || closing.contains(c)) {
            found.push(code[start..at].trim());
            start = at + 1;
            if c != ',' {
                break;
            }
        }
    }
    // A comma may follow the last item.
    if found.last().is_some_and(|last| last.is_empty()) {
        found.pop();
    }
    found
}

/// Returns the code after the generic parameters at its start.
fn after_generics(code: &str) -> &str {
    let Some(inner) = code.strip_prefix('<') else {
        return code;
    };
    let mut depth = 1;
    for (at, c) in inner.char_indices() {
        match c {
            '<' => depth += 1,
            '>' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return &inner[at + 1..];
        }
    }
    ""
}

/// Returns the functions with a boolean parameter that code declares.
fn functions(code: &str) -> Vec<Function> {
    let mut found = Vec::new();
    let declarations = code.match_indices("fn ");
    for (at, keyword) in declarations.filter(|(at, _)| !code[..*at].ends_with(is_name)) {
        let declaration = &code[at + keyword.len()..];
        let end = declaration.find(|c| !is_name(c)).unwrap_or_default();
        let Some(parameters) = after_generics(&declaration[end..]).strip_prefix('(') else {
            continue;
        };
        let types: Vec<&str> = items(parameters, "([{<", ")]}>")
            .into_iter()
            .filter_map(|parameter| Some(parameter.split_once(": ")?.1.trim()))
            .collect();
        if types.contains(&"bool") {
            found.push(Function {
                name: declaration[..end].to_owned(),
                parameters: types.len(),
            });
        }
    }
    found
}

/// Returns the functions that code calls with a literal `true` or `false`, each with the path in the call.
fn calls_with_literals(code: &str) -> Vec<(&str, Function)> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices('(') {
        let start = code[..at]
            .trim_end_matches(|c| is_name(c) || c == ':')
            .len();
        let path = &code[start..at];
        let name = path.rsplit("::").next().unwrap_or_default();
        let arguments = items(&code[at + 1..], "([{", ")]}");
        let has_literal = arguments
            .iter()
            .any(|item| matches!(*item, "true" | "false"));
        if !name.is_empty() && has_literal {
            let function = Function {
                name: name.to_owned(),
                parameters: arguments.len(),
            };
            found.push((path, function));
        }
    }
    found
}

/// Returns the code of all production sources of the crates, each with the path of its file.
fn sources() -> Vec<(String, String)> {
    let mut sources = Vec::new();
    let crates = crate_folders().into_iter();
    let production = crates.filter(|folder| folder.parent().unwrap().ends_with("crates"));
    for file in production.flat_map(|folder| source_files(&folder.join("src"))) {
        let is_test = file.components().any(|part| part.as_os_str() == "tests")
            || file
                .file_stem()
                .unwrap()
                .to_string_lossy()
                .ends_with("tests");
        if !is_test {
            let (code, _) = without_tests(&code_only(&fs::read_to_string(&file).unwrap()));
            // The bracket of an arrow closes nothing.
            sources.push((file.display().to_string(), code.replace("->", " ")));
        }
    }
    sources
}

#[test]
fn calls_pass_no_boolean_literals() {
    let files = sources();
    let declared: BTreeSet<Function> = files.iter().flat_map(|(_, code)| functions(code)).collect();
    let is_exempt = |path: &str| {
        let ends_path = |rest: &str| rest.is_empty() || rest.ends_with("::");
        let mut exempt = EXEMPT.iter().chain(FOREIGN);
        exempt.any(|known| path.strip_suffix(known).is_some_and(ends_path))
    };
    let mut problems = Vec::new();
    for (file, code) in &files {
        for (path, function) in calls_with_literals(code) {
            if declared.contains(&function) && !is_exempt(path) {
                problems.push(format!("{file}: {path}"));
            }
        }
    }
    assert!(
        problems.is_empty(),
        "use two functions or an enum instead of a boolean parameter:\n{}",
        problems.join("\n")
    );
}

#[test]
fn boolean_parameters_do_not_become_more_frequent() {
    let count: usize = sources()
        .iter()
        .map(|(_, code)| functions(code).len())
        .sum();
    assert!(
        count <= MAX_FUNCTIONS,
        "{count} functions have a boolean parameter, at most {MAX_FUNCTIONS} may have one"
    );
}

#[test]
fn boolean_parameters_and_literals_are_found() {
    let function = |name: &str, parameters| Function {
        name: name.to_owned(),
        parameters,
    };
    let code = "fn a(&self, of: &Map<K, V>, up: bool) {} fn b<F: Fn(bool)>(f: F) {} fn c() bool {}";
    assert_eq!(functions(code), [function("a", 2)]);
    let code = "x.a(y, true); T::new(false); T::b([true], c(1, || false, false),); d(true";
    let expected = [
        ("a", function("a", 2)),
        ("T::new", function("new", 1)),
        ("c", function("c", 3)),
    ];
    assert_eq!(calls_with_literals(code), expected);
}
