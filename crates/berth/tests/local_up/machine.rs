//! The environment in which the tests run hack/local-up.sh: a PATH with system tools and with fake versions of docker,
//! kind and kubectl. The fake tools record their calls.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use berth_test_transcripts::Transcript;
use tempfile::TempDir;

/// System tools that the script needs besides docker, kind and kubectl.
pub(crate) const SYSTEM_TOOLS: [&str; 16] = [
    "awk", "bash", "cat", "cp", "cut", "date", "dirname", "env", "grep", "mkdir", "mktemp", "rm",
    "sed", "sleep", "sort", "true",
];

/// First lines of each fake tool. They append the name and the arguments of a call to the file `calls`, separated by
/// the character U+001F.
pub(crate) const RECORD: &str = include_str!("fake_tools/record.sh");

pub(crate) const DOCKER: &str = include_str!("fake_tools/docker.sh");

pub(crate) const KIND: &str = include_str!("fake_tools/kind.sh");

const KUBECTL: &str = include_str!("fake_tools/kubectl.sh");

/// An environment in which the script can run. Dropping it removes its folders.
pub(crate) struct Machine {
    root: TempDir,
}

impl Machine {
    /// Creates an environment without docker, kind and kubectl.
    pub(crate) fn bare() -> Self {
        let root = TempDir::new().expect("a temporary folder");
        for folder in ["bin", "home", "tmp", "fake-tools"] {
            fs::create_dir_all(root.path().join(folder)).expect("a folder");
        }
        for tool in SYSTEM_TOOLS {
            symlink(find(tool), root.path().join("bin").join(tool)).expect("a link");
        }
        Self { root }
    }

    pub(crate) fn with(tools: &[&str]) -> Self {
        let machine = Self::bare();
        for tool in tools {
            let behavior = match *tool {
                "docker" => DOCKER,
                "kind" => KIND,
                _ => KUBECTL,
            };
            let path = machine.path("bin").join(tool);
            fs::write(&path, format!("{RECORD}{behavior}")).expect("a fake tool");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("the file mode");
        }
        machine
    }

    pub(crate) fn complete() -> Self {
        Self::with(&["docker", "kind", "kubectl"])
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        self.script("hack/local-up.sh", arguments)
    }

    /// Returns a command that runs a script of the repository with these arguments.
    pub(crate) fn script(&self, script: &str, arguments: &[&str]) -> Command {
        // A parent such as nohup may ignore these signals, and bash cannot trap a signal that its parent ignores.
        let mut command = Command::new(self.path("bin/env"));
        command
            .arg("--default-signal=HUP,INT,TERM")
            .arg(self.path("bin/bash"))
            .arg(repository().join(script))
            .args(arguments)
            .current_dir(self.path("home"))
            .env_clear()
            .env("PATH", self.path("bin"))
            .env("HOME", self.path("home"))
            .env("TMPDIR", self.path("tmp"))
            .env("FAKE_TOOLS", self.path("fake-tools"));
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("bash runs")
    }

    /// Runs hack/local-up.sh, checks that it succeeds, and returns its output.
    pub(crate) fn succeed(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(
            output.status.success(),
            "{arguments:?}: {}\n{}",
            stdout(&output),
            stderr(&output)
        );
        stdout(&output)
    }

    /// Runs hack/local-up.sh with these arguments and environment variables, and adds what it printed to a transcript.
    /// Returns its exit code.
    pub(crate) fn record(
        &self,
        transcript: &mut Transcript,
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> Option<i32> {
        let mut command = self.command(arguments);
        let output = command.envs(variables.iter().copied()).output();
        let output = output.expect("bash runs");
        let variables = variables
            .iter()
            .map(|(name, value)| format!("{name}={value} "));
        let program = variables.collect::<String>() + "hack/local-up.sh";
        transcript.ran(&[&[&*program], arguments].concat(), &output);
        output.status.code()
    }

    /// Adds the calls of the fake tools to a transcript.
    pub(crate) fn record_calls(&self, transcript: &mut Transcript) {
        transcript.about("calls of docker, kind and kubectl");
        transcript.lines(&executed(self).join("\n"));
    }

    /// Returns the recorded calls of the fake tools. Each call is a list of the name and the arguments.
    pub(crate) fn calls(&self) -> Vec<Vec<String>> {
        let calls = fs::read_to_string(self.path("fake-tools/calls")).unwrap_or_default();
        calls
            .lines()
            .map(|line| line.split('\x1f').map(str::to_owned).collect())
            .collect()
    }

    pub(crate) fn clear_calls(&self) {
        fs::write(self.path("fake-tools/calls"), "").expect("an empty file");
    }

    /// Asserts that the home folder and the temporary folder are empty, and that the script called no fake tool.
    pub(crate) fn assert_untouched(&self) {
        for folder in ["home", "tmp"] {
            let entries: Vec<_> = fs::read_dir(self.path(folder))
                .expect("the folder")
                .collect();
            assert!(entries.is_empty(), "{folder}: {entries:?}");
        }
        assert_eq!(self.calls(), Vec::<Vec<String>>::new());
    }
}

/// Returns a transcript in which the folder of the repository has the same name on every machine.
pub(crate) fn transcript() -> Transcript {
    Transcript::new().replacing(repository().display().to_string(), "[repository]")
}

pub(crate) fn find(tool: &str) -> PathBuf {
    let path = std::env::var_os("PATH").expect("a PATH");
    std::env::split_paths(&path)
        .map(|folder| folder.join(tool))
        .find(|file| file.is_file())
        .expect(tool)
}

pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .expect("the repository")
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns the calls of docker, kind and kubectl that the output of a dry run lists.
pub(crate) fn planned(plan: &str) -> Vec<String> {
    plan.lines()
        .filter_map(|line| line.strip_prefix("+ "))
        .map(|line| {
            line.split_once("=$(").map_or(line, |(_, command)| {
                command.strip_suffix(')').unwrap_or(command)
            })
        })
        .map(|line| line.split_once(" > ").map_or(line, |(command, _)| command))
        .map(|line| {
            line.strip_prefix("env ")
                .and_then(|rest| {
                    rest.find("docker build")
                        .or_else(|| rest.find("kubectl config"))
                        .map(|at| &rest[at..])
                })
                .unwrap_or(line)
        })
        .filter(|line| {
            ["docker ", "kind ", "kubectl "]
                .iter()
                .any(|tool| line.starts_with(tool))
        })
        .map(|line| line.replace('\'', ""))
        .collect()
}

/// Returns the recorded calls, in the format of [`planned`].
pub(crate) fn executed(machine: &Machine) -> Vec<String> {
    let tmp = format!("{}/", machine.path("tmp").display());
    let called = |call: Vec<String>| {
        let line = call.join(" ").replace("the-version", "$version");
        // The random name of the temporary folder is replaced by WORKDIR.
        let mut parts = line.split(&tmp);
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |line, part| {
            let end = part.find(['/', ':']).unwrap_or(part.len());
            line + "WORKDIR" + &part[end..]
        })
    };
    machine.calls().into_iter().map(called).collect()
}
