//! Checks of the imports between modules. No crate may have import cycles between sibling modules. In
//! `berth-apiserver`, a module may import only modules of its own or a lower layer.
//!
//! The tests find imports in the text of `use` declarations and of inline `crate::` and `super::` paths. They ignore
//! test modules.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::source_files::{crate_folders, source_files};

/// The layers of `berth-apiserver` from low to high, each with its modules. A module may import modules of its own
/// layer if the imports have no cycle.
const APISERVER: &[(&str, &[&str])] = &[
    (
        "leaves",
        &[
            "admission",
            "cel",
            "clock",
            "connect",
            "error",
            "go_text",
            "identity",
            "percent_encoding",
            "protobuf",
            "query",
            "table_names",
        ],
    ),
    ("schema", &["codec", "schema", "table"]),
    ("store", &["storage", "store"]),
    ("resource", &["resource", "text_rules"]),
    ("patch", &["patch"]),
    ("built-in kinds", &["builtins", "selector"]),
    ("registry", &["registry"]),
    (
        "access",
        &[
            "allocation",
            "authentication",
            "authorization",
            "in_flight",
            "tls",
            "webhook_registry",
        ],
    ),
    ("shared state", &["metrics", "shared"]),
    ("verbs", &["verbs"]),
    ("tasks", &["tasks"]),
    ("http", &["http"]),
    ("server", &["connection", "credentials", "server"]),
];

/// The imports between sibling modules of a crate, as pairs of importing and imported module, with the files that
/// contain the import. If one module imports a module of another branch of the module tree, the pair consists of the
/// ancestors of the two modules that are siblings.
type Imports = BTreeMap<(String, String), BTreeSet<PathBuf>>;

/// Returns the name and the source folder of each crate.
fn crates() -> Vec<(String, PathBuf)> {
    let name = |folder: &Path| folder.file_name().unwrap().to_string_lossy().into_owned();
    let crates = crate_folders().into_iter();
    crates
        .map(|folder| (name(&folder), folder.join("src")))
        .collect()
}

/// Returns the module path of a file. The path of the root of a crate is empty.
fn module_path(source: &Path, file: &Path) -> Vec<String> {
    let relative = file.strip_prefix(source).unwrap().with_extension("");
    let mut path: Vec<String> = relative
        .components()
        .map(|part| part.as_os_str().to_str().unwrap().to_owned())
        .collect();
    let last = path.last().map(String::as_str);
    if last == Some("mod") || path.len() == 1 && matches!(last, Some("lib" | "main")) {
        path.pop();
    }
    path
}

/// Removes comments, and replaces strings and character literals by blanks.
pub(crate) fn code_only(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let starts = |at: usize, pattern: &str| {
        pattern
            .chars()
            .enumerate()
            .all(|(offset, c)| chars.get(at + offset) == Some(&c))
    };
    let (mut out, mut at) = (String::new(), 0);
    while at < chars.len() {
        let raw_hashes = chars[at..]
            .iter()
            .skip(1)
            .take_while(|c| **c == '#')
            .count();
        let is_raw = chars[at] == 'r' && chars.get(at + 1 + raw_hashes) == Some(&'"');
        if starts(at, "//") {
            while at < chars.len() && chars[at] != '\n' {
                at += 1;
            }
        } else if starts(at, "/*") {
            while at < chars.len() && !starts(at, "*/") {
                at += 1;
            }
            at += 2;
        } else if is_raw {
            let end = format!("\"{}", "#".repeat(raw_hashes));
            at += 2 + raw_hashes;
            while at < chars.len() && !starts(at, &end) {
                at += 1;
            }
            at += end.len();
            out.push(' ');
        } else if chars[at] == '"' {
            at += 1;
            while at < chars.len() && chars[at] != '"' {
                at += 1 + usize::from(chars[at] == '\\');
            }
            at += 1;
            out.push(' ');
        } else if starts(at, "'\\") || chars[at] == '\'' && chars.get(at + 2) == Some(&'\'') {
            at += 2;
            while at < chars.len() && chars[at] != '\'' {
                at += 1;
            }
            at += 1;
            out.push(' ');
        } else {
            out.push(chars[at]);
            at += 1;
        }
    }
    out
}

