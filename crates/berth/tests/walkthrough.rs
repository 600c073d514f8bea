//! Runs the README's walkthrough: its own lines, in two terminals, on a home folder and a port of its own.
//!
//! The line `cargo run --release -- …` runs the program of this build; with
//! `BERTH_WALKTHROUGH=as-written` it runs cargo itself, which needs the release build to be there.

#![expect(clippy::unwrap_used, reason = "this is how a test fails")]

use berth_test_requirements::needs;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Longer than it takes until a member counts as lost, on a machine that does other things as well.
const PATIENCE: Duration = Duration::from_mins(3);

/// A user's surroundings: a home folder, and a PATH.
struct User {
    home: tempfile::TempDir,
    path: String,
}

/// A program in a terminal; it is ended with the test.
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
                "#!/usr/bin/env bash\n[ \"$1 $2 $3\" = 'run --release --' ] || exit 97\nshift 3\nexec '{}' \"$@\"\n",
                env!("CARGO_BIN_EXE_berth")
            );
            fs::write(shim.join("cargo"), script).unwrap();
            fs::set_permissions(shim.join("cargo"), fs::Permissions::from_mode(0o755)).unwrap();
            path = format!("{}:{path}", shim.display());
        }
        Self { home, path }
    }

    /// A shell in the root of the repository. Cargo keeps its own home, everything else gets ours.
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
        // What cargo tells this test about its own package is not in a user's terminal, and build scripts that
        // look at it would run again.
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

    fn until(&self, what: &str, mut ask: impl FnMut() -> Result<(), String>) {
        let end = Instant::now() + PATIENCE;
        while let Err(reason) = ask() {
            assert!(
                Instant::now() < end,
                "waited in vain for {what}: {reason}\n{}",
                self.log("up.log")
            );
            thread::sleep(Duration::from_millis(100));
        }
    }
}

/// The commands of the README's shell blocks; a backslash at the end continues a line.
fn commands() -> Vec<String> {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let mut commands = Vec::new();
    for block in readme.split("```sh\n").skip(1) {
        let block = block.split("```").next().unwrap();
        commands.extend(block.replace("\\\n", " ").lines().map(str::to_owned));
    }
    commands
}

/// The event line of `kubectl describe` with this reason, if it holds all the words.
fn event(text: &str, reason: &str, words: &[&str]) -> Result<(), String> {
    let found = text
        .lines()
        .any(|line| line.contains(reason) && words.iter().all(|word| line.contains(word)));
    if found { Ok(()) } else { Err(text.to_owned()) }
}

/// Ctrl-C in the terminal of a program.
fn interrupt(running: &Running) {
    let pid = running.0.id().to_string();
    let sent = Command::new("kill").args(["-INT", &pid]).status();
    assert!(sent.unwrap().success());
}

/// Both deployments are in two members each.
fn shows_what_was_placed(deployments: &str, works: &str) -> Result<(), String> {
    let applied = |row: &&str| row.contains(" Deployment ") && row.contains(" True ");
    if deployments.contains("\nnginx ") && works.lines().filter(applied).count() == 4 {
        Ok(())
    } else {
        Err(format!("{deployments}{works}"))
    }
}

fn shows_four_nodes(listed: &str) {
    for number in 1..=4 {
        event(listed, &format!("member1-node-{number}"), &["Ready"]).unwrap();
    }
}

/// The first terminal, with what it tells about the second one.
fn comes_up(user: &User, up: &str) -> Running {
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

fn loses_a_member_and_gets_it_back(user: &User, export: &str, lines: [&String; 7]) {
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
        event(&user.run(export, clusters)?, "member1", &["True"])
    });
    // Its taint goes a moment later; only then is it a candidate again.
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
fn every_line_of_the_walkthrough_shows_what_the_readme_says() {
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
    assert_eq!(up, "cargo run --release -- up");
    assert_eq!(tests, "cargo test --workspace");
    let user = User::new();
    let mut first = comes_up(&user, up);
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
        event(
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
        event(
            &text,
            "ScheduleBindingSucceed",
            &["my-scheduler", "member1:2", "member2:2"],
        )
    });

    shows_four_nodes(&user.run(export, nodes).unwrap());
    user.until("what was placed", || {
        shows_what_was_placed(&user.run(export, deployments)?, &user.run(export, works)?)
    });
    loses_a_member_and_gets_it_back(
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
