//! The command `berth interpret`. It checks the scripts of ResourceInterpreterCustomizations, or runs one of their
//! scripts on files, and needs no cluster. Its flags and output are those of `karmadactl interpret`.

use std::fmt::Write as _;
use std::io;

use berth_api::ResourceInterpreterCustomization;
use berth_api::binding::AggregatedStatusItem;
use berth_interpreter::{InterpretError, Interpreter, Operation, check_syntax};
use berth_plan::simulate::{Document, Input, read};
use clap::Args;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::output;

/// Flags of `berth interpret`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct InterpretArgs {
    /// File or folder with ResourceInterpreterCustomizations, `-` for stdin; may be repeated
    #[arg(short = 'f', long, required = true, value_name = "PATH")]
    filename: Vec<Input>,

    /// Only compile the scripts
    #[arg(long, conflicts_with = "operation")]
    check: bool,

    /// Operation to run: Retain, InterpretReplica, InterpretComponent, ReviseReplica, InterpretStatus, AggregateStatus,
    /// InterpretHealth or InterpretDependency; upper and lower case are equal
    #[arg(long, value_parser = operation, required_unless_present = "check", value_name = "NAME")]
    operation: Option<Operation>,

    /// File with the object of the control plane
    #[arg(long, value_name = "PATH")]
    desired_file: Option<Input>,

    /// File with the object of a member
    #[arg(long, value_name = "PATH")]
    observed_file: Option<Input>,

    /// File with the status items of the members, one per document, for AggregateStatus
    #[arg(long, value_name = "PATH")]
    status_file: Option<Input>,

    /// Replicas to set, for ReviseReplica
    #[arg(long, default_value_t = 0, value_name = "NUMBER")]
    desired_replica: i32,
}

const EXAMPLES: &str = "\
Examples:
  berth interpret -f customization.yaml --check
  berth interpret -f customization.yaml --operation InterpretReplica --desired-file object.yaml
  berth interpret -f customization.yaml --operation Retain --desired-file desired.yaml --observed-file observed.yaml
  berth interpret -f customization.yaml --operation AggregateStatus --desired-file object.yaml --status-file status.yaml";

