//! Recording of the decisions of Karmada's scheduling algorithm in the scenarios of the conformance corpus.
//!
//! No program of Karmada decides about one binding, so that the recording needs a program around Karmada's library. The
//! program prints its version of Karmada if its first argument is `version`. Without arguments, it reads one scenario
//! a line from stdin, and writes one decision a line to stdout, in the same order. `e2e/data/README.md` describes both
//! formats.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;
use serde_json::{Value, json};

use super::data_file::{in_repository, read, write};
use super::{RecordError, Recorded, Report, programs};
use crate::conformance::Expected;

/// The program around Karmada's scheduling algorithm.
#[derive(Args, Clone, Debug)]
pub struct Program {
    /// Program that reads scenarios from stdin and writes Karmada's decisions to stdout; e2e/data/README.md describes
    /// the formats
    #[arg(long, value_name = "FILE")]
    program: PathBuf,
}

/// Runs the program on the scenarios of the corpus, and records its decisions.
///
/// # Errors
/// If the program is missing or fails, or its decisions are not one for each scenario, in order.
pub fn record(program: &Program) -> Result<Report, RecordError> {
    let program = programs::existing(
        program.program.clone(),
        "pass a program around Karmada's scheduling algorithm as --program",
    )?;
    let recorded = Recorded::today([("karmada", programs::version(&program)?)]);
    let scenarios = read(&in_repository("e2e/data/conformance/scenarios.jsonl.gz"))?;
    let decided = decisions(&run(&program, &scenarios)?)?;
    let failed = |message| RecordError::Program {
        program: program.display().to_string(),
        message,
    };
    let mut ids = decided.iter().map(|(id, _)| id.as_str());
    for scenario in lines(&scenarios)? {
        let (wanted, id) = (scenario["id"].as_str().unwrap_or_default(), ids.next());
        if id != Some(wanted) {
            return Err(failed(format!(
                "the decision about {wanted} is missing; found {id:?}"
            )));
        }
    }
    if let Some(id) = ids.next() {
        return Err(failed(format!("{id} is not a scenario")));
    }

    let file = in_repository("e2e/data/conformance/expected.jsonl.gz");
    let old: BTreeMap<String, Value> = decisions(&read(&file)?)?.into_iter().collect();
    let mut text = format!("{}\n", json!({ "recorded": recorded }));
    for (_, decision) in &decided {
        text.push_str(&decision.to_string());
        text.push('\n');
    }
    write(&file, &text)?;
    Ok(Report::new(file, &old, &decided.into_iter().collect()))
}

/// Parses the lines of a text, except for a line about the recording.
fn lines(text: &str) -> Result<Vec<Value>, RecordError> {
    let mut documents = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let document: Value = serde_json::from_str(line)?;
        if document.get("recorded").is_none() {
            documents.push(document);
        }
    }
    Ok(documents)
}

/// Parses decisions, and returns them with their ids.
fn decisions(text: &str) -> Result<Vec<(String, Value)>, RecordError> {
    lines(text)?
        .into_iter()
        .map(|decision| {
            let expected: Expected = serde_json::from_value(decision.clone())?;
            Ok((expected.id, decision))
        })
        .collect()
}

/// Runs a program with this text as stdin, and returns its stdout.
fn run(program: &Path, input: &str) -> Result<String, RecordError> {
    let failed = |error: &dyn ToString| RecordError::Program {
        program: program.display().to_string(),
        message: error.to_string(),
    };
    let mut child = Command::new(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| failed(&error))?;
    let stdin = child.stdin.take();
    let output = std::thread::scope(|scope| {
        // The program may write decisions before it has read all scenarios. It may also exit early; then its status
        // tells more than the failed write.
        scope.spawn(move || stdin.map(|mut stdin| stdin.write_all(input.as_bytes())));
        child.wait_with_output()
    });
    let output = output.map_err(|error| failed(&error))?;
    if !output.status.success() {
        return Err(failed(&output.status));
    }
    String::from_utf8(output.stdout).map_err(|error| failed(&error))
}