/// Returns the code without the items under `#[cfg(test)]`, and the names of the test modules that are in other files.
pub(crate) fn without_tests(code: &str) -> (String, Vec<String>) {
    let (mut out, mut modules) = (String::new(), Vec::new());
    let mut rest = code;
    while let Some((before, after)) = rest.split_once("#[cfg(test)]") {
        out.push_str(before);
        let semicolon = after.find(';').unwrap_or(after.len());
        let brace = after.find('{').unwrap_or(after.len());
        if semicolon < brace {
            let words: Vec<&str> = after[..semicolon].split_whitespace().collect();
            if let [.., "mod", name] = words.as_slice() {
                modules.push((*name).to_owned());
            }
            rest = &after[semicolon + 1..];
            continue;
        }
        let mut depth = 0;
        let end = after[brace..].char_indices().find_map(|(at, c)| {
            depth += match c {
                '{' => 1,
                '}' => -1,
                _ => 0,
            };
            (depth == 0).then_some(brace + at + 1)
        });
        rest = &after[end.unwrap_or(after.len())..];
    }
    out.push_str(rest);
    (out, modules)
}

/// Expands the tree of a `use` declaration into single paths.
fn expand(tree: &str, paths: &mut Vec<String>) {
    let Some((prefix, inner)) = tree.split_once('{') else {
        paths.push(tree.trim().to_owned());
        return;
    };
    let inner = inner.rsplit_once('}').map_or(inner, |(inner, _)| inner);
    let (mut depth, mut start) = (0, 0);
    for (at, c) in inner.char_indices().chain([(inner.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                let part = inner[start..at].trim();
                if !part.is_empty() {
                    expand(&format!("{}{part}", prefix.trim()), paths);
                }
                start = at + 1;
            }
            _ => {}
        }
    }
}

/// Returns the paths in `use` declarations, and the inline paths that start with `crate::` or `super::`.
fn paths(code: &str) -> Vec<String> {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let mut paths = Vec::new();
    let mut rest = code;
    while let Some(at) = rest.find(is_name) {
        let end = rest[at..]
            .find(|c| !is_name(c))
            .map_or(rest.len(), |end| at + end);
        let word = &rest[at..end];
        rest = &rest[end..];
        if word == "use" {
            let (tree, after) = rest.split_once(';').unwrap_or((rest, ""));
            expand(tree, &mut paths);
            rest = after;
        } else if (word == "crate" || word == "super") && rest.starts_with("::") {
            let path_end = rest.find(|c| !is_name(c) && c != ':').unwrap_or(rest.len());
            paths.push(format!("{word}{}", &rest[..path_end]));
            rest = &rest[path_end..];
        }
    }
    paths
}

/// Returns the path of an import from the root of its crate. Returns `None` if the import starts with neither `crate`
/// nor `super`.
fn resolve(module: &[String], path: &str) -> Option<Vec<String>> {
    let mut steps = path
        .split("::")
        .map(|step| step.split_whitespace().next().unwrap_or_default())
        .peekable();
    let mut absolute = match *steps.peek()? {
        "crate" => {
            steps.next();
            Vec::new()
        }
        "super" => module.to_vec(),
        _ => return None,
    };
    while steps.next_if_eq(&"super").is_some() {
        absolute.pop()?;
    }
    absolute.extend(steps.filter(|step| !step.is_empty()).map(str::to_owned));
    Some(absolute)
}

/// Returns the imports between the sibling modules of a crate.
fn imports(source: &Path) -> Imports {
    let files = source_files(source);
    let mut sources = BTreeMap::new();
    let mut test_modules = BTreeSet::new();
    for file in files {
        let module = module_path(source, &file);
        let (code, tests) = without_tests(&code_only(&fs::read_to_string(&file).unwrap()));
        for name in tests {
            test_modules.insert([module.as_slice(), &[name]].concat());
        }
        sources.insert(module, (file, code));
    }
    let modules: BTreeSet<Vec<String>> = sources.keys().cloned().collect();
    let mut imports = Imports::new();
    for (module, (file, code)) in &sources {
        if (1..=module.len()).any(|length| test_modules.contains(&module[..length])) {
            continue;
        }
        let targets = paths(code)
            .into_iter()
            .filter_map(|path| resolve(module, &path));
        for target in targets {
            let same = |(own, other): &(&String, &String)| own == other;
            let shared = module.iter().zip(&target).take_while(same).count();
            let (Some(from), Some(to)) = (module.get(..=shared), target.get(..=shared)) else {
                continue;
            };
            if modules.contains(to) {
                let files = imports.entry((from.join("::"), to.join("::"))).or_default();
                files.insert(file.strip_prefix(source).unwrap().to_owned());
            }
        }
    }
    imports
}

