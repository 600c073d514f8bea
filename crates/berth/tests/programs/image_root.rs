//! Tests of the root file system of the container image. The tests assemble it from the binary under test, and run its
//! programs on a read-only file system as an unprivileged user.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use berth_test_requirements::needs;

const TIMEOUT: Duration = Duration::from_mins(1);

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The assembled root file system. Dropping it removes the files.
struct ImageRoot {
    folder: tempfile::TempDir,
}

impl ImageRoot {
    fn assemble() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let output = Command::new(repository().join("hack/assemble-image-root.sh"))
            .arg(env!("CARGO_BIN_EXE_berth"))
            .arg(folder.path().join("root"))
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        Self { folder }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(repository().join("hack/run-image-root.sh"));
        command.arg(self.path()).args(words).stdin(Stdio::null());
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }
}

/// A running program. Dropping it kills the process.
struct Running {
    child: Child,
    log: PathBuf,
}

impl Running {
    fn start(mut command: Command, log: PathBuf) -> Self {
        let file = fs::File::create(&log).unwrap();
        let child = command
            .stdout(file.try_clone().unwrap())
            .stderr(file)
            .spawn()
            .unwrap();
        Self { child, log }
    }

    /// Waits until the log of the program satisfies a condition.
    fn wait(&mut self, condition: impl Fn(&str) -> bool) {
        let end = Instant::now() + TIMEOUT;
        loop {
            let log = fs::read_to_string(&self.log).unwrap();
            if condition(&log) {
                return;
            }
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none() && Instant::now() < end, "{ended:?}: {log}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts `berth up` without members, scheduler and controllers, and waits until the control plane is ready. `berth up`
/// writes the kubeconfig.
fn control_plane(home: &Path, kubeconfig: &Path) -> Running {
    let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
    command
        .args([
            "up",
            "--port=0",
            "--members=0",
            "--without=scheduler,controllers",
        ])
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .env("HOME", home)
        .env_remove("KUBECONFIG")
        .stdin(Stdio::null());
    let mut up = Running::start(command, home.join("up.log"));
    up.wait(|log| log.contains("Press Ctrl-C"));
    up
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// Reports whether a GET request for a path on this machine returns code 200.
fn is_up(port: u16, path: &str) -> bool {
    let mut answer = String::new();
    let asked = TcpStream::connect(("127.0.0.1", port)).and_then(|mut stream| {
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        )?;
        stream.read_to_string(&mut answer)
    });
    asked.is_ok() && answer.starts_with("HTTP/1.1 200")
}

#[needs(namespaces)]
#[test]
fn every_program_runs_read_only_as_an_unprivileged_user() {
    let root = ImageRoot::assemble();
    for program in [
        "/bin/karmada-scheduler",
        "/bin/karmada-controller-manager",
        "/bin/karmada-webhook",
        "/bin/karmada-scheduler-estimator",
        "berth",
        "kubectl-berth",
    ] {
        for words in [[program, "--version"], [program, "--help"]] {
            let output = root.run(&words);
            assert!(output.status.success(), "{words:?}: {output:?}");
            assert!(!output.stdout.is_empty(), "{words:?}");
        }
    }
    let output = root.run(&["/bin/karmada-scheduler", "--no-such-flag"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    // `berth up` needs a writable folder, and its error contains the path.
    let output = root.run(&["berth", "up", "--port=0", "--members=0"]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && error.contains(".berth"),
        "{error}"
    );
}

#[needs(namespaces, embedded)]
#[test]
fn the_scheduler_of_karmadas_guide_starts() {
    let root = ImageRoot::assemble();
    let home = tempfile::tempdir().unwrap();
    let kubeconfig = root.path().join("etc/kubeconfig");
    let _up = control_plane(home.path(), &kubeconfig);
    fs::set_permissions(&kubeconfig, fs::Permissions::from_mode(0o644)).unwrap();
    let port = free_port();
    let command = root.command(&[
        "/bin/karmada-scheduler",
        "--kubeconfig=/etc/kubeconfig",
        "--bind-address=0.0.0.0",
        &format!("--secure-port={port}"),
        "--enable-scheduler-estimator=true",
        "--leader-elect-resource-name=my-scheduler",
        "--scheduler-name=my-scheduler",
        "--v=4",
    ]);
    let mut scheduler = Running::start(command, home.path().join("scheduler.log"));
    scheduler.wait(|_| is_up(port, "/readyz"));
    assert_unprivileged(&scheduler.child);
}

#[needs(namespaces, embedded)]
#[test]
fn the_controller_manager_of_karmadactl_init_starts() {
    let root = ImageRoot::assemble();
    let home = tempfile::tempdir().unwrap();
    let kubeconfig = root.path().join("etc/karmada.config");
    let _up = control_plane(home.path(), &kubeconfig);
    fs::set_permissions(&kubeconfig, fs::Permissions::from_mode(0o644)).unwrap();
    let (metrics, health) = (free_port(), free_port());
    let command = root.command(&[
        "/bin/karmada-controller-manager",
        "--kubeconfig=/etc/karmada.config",
        &format!("--metrics-bind-address=127.0.0.1:{metrics}"),
        &format!("--health-probe-bind-address=127.0.0.1:{health}"),
        "--cluster-status-update-frequency=10s",
        "--leader-elect-resource-namespace=karmada-system",
        "--resync-period=1h",
        "--v=2",
    ]);
    let mut manager = Running::start(command, home.path().join("manager.log"));
    manager.wait(|log| {
        let is_leader = log.contains("propagation started");
        is_leader && is_up(health, "/healthz") && is_up(metrics, "/metrics")
    });
    assert_unprivileged(&manager.child);
    let log = fs::read_to_string(&manager.log).unwrap();
    let line = "flags without effect: --resync-period;";
    assert_eq!(log.matches(line).count(), 1, "{log}");
}

#[needs(namespaces)]
#[test]
fn the_webhooks_error_contains_the_path_of_the_missing_certificate() {
    let root = ImageRoot::assemble();
    let output = root.run(&[
        "/bin/karmada-webhook",
        "--cert-dir=/var/serving-cert",
        "--metrics-bind-address=0",
        "--health-probe-bind-address=0",
    ]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{error}");
    assert!(error.contains("/var/serving-cert/tls.crt"), "{error}");
}

/// Asserts that a process runs as the user of the image and without capabilities.
fn assert_unprivileged(process: &Child) {
    let status = fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap();
    for line in [
        "Uid:\t65532\t65532",
        "Gid:\t65532\t65532",
        "CapEff:\t0000000000000000",
    ] {
        assert!(status.contains(line), "{status}");
    }
}
