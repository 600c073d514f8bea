//! From files to documents: what there is to read, and where in it each document stands.

use std::convert::Infallible;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde_json::Value;

use super::error::{Place, Problem};

/// Endings of the files of a folder that are read.
const ENDINGS: [&str; 3] = ["yaml", "yml", "json"];

/// Something to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// Standard input.
    Stdin,
    /// A file or a folder.
    Path(PathBuf),
}

impl FromStr for Input {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(if text == "-" {
            Self::Stdin
        } else {
            Self::Path(text.into())
        })
    }
}

/// A document that could be parsed.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    /// Where it was found.
    pub(crate) place: Place,
    /// What it says; never null.
    pub(crate) value: Value,
}

/// Reads everything; what cannot be read becomes a problem.
pub(crate) fn read(inputs: &[Input]) -> (Vec<Document>, Vec<Problem>) {
    let (mut documents, mut problems) = (Vec::new(), Vec::new());
    let mut stdin_is_read = false;
    for input in inputs {
        match input {
            Input::Stdin if stdin_is_read => {
                problems.push(Problem::new("standard input", "can be read only once"));
            }
            Input::Stdin => {
                stdin_is_read = true;
                let mut text = String::new();
                match std::io::stdin().read_to_string(&mut text) {
                    Ok(_) => parse("standard input", &text, &mut documents, &mut problems),
                    Err(error) => problems.push(Problem::new("standard input", error)),
                }
            }
            Input::Path(path) if path.is_dir() => match files_of(path) {
                Ok(files) if files.is_empty() => problems.push(Problem::new(
                    path.display(),
                    "has no *.yaml, *.yml or *.json file",
                )),
                Ok(files) => {
                    for file in files {
                        read_file(&file, &mut documents, &mut problems);
                    }
                }
                Err(error) => problems.push(Problem::new(path.display(), error)),
            },
            Input::Path(path) => read_file(path, &mut documents, &mut problems),
        }
    }
    (documents, problems)
}

fn files_of(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let ending = path.extension().and_then(|ending| ending.to_str());
        if ending.is_some_and(|ending| ENDINGS.contains(&ending)) && path.is_file() {
            files.push(path);
        }
    }
    files.sort_unstable();
    Ok(files)
}

fn read_file(path: &Path, documents: &mut Vec<Document>, problems: &mut Vec<Problem>) {
    match std::fs::read_to_string(path) {
        Ok(text) => parse(&path.display().to_string(), &text, documents, problems),
        Err(error) => problems.push(Problem::new(path.display(), error)),
    }
}

/// Parses a text, document by document, so that one broken document does not hide the others.
fn parse(file: &str, text: &str, documents: &mut Vec<Document>, problems: &mut Vec<Problem>) {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if let Some(values) = json_documents(text) {
        for (index, value) in values.into_iter().enumerate() {
            documents.push(Document {
                place: place(file, index + 1),
                value,
            });
        }
        return;
    }
    for (index, chunk) in yaml_documents(text).into_iter().enumerate() {
        let place = place(file, index + 1);
        match yaml(&chunk) {
            Ok(Value::Null) => {}
            Ok(value) => documents.push(Document { place, value }),
            Err(reason) => problems.push(Problem::new(place, reason)),
        }
    }
}

fn place(file: &str, document: usize) -> Place {
    Place {
        file: file.to_owned(),
        document,
        item: None,
    }
}

/// JSON documents one after the other; nothing where the text is anything else, which YAML then explains.
fn json_documents(text: &str) -> Option<Vec<Value>> {
    if !text.trim_start().starts_with('{') {
        return None;
    }
    serde_json::Deserializer::from_str(text)
        .into_iter::<Value>()
        .collect::<Result<_, _>>()
        .ok()
}

/// The texts between the `---` lines. Lines that belong to earlier documents are kept as empty ones, so
/// that an error names the line of the file.
fn yaml_documents(text: &str) -> Vec<String> {
    let mut chunks = Vec::new();
    let mut chunk = String::new();
    let mut blank_lines = String::new();
    // Whether there is anything before the first marker: comments are no document.
    let mut open = false;
    for line in text.lines() {
        let marker = line
            .strip_prefix("---")
            .filter(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r']));
        if let Some(rest) = marker {
            if open {
                chunks.push(std::mem::replace(&mut chunk, blank_lines.clone()));
            } else {
                chunk.clone_from(&blank_lines);
            }
            open = true;
            // The place of the marker is kept, for the column of an error.
            chunk.push_str("   ");
            chunk.push_str(rest);
        } else if line.trim_end() == "..." {
        } else {
            let content = line.trim();
            open |= !content.is_empty() && !content.starts_with(['#', '%']);
            chunk.push_str(line);
        }
        chunk.push('\n');
        blank_lines.push('\n');
    }
    if open {
        chunks.push(chunk);
    }
    chunks
}

fn yaml(text: &str) -> Result<Value, String> {
    // The limits guard servers against strangers; here a user reads a file of their own.
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: 100_000_000,
            max_nodes: 50_000_000,
        },
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let error = error.to_string();
        // Advice for those who write programs, not manifests.
        let error = error.replace(", set DuplicateKeyPolicy in Options if acceptable", "");
        format!("cannot be parsed: {error}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> (Vec<(usize, Value)>, Vec<Problem>) {
        let (mut documents, mut problems) = (Vec::new(), Vec::new());
        parse("f", text, &mut documents, &mut problems);
        let documents = documents
            .into_iter()
            .map(|document| (document.place.document, document.value))
            .collect();
        (documents, problems)
    }

    #[test]
    fn documents_are_counted_as_yaml_counts_them() {
        for (text, expected) in [
            ("", &[][..]),
            ("# only a comment\n", &[]),
            ("a: 1\n", &[1]),
            ("---\na: 1\n", &[1]),
            ("# about\n---\na: 1\n---\na: 2\n", &[1, 2]),
            ("a: 1\n---\n---\na: 2\n", &[1, 3]),
            ("a: 1\n--- # second\na: 2\n...\n", &[1, 2]),
            ("a: |\n  --- not a marker\n---\na: 2\n", &[1, 2]),
            ("{\"a\": 1}\n{\"a\": 2}\n", &[1, 2]),
            ("{a: 1}\n", &[1]),
        ] {
            let (documents, problems) = read_text(text);
            assert_eq!(problems, [], "{text:?}");
            let numbers: Vec<usize> = documents.iter().map(|(number, _)| *number).collect();
            assert_eq!(numbers, expected, "{text:?}");
        }
    }

    #[test]
    fn one_broken_document_does_not_hide_the_others() {
        let (documents, problems) = read_text("a: 1\n---\na: [1\n---\na: 3\n---\na: 1\na: 2\n");
        assert_eq!(documents.len(), 2);
        let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert!(problems[0].starts_with("f, document 2: cannot be parsed: "));
        assert!(problems[1].starts_with("f, document 4: cannot be parsed: "));
        assert!(problems[1].contains("line 8"), "{}", problems[1]);
        assert_eq!(problems.len(), 2);
    }
}
