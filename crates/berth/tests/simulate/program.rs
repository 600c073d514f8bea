//! Functions that run `berth simulate`, and manifests for the tests.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use berth_test_transcripts::Transcript;
use serde_json::Value;

/// Exit code and output of the program.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl CommandOutput {
    /// Checks that the program succeeded, and returns its standard output.
    #[track_caller]
    pub(crate) fn out(self) -> String {
        assert_eq!(self.code, 0, "{self:?}");
        self.out
    }

    /// Checks that the program succeeded, and returns its standard output, decoded from JSON.
    #[track_caller]
    pub(crate) fn json(self) -> Value {
        serde_json::from_str(&self.out()).unwrap()
    }

    /// Adds the command with these arguments and what it printed to a transcript.
    pub(crate) fn record(&self, transcript: &mut Transcript, arguments: &[&str]) {
        let words = [&["berth", "simulate"], arguments].concat();
        transcript.command(&words, Some(self.code), &self.out, &self.err);
    }
}

/// Returns the root of the repository, in which the program runs.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs `berth simulate` with these arguments.
pub(crate) fn simulate(arguments: &[&str]) -> CommandOutput {
    simulate_with_input(arguments, "")
}

/// Runs `berth simulate` with these arguments and standard input.
pub(crate) fn simulate_with_input(arguments: &[&str], input: &str) -> CommandOutput {
    let mut child = Command::new(env!("CARGO_BIN_EXE_berth"))
        .arg("simulate")
        .args(arguments)
        .current_dir(root())
        .env_remove("KUBECONFIG")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // The write fails if the program ends before it reads its standard input.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    CommandOutput {
        code: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: without_progress(&String::from_utf8(output.stderr).unwrap()),
    }
}

/// A case: its description, the arguments with blanks between them, and the standard input.
pub(crate) type Case<'a> = (&'a str, &'a str, &'a str);

/// Runs `berth simulate` for each case.
pub(crate) fn simulated(cases: &[Case]) -> Transcript {
    let mut transcript = Transcript::new();
    for (description, arguments, input) in cases {
        let arguments: Vec<&str> = arguments.split_whitespace().collect();
        transcript.about(description);
        simulate_with_input(&arguments, input).record(&mut transcript, &arguments);
    }
    transcript
}

/// Removes progress messages, which appear on slow machines.
fn without_progress(text: &str) -> String {
    let lines = text.split_inclusive('\n');
    lines.filter(|line| !line.ends_with(" ...\n")).collect()
}

/// Temporary files in one folder. Dropping the value removes the folder.
pub(crate) struct Files(tempfile::TempDir);

impl Files {
    /// Creates files with these names and contents.
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        Self(folder)
    }

    /// Returns the path of the folder.
    pub(crate) fn folder(&self) -> String {
        self.0.path().display().to_string()
    }

    /// Returns the path of a file.
    pub(crate) fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }
}

/// Returns the manifest of a Deployment.
pub(crate) fn deployment(name: &str, replicas: u32) -> String {
    format!(
        "apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}, namespace: shop, labels: {{app: {name}}}}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      containers:
      - name: main
        image: nginx
        resources: {{requests: {{cpu: 500m}}}}
"
    )
}

/// Returns the manifest of a PropagationPolicy for the Deployment of the same name. `placement` is in YAML flow style.
pub(crate) fn policy(name: &str, placement: &str) -> String {
    format!(
        "apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {{name: {name}, namespace: shop}}
spec:
  resourceSelectors:
  - {{apiVersion: apps/v1, kind: Deployment, name: {name}}}
  placement: {placement}
"
    )
}

/// A placement that divides the replicas in proportion to the free capacity of the clusters.
pub(crate) const DYNAMIC: &str = "{replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Weighted, \
     weightPreference: {dynamicWeight: AvailableReplicas}}}";

/// Returns the manifests of a Deployment and its policy, as a stream of two YAML documents.
pub(crate) fn app(name: &str, replicas: u32, placement: &str) -> String {
    format!(
        "{}---\n{}",
        deployment(name, replicas),
        policy(name, placement)
    )
}
