//! The programs that a recording runs, and the folders that it reads.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;

use super::RecordError;
use crate::program::command;
use crate::{KubeApiserver, Program};

/// Flags that disable the ports of the probes and metrics, because several programs would use the same ports.
pub(super) const NO_PORTS: [&str; 2] =
    ["--health-probe-bind-address=0", "--metrics-bind-address=0"];

/// The folder of Karmada's programs.
#[derive(Args, Clone, Debug)]
pub struct Programs {
    /// Folder of Karmada's programs
    #[arg(long, env = "BERTH_E2E_KARMADA", value_name = "FOLDER")]
    programs: Option<PathBuf>,
}

impl Programs {
    /// Returns the folder of the programs.
    ///
    /// # Errors
    /// If no folder is named.
    pub fn folder(&self) -> Result<&Path, RecordError> {
        self.programs
            .as_deref()
            .ok_or_else(|| RecordError::Missing {
                what: "the folder of Karmada's programs".to_owned(),
                remedy: "pass --programs FOLDER, or set BERTH_E2E_KARMADA",
            })
    }

    /// Returns the path of a program.
    ///
    /// # Errors
    /// If the folder does not contain the program.
    pub fn find(&self, name: &str) -> Result<PathBuf, RecordError> {
        existing(
            self.folder()?.join(name),
            "build or download it into this folder",
        )
    }
}

/// The folder of Karmada's CustomResourceDefinitions.
#[derive(Args, Clone, Debug)]
pub struct Definitions {
    /// Folder of Karmada's CustomResourceDefinitions, which a release contains as crds.tar.gz; subfolders are read too
    #[arg(long, value_name = "FOLDER")]
    definitions: PathBuf,
}

impl Definitions {
    /// Returns the texts of the YAML files in the folder.
    ///
    /// # Errors
    /// If the folder contains no YAML file.
    pub fn texts(&self) -> Result<Vec<String>, RecordError> {
        yaml_texts(
            &self.definitions,
            "pass the folder of Karmada's CustomResourceDefinitions as --definitions",
        )
    }
}

/// Returns the texts of the YAML files in a folder and its subfolders, sorted by path.
pub(super) fn yaml_texts(folder: &Path, remedy: &'static str) -> Result<Vec<String>, RecordError> {
    let (mut folders, mut files) = (vec![folder.to_owned()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|found| found == "yaml") {
                files.push(path);
            }
        }
    }
    files.sort();
    if files.is_empty() {
        return Err(RecordError::Missing {
            what: format!("{}: a file *.yaml", folder.display()),
            remedy,
        });
    }
    files
        .iter()
        .map(|file| super::data_file::read(file))
        .collect()
}

/// Returns the path if it names a file.
pub(super) fn existing(path: PathBuf, remedy: &'static str) -> Result<PathBuf, RecordError> {
    if path.is_file() {
        return Ok(path);
    }
    Err(RecordError::Missing {
        what: path.display().to_string(),
        remedy,
    })
}

/// Returns the folder of kube-apiserver and etcd.
pub(super) fn assets() -> Result<PathBuf, RecordError> {
    const REMEDY: &str = "set KUBEBUILDER_ASSETS to a folder with kube-apiserver and etcd";
    let folder = KubeApiserver::assets().ok_or_else(|| RecordError::Missing {
        what: "kube-apiserver".to_owned(),
        remedy: REMEDY,
    })?;
    for program in ["kube-apiserver", "etcd"] {
        existing(folder.join(program), REMEDY)?;
    }
    Ok(folder)
}

/// Returns the version of kube-apiserver, such as `v1.36.2`.
pub(super) fn apiserver_version(assets: &Path) -> Result<String, RecordError> {
    let text = output(Command::new(assets.join("kube-apiserver")).arg("--version"))?;
    Ok(text.trim().trim_start_matches("Kubernetes ").to_owned())
}

/// Returns the version that a program of Karmada prints with the argument `version`: the Git version in it, or otherwise
/// the first line.
pub(super) fn version(program: &Path) -> Result<String, RecordError> {
    let text = output(Command::new(program).arg("version"))?;
    let version = text
        .split_once("GitVersion:\"")
        .and_then(|(_, rest)| rest.split_once('"'));
    let line = || text.lines().next().unwrap_or_default().trim();
    Ok(version.map_or_else(line, |(version, _)| version).to_owned())
}

/// Runs a command, and returns what it prints to stdout.
pub(super) fn output(command: &mut Command) -> Result<String, RecordError> {
    let failed = |program: &Command, message: String| RecordError::Program {
        program: program.get_program().to_string_lossy().into_owned(),
        message,
    };
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| failed(command, error.to_string()))?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        return Err(failed(
            command,
            format!("{}: {}", output.status, errors.trim()),
        ));
    }
    String::from_utf8(output.stdout).map_err(|error| failed(command, error.to_string()))
}

/// Starts a program with this kubeconfig. Writes its log to `NAME.log` in a folder.
pub(super) fn start(program: &Path, kubeconfig: &Path, folder: &Path, flags: &[String]) -> Program {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let mut started = command(program);
    started
        .args(NO_PORTS)
        .args(flags)
        .arg(format!("--kubeconfig={}", kubeconfig.display()));
    Program::start(&mut started, &folder.join(format!("{name}.log")))
}
