//! Recording of the objects that Karmada's scheduler and controllers write in the scenario of the interoperability
//! tests.
//!
//! The tests of Karmada's programs run the scenario, and call [`write()`] in the middle of it if the variable
//! `BERTH_E2E_RECORD` is set.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::data_file::{in_repository, read};
use super::normal_form::{number_ids, replace_times};
use super::programs::{self, Programs};
use super::{RecordError, Recorded, Report, data_file};

/// The variable that names the folder of the recordings.
pub const VARIABLE: &str = "BERTH_E2E_RECORD";
/// The recordings: the name of the file, the program in it, and the test.
const RECORDINGS: [(&str, &str, &str); 2] = [
    (
        "karmada-scheduler",
        "karmada-scheduler",
        "berths_controllers_carry_out_decisions_of_karmadas_scheduler",
    ),
    (
        "karmada-controllers",
        "karmada-controller-manager",
        "karmadas_controllers_carry_out_decisions_of_berths_scheduler",
    ),
];

/// Runs the tests with Karmada's programs on the embedded control plane, and records the objects.
///
/// # Errors
/// If a program is missing, or a test fails.
pub fn record(programs: &Programs) -> Result<Vec<Report>, RecordError> {
    let folder = in_repository("e2e/data/karmada_interop");
    // The build of the tests checks for both programs.
    for (_, program, _) in RECORDINGS {
        programs.find(program)?;
    }
    let of_karmada = std::path::absolute(programs.folder()?)
        .map_err(|error| data_file::failed(&folder, &error))?;
    let mut reports = Vec::new();
    for (name, program, test) in RECORDINGS {
        let file = folder.join(format!("{name}.json"));
        let old = entries(&serde_json::from_str(&read(&file)?)?);
        let mut command =
            Command::new(std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")));
        command
            .args(["test", "-p", "berth-e2e", "--test", "karmada_interop", test])
            .current_dir(in_repository(""))
            .env("BERTH_E2E_KARMADA", &of_karmada)
            .env(VARIABLE, &folder)
            .env_remove("KUBEBUILDER_ASSETS");
        programs::output(&mut command)?;
        let mut recording: Value = serde_json::from_str(&read(&file)?)?;
        let version = programs::version(&programs.find(program)?)?;
        recording["recorded"] = json!(Recorded::today([(program, version)]));
        data_file::write(&file, &format!("{recording:#}\n"))?;
        reports.push(Report::new(file, &old, &entries(&recording)));
    }
    Ok(reports)
}

/// Writes the objects of a control plane in normal form into the file `NAME.json` in a folder.
///
/// # Errors
/// If the file cannot be written.
pub fn write(folder: &Path, name: &str, mut objects: Value) -> Result<(), RecordError> {
    normalize(&mut objects);
    let file = folder.join(format!("{name}.json"));
    data_file::write(&file, &format!("{objects:#}\n"))
}

/// Returns the objects of a recording in normal form, keyed by kind and name.
fn entries(recording: &Value) -> BTreeMap<String, Value> {
    let mut recording = recording.clone();
    recording["recorded"] = Value::Null;
    normalize(&mut recording);
    let kinds = recording.as_object().into_iter().flatten();
    let objects = kinds.flat_map(|(kind, objects)| {
        objects.as_array().into_iter().flatten().map(move |object| {
            let metadata = &object["metadata"];
            let name = format!("{kind} {}/{}", metadata["namespace"], metadata["name"]);
            (name, object.clone())
        })
    });
    objects.collect()
}

/// Brings a recording into normal form: with numbered ids, and without the times and versions that the server sets.
fn normalize(recording: &mut Value) {
    number_ids(recording);
    replace_times(recording);
    let kinds = recording.as_object_mut().into_iter().flatten();
    for object in kinds.flat_map(|(_, objects)| objects.as_array_mut().into_iter().flatten()) {
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("resourceVersion");
        }
        if object["spec"]["resource"]["resourceVersion"].is_string() {
            object["spec"]["resource"]["resourceVersion"] = json!("1");
        }
        // The members listen on free ports, with new certificates.
        if object["spec"]["apiEndpoint"].is_string() {
            object["spec"]["apiEndpoint"] = json!("https://127.0.0.1:6443");
        }
    }
}
