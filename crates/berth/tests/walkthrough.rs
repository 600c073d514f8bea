//! A test of the walkthrough in the README. The test runs the commands of the README with a separate home folder and
//! port, and checks the results that the README describes.
//!
//! By default, a fake `cargo` runs the binary under test with short thresholds for the status of members (2 s instead
//! of 30 s). If the environment variable BERTH_WALKTHROUGH is `as-written`, the test runs the real cargo with the
//! default thresholds. Build the program first, so that the real cargo starts it within the timeout of the test.

#![expect(clippy::unwrap_used, reason = "this is how a test fails")]

use berth_test_requirements::needs;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Timeout of each wait. It is longer than the default failure threshold of a member.
const TIMEOUT: Duration = Duration::from_mins(3);

/// Flags of `berth up` with which a member becomes unready, and ready again, within seconds.
const SHORT_THRESHOLDS: &str = "--cluster-status-update-frequency=500ms \
     --cluster-failure-threshold=2s --cluster-success-threshold=2s";

/// The environment of a user: the home folder and the variable PATH.
struct User {
    home: tempfile::TempDir,
    path: String,
}

/// A running program. Dropping it kills the process.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

impl User {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let mut path = std::env::var("PATH").unwrap();
        if std::env::var("BERTH_WALKTHROUGH").as_deref() != Ok("as-written") {
            let shim = home.path().join("bin");
            fs::create_dir(&shim).unwrap();
            let script = format!(
                "#!/usr/bin/env bash
[ \"$1 $2\" = 'run --' ] || exit 97
shift 2
[ \"$1\" != up ] || set -- \"$@\" {SHORT_THRESHOLDS}
exec '{}' \"$@\"
",
                env!("CARGO_BIN_EXE_berth")
            );
            fs::write(shim.join("cargo"), script).unwrap();
            fs::set_permissions(shim.join("cargo"), fs::Permissions::from_mode(0o755)).unwrap();
            path = format!("{}:{path}", shim.display());
        }
        Self { home, path }
    }

    /// Returns a command that runs a line in a shell, in the root of the repository. The shell has the home folder of
    /// the test, and cargo and rustup keep their real folders.
    fn shell(&self, line: &str) -> Command {
        let home = std::env::var("HOME").unwrap_or_default();
        let or = |name: &str, default: &str| {
            std::env::var(name).unwrap_or_else(|_| format!("{home}/{default}"))
        };
        let mut command = Command::new("bash");
        command
            .args(["-c", &format!("exec 2>&1\nset -e\n{line}")])
            .current_dir(root())
            .env("CARGO_HOME", or("CARGO_HOME", ".cargo"))
            .env("RUSTUP_HOME", or("RUSTUP_HOME", ".rustup"))
            .env("HOME", self.home.path())
            .env("PATH", &self.path)
            .env("BERTH_PORT", "0")
            .env_remove("KUBECONFIG")
            .stdin(Stdio::null());
        // cargo has set these variables for this test. A user's shell does not contain them, and they would make build
        // scripts run again.
        for (name, _) in std::env::vars() {
            let own = [
                "CARGO_MANIFEST_",
                "CARGO_PKG_",
                "CARGO_BIN_EXE_",
                "CARGO_CRATE_",
                "CARGO_PRIMARY_",
            ];
            if own.iter().any(|prefix| name.starts_with(prefix))
                || ["CARGO", "CARGO_TARGET_TMPDIR", "OUT_DIR"].contains(&name.as_str())
            {
                command.env_remove(name);
            }
        }
        command
    }

    fn start(&self, line: &str, log: &str) -> Running {
        let log = fs::File::create(self.home.path().join(log)).unwrap();
        Running(
            self.shell(&format!("exec {line}"))
                .stdout(log)
                .spawn()
                .unwrap(),
        )
    }

    fn log(&self, name: &str) -> String {
        fs::read_to_string(self.home.path().join(name)).unwrap_or_default()
    }

    /// Runs the `export` command of the README and then a line, in one shell. Returns the output. If the line fails,
    /// the error contains the output.
    fn run(&self, export: &str, line: &str) -> Result<String, String> {
        let output = self.shell(&format!("{export}\n{line}")).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() {
            Ok(text)
        } else {
            Err(format!("{line}: {text}"))
        }
    }

    fn until(&self, what: &str, mut check: impl FnMut() -> Result<(), String>) {
        let end = Instant::now() + TIMEOUT;
        while let Err(reason) = check() {
            assert!(
                Instant::now() < end,
                "timed out waiting for {what}: {reason}\n{}",
                self.log("up.log")
            );
            thread::sleep(Duration::from_millis(100));
        }
    }
}

/// Returns the commands in the shell blocks of the README. Joins lines that end with a backslash.
fn commands() -> Vec<String> {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let mut commands = Vec::new();
    for block in readme.split("```sh\n").skip(1) {
        let block = block.split("```").next().unwrap();
        commands.extend(block.replace("\\\n", " ").lines().map(str::to_owned));
    }
    commands
}

/// Checks that one line of a text contains the reason and all words.
fn has_line(text: &str, reason: &str, words: &[&str]) -> Result<(), String> {
    let found = text
        .lines()
        .any(|line| line.contains(reason) && words.iter().all(|word| line.contains(word)));
    if found { Ok(()) } else { Err(text.to_owned()) }
}

/// Sends SIGINT to a program, as Ctrl-C does.
fn interrupt(running: &Running) {
    let pid = running.0.id().to_string();
    let sent = Command::new("kill").args(["-INT", &pid]).status();
    assert!(sent.unwrap().success());
}

/// Checks that the Deployment nginx exists, and that the Works of two Deployments in two members each are applied.
fn check_placements(deployments: &str, works: &str) -> Result<(), String> {
    let applied = |row: &&str| row.contains(" Deployment ") && row.contains(" True ");
    if deployments.contains("\nnginx ") && works.lines().filter(applied).count() == 4 {
        Ok(())
    } else {
        Err(format!("{deployments}{works}"))
    }
}

fn check_four_nodes(listed: &str) {
    for number in 1..=4 {
        has_line(listed, &format!("member1-node-{number}"), &["Ready"]).unwrap();
    }
}

/// Starts `berth up`, waits until it is ready, and checks that it prints the `export` command for a second terminal.
fn start_up(user: &User, up: &str) -> Running {
    let mut first = user.start(up, "up.log");
    user.until("`up` to be ready", || {
        let log = user.log("up.log");
        assert!(first.0.try_wait().unwrap().is_none(), "`up` ended: {log}");
        if log.contains("Press Ctrl-C") {
            Ok(())
        } else {
            Err(log)
        }
    });
    let exact = format!(
        "export KUBECONFIG={}/.berth/kubeconfig",
        user.home.path().display()
    );
    assert!(
        user.log("up.log").contains(&exact),
        "{}",
        user.log("up.log")
    );
    first
}

fn fail_and_heal_a_member(user: &User, export: &str, lines: [&String; 7]) {
    let [leave, fail, names_after, heal, clusters, scale, names_again] = lines;
    let shows = |line: &str, expected: &str| {
        let text = user.run(export, line)?;
        if text == expected { Ok(()) } else { Err(text) }
    };
    user.run(export, leave).unwrap();
    user.run(export, fail).unwrap();
    user.until("the workloads of member1 to move", || {
        shows(names_after, "member2")
    });
    user.run(export, heal).unwrap();
    user.until("member1 to be ready", || {
        has_line(&user.run(export, clusters)?, "member1", &["True"])
    });
    // The scheduler selects the member again after a controller has removed the taint, shortly after the member is
    // ready.
    user.until("member1 to be without taints", || {
        shows(
            "kubectl get cluster member1 -o jsonpath='{.spec.taints[*].key}'",
            "",
        )
    });
    user.run(export, scale).unwrap();
    user.until("member1 to be used again", || {
        shows(names_again, "member1 member2")
    });
}

#[needs(kubectl)]
#[test]
fn the_walkthrough_works_as_described() {
    let commands = commands();
    let [
        up,
        export,
        apply,
        get,
        names,
        describe,
        second,
        apply_second,
        describe_second,
        nodes,
        deployments,
        works,
        leave,
        fail,
        names_after,
        heal,
        clusters,
        scale,
        names_again,
        tests,
    ] = commands.as_slice()
    else {
        panic!("the README contains other commands than this test expects: {commands:#?}");
    };
    assert_eq!(up, "cargo run -- up");
    assert_eq!(tests, "cargo test --workspace");
    let user = User::new();
    let mut first = start_up(&user, up);
    user.run(export, apply).unwrap();
    user.until("the binding to be scheduled", || {
        let table = user.run(export, get)?;
        let row = table
            .lines()
            .find(|row| row.starts_with("nginx-deployment"))
            .ok_or_else(|| table.clone())?;
        if row.split_whitespace().nth(1) == Some("True") {
            Ok(())
        } else {
            Err(table)
        }
    });
    assert_eq!(user.run(export, names).unwrap(), "member1 member2");
    user.until("the event", || {
        let text = user.run(export, describe)?;
        has_line(
            &text,
            "ScheduleBindingSucceed",
            &["default-scheduler", "member1:1", "member2:1"],
        )
    });

    let mut scheduler = user.start(second, "second.log");
    user.run(export, apply_second).unwrap();
    user.until("the second scheduler's event", || {
        assert!(
            scheduler.0.try_wait().unwrap().is_none(),
            "the second scheduler ended: {}",
            user.log("second.log")
        );
        let text = user.run(export, describe_second)?;
        has_line(
            &text,
            "ScheduleBindingSucceed",
            &["my-scheduler", "member1:2", "member2:2"],
        )
    });

    check_four_nodes(&user.run(export, nodes).unwrap());
    user.until("the Works to be applied", || {
        check_placements(&user.run(export, deployments)?, &user.run(export, works)?)
    });
    fail_and_heal_a_member(
        &user,
        export,
        [leave, fail, names_after, heal, clusters, scale, names_again],
    );

    interrupt(&first);
    user.until("`up` to end", || match first.0.try_wait().unwrap() {
        Some(status) if status.success() => Ok(()),
        Some(status) => panic!("`up` ended with {status}: {}", user.log("up.log")),
        None => Err("it still runs".to_owned()),
    });
}