/// An error of `berth interpret`.
#[derive(Debug, thiserror::Error)]
pub enum InterpretCommandError {
    /// A file cannot be read.
    #[error("{0}")]
    Input(String),
    /// A document cannot be decoded as the expected type.
    #[error("{location}: not a valid {what}: {source}")]
    Shape {
        /// The position of the document.
        location: String,
        /// The name of the expected type.
        what: &'static str,
        /// The decoding error.
        source: serde_json::Error,
    },
    /// An operation needs a file that the flags do not name.
    #[error("{0} needs {1}")]
    MissingInput(Operation, &'static str),
    /// No customization has a script for the operation.
    #[error("no customization in the files has a script with {} for {kind} of {api_version}", .operation.function())]
    NoScript {
        /// The operation.
        operation: Operation,
        /// The API version of the object.
        api_version: String,
        /// The kind of the object.
        kind: String,
    },
    /// The script fails.
    #[error(transparent)]
    Interpret(#[from] InterpretError),
    /// A customization has no target, or a script does not compile. The output contains the error.
    #[error("a customization is not valid")]
    Invalid,
    /// The result cannot be written.
    #[error("cannot write the result: {0}")]
    Output(#[from] io::Error),
}

fn operation(name: &str) -> Result<Operation, String> {
    Operation::find(name).ok_or_else(|| {
        let names: Vec<&str> = Operation::ALL.iter().map(|known| known.name()).collect();
        format!("use one of {}", names.join(", "))
    })
}

/// Checks all scripts, or runs one script.
///
/// # Errors
/// Fails if a file cannot be read, or if a script is invalid or fails.
pub fn run(args: InterpretArgs) -> Result<(), InterpretCommandError> {
    let customizations: Vec<ResourceInterpreterCustomization> = decode_all(
        documents(&args.filename)?,
        "ResourceInterpreterCustomization",
    )?;
    match args.operation {
        Some(operation) => execute(&args, operation, customizations),
        None => check(&customizations),
    }
}

fn check(customizations: &[ResourceInterpreterCustomization]) -> Result<(), InterpretCommandError> {
    let mut text = String::new();
    let mut is_valid = true;
    for customization in customizations {
        let name = customization.metadata.name.as_deref().unwrap_or_default();
        let target = &customization.spec.target;
        let _ = writeln!(text, "-----------------------------------\nSOURCE: {name}");
        if target.kind.is_empty() || target.api_version.is_empty() {
            is_valid = false;
            text.push_str("spec.target needs apiVersion and kind\n");
            continue;
        }
        let _ = writeln!(
            text,
            "TARGET: {} {}\nRULES:",
            target.api_version, target.kind
        );
        for operation in Operation::ALL {
            let script = operation.script(&customization.spec.customizations);
            let result = match script.map(check_syntax) {
                None => "UNSET".to_owned(),
                Some(Ok(())) => "PASS".to_owned(),
                Some(Err(error)) => {
                    is_valid = false;
                    format!("ERROR: {error}")
                }
            };
            let _ = writeln!(text, "    {:21}{result}", format!("{operation}:"));
        }
    }
    output::print(&text)?;
    if is_valid {
        Ok(())
    } else {
        Err(InterpretCommandError::Invalid)
    }
}

fn execute(
    args: &InterpretArgs,
    operation: Operation,
    customizations: Vec<ResourceInterpreterCustomization>,
) -> Result<(), InterpretCommandError> {
    let interpreter = Interpreter::with(customizations);
    let file = |input: &Option<Input>| input.as_ref().map(single).transpose();
    let (desired, observed) = (file(&args.desired_file)?, file(&args.observed_file)?);
    let needs = |what| InterpretCommandError::MissingInput(operation, what);
    let object = desired.as_ref().or(observed.as_ref());
    let object = object.ok_or_else(|| needs("--desired-file or --observed-file"))?;
    let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    if !interpreter.is_customized(&api_version, &kind, operation) {
        return Err(InterpretCommandError::NoScript {
            operation,
            api_version,
            kind,
        });
    }
    let results = match operation {
        Operation::Retain => {
            let observed = observed.as_ref().ok_or_else(|| needs("--observed-file"))?;
            let desired = desired.as_ref().ok_or_else(|| needs("--desired-file"))?;
            let mut retained = desired.clone();
            interpreter.retain(&mut retained, observed)?;
            vec![("retained", retained)]
        }
        Operation::InterpretReplica => {
            let read = interpreter.replicas(&api_version, &kind, object)?;
            let read = read.unwrap_or_default();
            vec![
                ("replica", json!(read.replicas)),
                ("requires", json!(read.requirements)),
            ]
        }
        Operation::InterpretComponent => {
            let components = interpreter.components(&api_version, &kind, object)?;
            vec![("components", json!(components))]
        }
        Operation::ReviseReplica => {
            let mut revised = object.clone();
            interpreter.revise_replicas(&mut revised, args.desired_replica)?;
            vec![("revised", revised)]
        }
        Operation::InterpretStatus => vec![("status", json!(interpreter.reflect(object)?))],
        Operation::AggregateStatus => {
            let input = args
                .status_file
                .as_ref()
                .ok_or_else(|| needs("--status-file"))?;
            let items: Vec<AggregatedStatusItem> =
                decode_all(documents(std::slice::from_ref(input))?, "status item")?;
            let mut aggregated = object.clone();
            let now = Time(jiff::Timestamp::now());
            if let Some(status) = interpreter.aggregate(object, &items, &now)? {
                aggregated["status"] = status;
            }
            vec![("aggregatedStatus", aggregated)]
        }
        Operation::InterpretHealth => vec![("healthy", json!(interpreter.is_healthy(object)?))],
        Operation::InterpretDependency => {
            vec![("dependencies", json!(interpreter.dependencies(object)?))]
        }
    };
    let mut text = String::new();
    let count = results.len();
    for (index, (name, result)) in results.iter().enumerate() {
        let _ = writeln!(text, "---\n# [{}/{count}] {name}:", index + 1);
        text.push_str(yaml(result)?.trim_end());
        text.push('\n');
    }
    Ok(output::print(&text)?)
}

fn yaml(value: &impl Serialize) -> io::Result<String> {
    serde_saphyr::to_string(value).map_err(io::Error::other)
}

fn documents(inputs: &[Input]) -> Result<Vec<Document>, InterpretCommandError> {
    let (documents, problems) = read(inputs);
    match problems.first() {
        Some(problem) => Err(InterpretCommandError::Input(problem.to_string())),
        None => Ok(documents),
    }
}

/// Reads a file that contains exactly one object.
fn single(input: &Input) -> Result<Value, InterpretCommandError> {
    let mut documents = documents(std::slice::from_ref(input))?;
    match (documents.pop(), documents.len()) {
        (Some(document), 0) => Ok(document.value),
        (_, others) => Err(InterpretCommandError::Input(format!(
            "expected one object, found {}",
            if others == 0 { 0 } else { others + 1 }
        ))),
    }
}

fn decode_all<T: DeserializeOwned>(
    documents: Vec<Document>,
    what: &'static str,
) -> Result<Vec<T>, InterpretCommandError> {
    let decode = |document: Document| {
        serde_json::from_value(document.value).map_err(|source| InterpretCommandError::Shape {
            location: document.location.to_string(),
            what,
            source,
        })
    };
    documents.into_iter().map(decode).collect()
}
