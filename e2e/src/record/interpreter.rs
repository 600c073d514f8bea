//! Recording of the results of Karmada's customizations for kinds of other projects, with `karmadactl interpret`.
//!
//! A data file keeps its objects, its lists of status items, and each case whose recorded result is the same. A case
//! with another result is written again, with the result as JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::data_file::{failed, in_repository, read, write};
use super::normal_form::each_text;
use super::programs::{self, Programs};
use super::{RecordError, Recorded, Report};

/// The start of the line with the version and the date, which continues with JSON.
const RECORDED: &str = "recorded: ";
/// The line before the cases.
const CASES: &str = "\ncases:\n";
/// The text in place of the time of the call.
const NOW: &str = "NOW";

/// The folder of Karmada's customizations.
#[derive(Args, Clone, Debug)]
pub struct Customizations {
    /// Folder of Karmada's ResourceInterpreterCustomizations for kinds of other projects; subfolders are read too
    #[arg(long, value_name = "FOLDER")]
    customizations: PathBuf,
}

/// The contents of a data file.
#[derive(Debug, Deserialize)]
struct Data {
    objects: BTreeMap<String, Value>,
    #[serde(default)]
    items: BTreeMap<String, Vec<Value>>,
}

/// Runs `karmadactl interpret` for each case, and records the results.
///
/// # Errors
/// If karmadactl or a customization is missing.
pub fn record(
    programs: &Programs,
    customizations: &Customizations,
) -> Result<Vec<Report>, RecordError> {
    let karmadactl = programs.find("karmadactl")?;
    let customizations = by_target(&customizations.customizations)?;
    let recorded = Recorded::today([("karmadactl", programs::version(&karmadactl)?)]);
    let folder = in_repository("crates/interpreter/tests/data/third_party");
    let entries = fs::read_dir(&folder).map_err(|error| failed(&folder, &error))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.sort();
    files
        .into_iter()
        .map(|file| record_file(&karmadactl, &customizations, &recorded, file))
        .collect()
}

/// Returns the customizations in a folder, keyed by API version and kind.
fn by_target(folder: &Path) -> Result<BTreeMap<(String, String), String>, RecordError> {
    let texts = programs::yaml_texts(
        folder,
        "pass the folder of Karmada's customizations as --customizations",
    )?;
    let mut found = BTreeMap::new();
    for text in texts {
        let Ok(documents) = serde_saphyr::from_multiple::<Value>(&text) else {
            continue;
        };
        for document in documents {
            let target = &document["spec"]["target"];
            let field = |name: &str| target[name].as_str().unwrap_or_default().to_owned();
            if document["kind"] == "ResourceInterpreterCustomization" {
                found.insert((field("apiVersion"), field("kind")), document.to_string());
            }
        }
    }
    Ok(found)
}

fn record_file(
    karmadactl: &Path,
    customizations: &BTreeMap<(String, String), String>,
    recorded: &Recorded,
    file: PathBuf,
) -> Result<Report, RecordError> {
    let text = read(&file)?;
    let broken = |message: &str| failed(&file, &message);
    let (mut inputs, cases) = text
        .split_once(CASES)
        .ok_or_else(|| broken("no list of cases"))?;
    if inputs.starts_with(RECORDED) {
        inputs = inputs.split_once('\n').map_or("", |(_, rest)| rest);
    }
    let data: Data = serde_saphyr::from_str(inputs).map_err(|error| failed(&file, &error))?;
    let scratch = tempfile::tempdir().map_err(|error| failed(&file, &error))?;
    let run = Run {
        karmadactl,
        data: &data,
        customizations,
        folder: scratch.path(),
    };
    let (mut old, mut new) = (BTreeMap::new(), BTreeMap::new());
    let mut written = format!("{RECORDED}{}\n{inputs}{CASES}", json!(recorded));
    for block in blocks(cases) {
        let list: Vec<Value> =
            serde_saphyr::from_str(block).map_err(|error| failed(&file, &error))?;
        let case = list.into_iter().next().unwrap_or_default();
        let result = run.case(&case)?;
        let name = name(&case);
        let before = result_of(&case);
        if before == result {
            written += block;
        } else {
            let _ = writeln!(written, "- {}", with_result(case, &result));
        }
        old.insert(name.clone(), before);
        new.insert(name, result);
    }
    write(&file, &written)?;
    Ok(Report::new(file, &old, &new))
}

/// Splits a list in YAML into its items.
fn blocks(list: &str) -> Vec<&str> {
    let starts = list.match_indices("\n- ").map(|(at, _)| at + 1);
    let mut bounds: Vec<usize> = std::iter::once(0).chain(starts).collect();
    bounds.push(list.len());
    bounds
        .windows(2)
        .map(|bounds| &list[bounds[0]..bounds[1]])
        .collect()
}

/// Returns the inputs of a case as text.
fn name(case: &Value) -> String {
    let fields = ["operation", "object", "observed", "items", "replicas"];
    let fields = fields.into_iter().filter_map(|field| case.get(field));
    let fields = fields.map(|value| {
        let text = value.as_str().map(str::to_owned);
        text.unwrap_or_else(|| value.to_string())
    });
    fields.collect::<Vec<_>>().join(" ")
}

