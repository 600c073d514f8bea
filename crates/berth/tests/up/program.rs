//! Functions that run `berth up`, other commands of `berth`, and kubectl. Each test has a separate home folder.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use berth_test_transcripts::Transcript;

const TIMEOUT: Duration = Duration::from_mins(1);
/// Minimum pause between two checks of [`until`].
const STEP: Duration = Duration::from_millis(20);
/// Maximum pause between two checks of [`until`].
const LONGEST_STEP: Duration = Duration::from_millis(200);

/// A running `berth up`. Dropping it kills the process.
pub(crate) struct Up {
    pub(crate) child: Child,
    pub(crate) home: Arc<tempfile::TempDir>,
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn berth(home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
    command
        .args(arguments)
        .env("HOME", home)
        .env_remove("KUBECONFIG")
        .stdin(Stdio::null());
    command
}

/// Runs a command, given with blanks between its words, and adds what it printed to a transcript.
pub(crate) fn record(transcript: &mut Transcript, home: &Path, line: &str) {
    let words: Vec<&str> = line.split(' ').collect();
    let output = berth(home, &words).output().unwrap();
    transcript.ran(&["berth", line], &output);
}

/// Runs a command. Asserts that the exit code is 1 and that standard output is empty.
pub(crate) fn refused(home: &Path, arguments: &[&str]) -> Output {
    let output = berth(home, arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "",
        "a failed command prints to stdout"
    );
    output
}

/// Returns the standard error of a command. Asserts that it is one line that starts with `error: `.
pub(crate) fn line(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.starts_with("error: "), "{text}");
    text
}

/// Repeats a check until it succeeds. `what` describes the awaited state in the message of a timeout.
pub(crate) fn until<T>(what: &str, mut check: impl FnMut() -> Result<T, String>) -> T {
    let end = Instant::now() + TIMEOUT;
    loop {
        let began = Instant::now();
        match check() {
            Ok(answer) => return answer,
            Err(reason) => assert!(began < end, "timed out waiting for {what}: {reason}"),
        }
        // Slow checks, such as calls of kubectl, are repeated less often, so that `berth up` gets more of the
        // processor.
        thread::sleep(began.elapsed().clamp(STEP, LONGEST_STEP));
    }
}

impl Up {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let home = Arc::new(tempfile::tempdir().unwrap());
        let mut all = vec!["up", "--port=0"];
        all.extend(arguments);
        let command = berth(home.path(), &all);
        Self::with(home, command)
    }

    /// Starts `berth up` with the given command, and waits until the control plane is ready.
    pub(crate) fn with(home: Arc<tempfile::TempDir>, mut command: Command) -> Self {
        let log = std::fs::File::create(home.path().join("up.log")).unwrap();
        let child = command
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let up = Self { child, home };
        until("`up` to be ready", || {
            let log = up.log();
            if log.contains("Press Ctrl-C") {
                Ok(())
            } else {
                Err(log)
            }
        });
        up
    }

    /// Runs a command, and adds what it printed to a transcript, as [`record`].
    pub(crate) fn record(&self, transcript: &mut Transcript, line: &str) {
        record(transcript, self.home.path(), line);
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.home.path().join("up.log")).unwrap()
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.home.path().join(".berth/kubeconfig")
    }

    /// Runs kubectl, checks that it succeeds, and returns its output. Tests that call this function need the attribute
    /// `#[needs(kubectl)]`.
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> String {
        let output = self.run_kubectl(arguments);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "kubectl {arguments:?}: {text}{errors}"
        );
        text
    }

    /// Runs kubectl with the context of a member, checks that it succeeds, and returns its output.
    pub(crate) fn in_member(&self, member: &str, arguments: &[&str]) -> String {
        let context = format!("--context={member}");
        self.kubectl(&[&[&*context], arguments].concat())
    }

    /// Runs kubectl, checks that it fails, and returns its standard error.
    pub(crate) fn refused(&self, arguments: &[&str]) -> String {
        let output = self.run_kubectl(arguments);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        let code = output.status.code();
        assert_eq!(code, Some(1), "kubectl {arguments:?}: {errors}");
        errors
    }

    pub(crate) fn run_kubectl(&self, arguments: &[&str]) -> Output {
        let cache = self.home.path().join("cache");
        Command::new("kubectl")
            .arg(format!("--cache-dir={}", cache.display()))
            .args(arguments)
            .env("KUBECONFIG", self.kubeconfig())
            .output()
            .unwrap()
    }

    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(
            Command::new("kill")
                .args([name, &pid])
                .status()
                .unwrap()
                .success()
        );
    }
}

/// Returns the TCP addresses at which a process listens, in the hexadecimal format of /proc/net/tcp.
pub(crate) fn listeners(process: u32) -> Vec<String> {
    let links = std::fs::read_dir(format!("/proc/{process}/fd")).unwrap();
    let sockets: Vec<String> = links
        .filter_map(|link| std::fs::read_link(link.ok()?.path()).ok())
        .filter_map(|target| {
            let inode = target.to_str()?.strip_prefix("socket:[")?;
            Some(inode.trim_end_matches(']').to_owned())
        })
        .collect();
    let mut listening = Vec::new();
    for table in ["tcp", "tcp6"] {
        let table = std::fs::read_to_string(format!("/proc/{process}/net/{table}"));
        for row in table.unwrap_or_default().lines().skip(1) {
            let cells: Vec<&str> = row.split_whitespace().collect();
            if cells[3] == "0A" && sockets.iter().any(|inode| inode == cells[9]) {
                listening.push(cells[1].to_owned());
            }
        }
    }
    listening
}

/// A `berth` process, such as `berth scheduler`, that runs beside `berth up` and uses its kubeconfig. Dropping it kills
/// the process.
pub(crate) struct BackgroundProcess(Child);

impl Drop for BackgroundProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl BackgroundProcess {
    pub(crate) fn start(up: &Up, arguments: &[&str]) -> Self {
        let kubeconfig = up.kubeconfig();
        let mut command = berth(up.home.path(), arguments);
        command.arg("--kubeconfig").arg(kubeconfig);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        Self(child.unwrap())
    }
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
