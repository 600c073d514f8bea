//! Running the program.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// What the program answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Answer {
    /// The standard output of an answer that is one.
    #[track_caller]
    pub(crate) fn out(self) -> String {
        assert_eq!(self.code, 0, "{self:?}");
        self.out
    }

    /// The standard output without the note that every answer ends with.
    #[track_caller]
    pub(crate) fn answer(self) -> String {
        let out = self.out();
        out.strip_suffix(NOTE).unwrap().to_owned()
    }

    /// The standard output, as JSON.
    #[track_caller]
    pub(crate) fn json(self) -> Value {
        serde_json::from_str(&self.out()).unwrap()
    }

    /// The standard error of something that went wrong with manifests.
    #[track_caller]
    pub(crate) fn refusal(self) -> String {
        assert_eq!((self.code, self.out.as_str()), (1, ""), "{self:?}");
        self.err
    }
}

/// The root of the repository, where the program runs.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// `berth simulate` with these arguments.
pub(crate) fn simulate(arguments: &[&str]) -> Answer {
    simulate_with_input(arguments, "")
}

/// The same, with something on standard input.
pub(crate) fn simulate_with_input(arguments: &[&str], input: &str) -> Answer {
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
    // It may have ended before it read anything.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    Answer {
        code: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: without_progress(&String::from_utf8(output.stderr).unwrap()),
    }
}

/// The lines that are not about progress, which is reported where the machine is slow.
fn without_progress(text: &str) -> String {
    let lines = text.split_inclusive('\n');
    lines.filter(|line| !line.ends_with(" ...\n")).collect()
}

/// Files that are gone with the test.
pub(crate) struct Files(tempfile::TempDir);

impl Files {
    /// Files with these names and contents.
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        Self(folder)
    }

    /// The path of the folder.
    pub(crate) fn folder(&self) -> String {
        self.0.path().display().to_string()
    }

    /// The path of a file.
    pub(crate) fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }
}

/// A Deployment.
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

/// A PropagationPolicy for the Deployment of the same name, with this placement in flow style.
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

/// The note that every answer ends with.
pub(crate) const NOTE: &str = "note: the scheduler's configuration (profiles, Expressions, other plugins, extenders) is not \
     taken into account\n";

/// Divided by what is free.
pub(crate) const DYNAMIC: &str = "{replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Weighted, \
     weightPreference: {dynamicWeight: AvailableReplicas}}}";

/// A Deployment with its policy, as one stream of documents.
pub(crate) fn app(name: &str, replicas: u32, placement: &str) -> String {
    format!(
        "{}---\n{}",
        deployment(name, replicas),
        policy(name, placement)
    )
}
