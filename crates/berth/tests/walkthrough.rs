//! Test of the README's walkthrough: runs its commands in two terminals, with a separate home folder and port.
//!
//! The line `cargo run -- …` runs the program of this build, and a member counts as lost or ready after 2 s instead of
//! 30 s. With `BERTH_WALKTHROUGH=as-written`, it runs cargo itself, which requires a finished build, with the default
//! durations.

#![expect(clippy::unwrap_used, reason = "this is how a test fails")]

use berth_test_requirements::needs;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Timeout that covers the failure threshold of a member on a busy machine.
const TIMEOUT: Duration = Duration::from_mins(3);

/// Flags of `berth up` for a member that is lost, and ready again, within seconds.
const SHORT_THRESHOLDS: &str = "--cluster-status-update-frequency=500ms \
     --cluster-failure-threshold=2s --cluster-success-threshold=2s";

/// A user's environment: home folder and PATH.
struct User {
    home: tempfile::TempDir,
    path: String,
}

/// A running program, killed at the end of the test.
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

    /// Returns a shell in the root of the repository. Only cargo keeps its real home folder.
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
        // Variables that cargo sets for this test are not in a user's terminal, and would make build scripts run again.
        for (name, _) in std::env::vars() {
            let own = [
                "CARGO_MANIFEST_",
                "CARGO_PKG_",
                "CARGO_BIN_EXE_",
                "CARGO_CRATE_",
                "CARGO_PRIMARY_",
            ];
            if own.iter().any(|prefix| name.starts_with(prefix))
                || name == "CARGO"
                || name == "CARGO_TARGET_TMPDIR"
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

    /// Runs a line after the `export` of the README, and returns what it prints.
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

/// Returns the commands of the README's shell blocks. A backslash at the end continues a line.
fn commands() -> Vec<String> {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let mut commands = Vec::new();
    for block in readme.split("```sh\n").skip(1) {
        let block = block.split("```").next().unwrap();
        commands.extend(block.replace("\\\n", " ").lines().map(str::to_owned));
    }
    commands
}

/// Checks that the text has a line with this reason and all words.
fn has_line(text: &str, reason: &str, words: &[&str]) -> Result<(), String> {
    let found = text
        .lines()
        .any(|line| line.contains(reason) && words.iter().all(|word| line.contains(word)));
    if found { Ok(()) } else { Err(text.to_owned()) }
}

/// Sends the signal of Ctrl-C to a program.
fn interrupt(running: &Running) {
    let pid = running.0.id().to_string();
    let sent = Command::new("kill").args(["-INT", &pid]).status();
    assert!(sent.unwrap().success());
}

/// Checks that both deployments are in two members each.
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

/// Starts `up` in the first terminal, and checks its instructions for the second one.
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
    user.until("what ran on member1 to move", || {
        shows(names_after, "member2")
    });
    user.run(export, heal).unwrap();
    user.until("member1 to be ready", || {
        has_line(&user.run(export, clusters)?, "member1", &["True"])
    });
    // The member is a candidate again only after its taint is removed, which takes a moment.
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
        panic!("the README has other commands than this test knows: {commands:#?}");
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
            "it ended: {}",
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
    user.until("what was placed", || {
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