/// Returns the recorded result of a case: its answer, or `{"error": true}`.
fn result_of(case: &Value) -> Value {
    if case["error"] == true {
        json!({ "error": true })
    } else {
        json!({ "answer": case["answer"] })
    }
}

fn with_result(mut case: Value, result: &Value) -> Value {
    for field in ["error", "answer"] {
        if let Some(fields) = case.as_object_mut() {
            fields.remove(field);
        }
        if !result[field].is_null() {
            case[field] = result[field].clone();
        }
    }
    case
}

/// The program and the inputs for the cases of a file.
struct Run<'a> {
    karmadactl: &'a Path,
    data: &'a Data,
    customizations: &'a BTreeMap<(String, String), String>,
    folder: &'a Path,
}

impl Run<'_> {
    /// Returns the result of a case.
    fn case(&self, case: &Value) -> Result<Value, RecordError> {
        let text = |field: &str| case[field].as_str().unwrap_or_default();
        let object = self.object(text("object"))?;
        let field = |name: &str| object[name].as_str().unwrap_or_default().to_owned();
        let target = (field("apiVersion"), field("kind"));
        let customization =
            self.customizations
                .get(&target)
                .ok_or_else(|| RecordError::Missing {
                    what: format!("a customization of {} {}", target.0, target.1),
                    remedy: "pass a folder of a Karmada release that contains it",
                })?;
        let operation = text("operation");
        let mut command = Command::new(self.karmadactl);
        command
            .args([
                "interpret",
                "-f",
                &self.write("customization", customization)?,
            ])
            .args(["--operation", operation])
            .args([
                "--desired-file",
                &self.write("desired", &object.to_string())?,
            ]);
        if operation == "Retain" {
            let observed = self.object(text("observed"))?.to_string();
            command.args(["--observed-file", &self.write("observed", &observed)?]);
        }
        let items = self.data.items.get(text("items"));
        let items: Vec<String> = items
            .into_iter()
            .flatten()
            .map(ToString::to_string)
            .collect();
        // Without status items, Karmada's scripts get nil instead of a list.
        if !items.is_empty() {
            command.args([
                "--status-file",
                &self.write("status", &items.join("\n---\n"))?,
            ]);
        }
        if operation == "ReviseReplica" {
            command.arg(format!("--desired-replica={}", case["replicas"]));
        }
        let began = jiff::Timestamp::now();
        let output = command.stdin(Stdio::null()).output();
        let output = output.map_err(|error| failed(self.karmadactl, &error))?;
        if !output.status.success() || output.stdout.is_empty() {
            return Ok(json!({ "error": true }));
        }
        let printed = String::from_utf8_lossy(&output.stdout);
        let mut results: Vec<Value> = serde_saphyr::from_multiple(&printed)
            .map_err(|error| failed(self.karmadactl, &error))?;
        for result in &mut results {
            replace_now(result, began);
        }
        Ok(json!({ "answer": answer(operation, &results) }))
    }

    fn object(&self, name: &str) -> Result<&Value, RecordError> {
        self.data
            .objects
            .get(name)
            .ok_or_else(|| RecordError::Missing {
                what: format!("the object {name}"),
                remedy: "add it to the objects of the file",
            })
    }

    /// Writes an input, and returns the path of its file.
    fn write(&self, name: &str, text: &str) -> Result<String, RecordError> {
        let file = self.folder.join(format!("{name}.yaml"));
        write(&file, text)?;
        Ok(file.display().to_string())
    }
}

/// Returns the answer that a case records for the printed results of an operation.
fn answer(operation: &str, results: &[Value]) -> Value {
    let first = results.first().cloned().unwrap_or_default();
    match operation {
        "InterpretReplica" => {
            let mut answer = json!({ "replicas": first });
            let requirements = results
                .get(1)
                .filter(|requirements| !requirements.is_null());
            if let Some(requirements) = requirements {
                answer["requirements"] = requirements.clone();
            }
            answer
        }
        "ReviseReplica" => first["spec"].clone(),
        "AggregateStatus" => first["status"].clone(),
        "Retain" => ["spec", "status"]
            .into_iter()
            .filter_map(|field| Some((field.to_owned(), first.get(field)?.clone())))
            .collect::<Map<_, _>>()
            .into(),
        _ => first,
    }
}

/// Replaces times between `began` and the present by `NOW`.
fn replace_now(value: &mut Value, began: jiff::Timestamp) {
    // Written times are in whole seconds.
    let began = began.as_second();
    let now = jiff::Timestamp::now().as_second();
    each_text(value, &mut |text| {
        let time = text
            .parse::<jiff::Timestamp>()
            .map(jiff::Timestamp::as_second);
        if time.is_ok_and(|time| (began..=now).contains(&time)) {
            NOW.clone_into(text);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_split_into_its_items() {
        let list = "- operation: A\n  answer:\n  - b\n- {operation: C}\n";
        let found = blocks(list);
        assert_eq!(
            found,
            ["- operation: A\n  answer:\n  - b\n", "- {operation: C}\n"]
        );
    }

    #[test]
    fn a_case_with_another_result_is_written_with_it() {
        let case = json!({ "operation": "A", "object": "full", "error": true });
        let result = json!({ "answer": { "b": 1 } });
        assert_eq!(
            with_result(case, &result),
            json!({ "operation": "A", "object": "full", "answer": { "b": 1 } })
        );
    }
}