/// Returns a shortest chain of imports from one module to another.
fn shortest_path(imports: &Imports, from: &str, to: &str) -> Option<Vec<String>> {
    let mut visited = BTreeSet::from([from.to_owned()]);
    let mut queue = vec![vec![from.to_owned()]];
    while !queue.is_empty() {
        let mut longer = Vec::new();
        for path in queue {
            let last = path.last()?;
            if last == to {
                return Some(path);
            }
            for (_, next) in imports.keys().filter(|(importer, _)| importer == last) {
                if visited.insert(next.clone()) {
                    longer.push([path.as_slice(), std::slice::from_ref(next)].concat());
                }
            }
        }
        queue = longer;
    }
    None
}

/// Returns the description of a shortest import cycle, or `None` if no cycle exists.
fn cycle(imports: &Imports) -> Option<String> {
    let mut cycles: Vec<Vec<String>> = imports
        .keys()
        .filter_map(|(from, to)| {
            let back = shortest_path(imports, to, from)?;
            Some([std::slice::from_ref(from), back.as_slice()].concat())
        })
        .collect();
    cycles.sort_by_key(Vec::len);
    let cycle = cycles.into_iter().next()?;
    let mut text = cycle.join(" -> ");
    for step in cycle.windows(2) {
        let files = &imports[&(step[0].clone(), step[1].clone())];
        let files: Vec<String> = files.iter().map(|f| f.display().to_string()).collect();
        write!(
            text,
            "\n  {} imports {} in {}",
            step[0],
            step[1],
            files.join(", ")
        )
        .unwrap();
    }
    Some(text)
}

#[test]
fn sibling_modules_have_no_import_cycles() {
    let mut problems = Vec::new();
    for (name, source) in crates() {
        if let Some(cycle) = cycle(&imports(&source)) {
            problems.push(format!("{name}: import cycle {cycle}"));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n\n"));
}

/// Checks that no module of `berth-apiserver` imports a module of a higher layer.
#[test]
fn the_api_server_imports_downwards_only() {
    let (_, source) = crates()
        .into_iter()
        .find(|(name, _)| name == "apiserver")
        .unwrap();
    let layer = |module: &str| {
        APISERVER
            .iter()
            .position(|(_, modules)| modules.contains(&module))
    };
    let mut problems = Vec::new();
    let top_level = imports(&source)
        .into_iter()
        .filter(|((from, to), _)| !from.contains("::") && !to.contains("::"));
    for ((from, to), files) in top_level {
        let (Some(own), Some(other)) = (layer(&from), layer(&to)) else {
            problems.push(format!("{from} or {to} has no layer: add it to APISERVER"));
            continue;
        };
        if other > own {
            let (own, other) = (APISERVER[own].0, APISERVER[other].0);
            problems.push(format!(
                "{from} (layer {own}) imports {to} (layer {other}) in {files:?}"
            ));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn imports_are_found_in_use_trees_and_inline_paths() {
    let code = "use crate::a::{self, b::{C, D as E}};\nuse super::f;\nfn g() { crate::h::i(); super::super::j::K }";
    assert_eq!(
        paths(code),
        [
            "crate::a::self",
            "crate::a::b::C",
            "crate::a::b::D as E",
            "super::f",
            "crate::h::i",
            "super::super::j::K"
        ]
    );
    let module = ["x", "y"].map(str::to_owned);
    assert_eq!(resolve(&module, "super::f").unwrap(), ["x", "f"]);
    assert_eq!(resolve(&module, "super::super::j::K").unwrap(), ["j", "K"]);
    assert_eq!(resolve(&module, "std::fs"), None);
    let (code, tests) = without_tests("a #[cfg(test)] mod t { crate::b } c #[cfg(test)] mod u; d");
    assert_eq!((code.as_str(), tests), ("a  c  d", vec!["u".to_owned()]));
    assert_eq!(code_only("a \"//x\" // y\n'\"' r#\"z\"# b"), "a   \n    b");
}
