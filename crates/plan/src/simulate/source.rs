//! A reader of YAML and JSON documents from files, folders and standard input.

use std::convert::Infallible;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde_json::Value;

use super::error::{Problem, SourceLocation};

/// Extensions of the files that are read from a folder.
const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];

/// A source of manifests.
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

/// A parsed document.
#[derive(Clone, Debug)]
pub struct Document {
    /// Position of the document in a file or in standard input.
    pub location: SourceLocation,
    /// Content of the document. Empty YAML documents are skipped.
    pub value: Value,
}

/// Reads all inputs. Returns the documents, and a problem for each file or document that cannot be read.
pub fn read(inputs: &[Input]) -> (Vec<Document>, Vec<Problem>) {
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
        let extension = path.extension().and_then(|extension| extension.to_str());
        if extension.is_some_and(|extension| EXTENSIONS.contains(&extension)) && path.is_file() {
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

/// Parses each document separately, so that a file with an invalid document still yields its other documents.
fn parse(file: &str, text: &str, documents: &mut Vec<Document>, problems: &mut Vec<Problem>) {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if let Some(values) = json_documents(text) {
        for (index, value) in values.into_iter().enumerate() {
            documents.push(Document {
                location: location(file, index + 1),
                value,
            });
        }
        return;
    }
    for (index, chunk) in yaml_documents(text).into_iter().enumerate() {
        let location = location(file, index + 1);
        match yaml(&chunk) {
            Ok(Value::Null) => {}
            Ok(value) => documents.push(Document { location, value }),
            Err(reason) => problems.push(Problem::new(location, reason)),
        }
    }
}

fn location(file: &str, document: usize) -> SourceLocation {
    SourceLocation {
        file: file.to_owned(),
        document,
        item: None,
    }
}

/// Parses concatenated JSON documents. Returns `None` if the text is not JSON or does not start with an object.
fn json_documents(text: &str) -> Option<Vec<Value>> {
    if !text.trim_start().starts_with('{') {
        return None;
    }
    serde_json::Deserializer::from_str(text)
        .into_iter::<Value>()
        .collect::<Result<_, _>>()
        .ok()
}

/// Splits a text at its `---` lines. Each returned document starts with one empty line for each earlier line of the
/// file, so that parse errors contain the line number in the file.
fn yaml_documents(text: &str) -> Vec<String> {
    let mut chunks = Vec::new();
    let mut chunk = String::new();
    let mut blank_lines = String::new();
    // True inside a document. Comments before the first `---` line are outside of all documents.
    let mut in_document = false;
    for line in text.lines() {
        let marker = line
            .strip_prefix("---")
            .filter(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r']));
        if let Some(rest) = marker {
            if in_document {
                chunks.push(std::mem::replace(&mut chunk, blank_lines.clone()));
            } else {
                chunk.clone_from(&blank_lines);
            }
            in_document = true;
            // Blanks replace the marker, so that parse errors contain the column in the file.
            chunk.push_str("   ");
            chunk.push_str(rest);
        } else if line.trim_end() == "..." {
        } else {
            let content = line.trim();
            in_document |= !content.is_empty() && !content.starts_with(['#', '%']);
            chunk.push_str(line);
        }
        chunk.push('\n');
        blank_lines.push('\n');
    }
    if in_document {
        chunks.push(chunk);
    }
    chunks
}

fn yaml(text: &str) -> Result<Value, String> {
    // The default limits of the library protect servers. Here, users read their own files, which may be larger.
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: 100_000_000,
            max_nodes: 50_000_000,
        },
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let error = error.to_string();
        // This advice addresses programmers that use the library.
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
            .map(|document| (document.location.document, document.value))
            .collect();
        (documents, problems)
    }

    #[test]
    fn documents_are_counted_as_in_yaml() {
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
    fn an_invalid_document_does_not_hide_the_others() {
        let (documents, problems) = read_text("a: 1\n---\na: [1\n---\na: 3\n---\na: 1\na: 2\n");
        assert_eq!(documents.len(), 2);
        let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert!(problems[0].starts_with("f, document 2: cannot be parsed: "));
        assert!(problems[1].starts_with("f, document 4: cannot be parsed: "));
        assert!(problems[1].contains("line 8"), "{}", problems[1]);
        assert_eq!(problems.len(), 2);
    }
}
