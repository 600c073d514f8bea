//! What the commands around a `berth up` answer, and to whom.

use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::program::{Up, berth, line, refused};

/// What a command answers when all is well.
fn answer(up: &Up, arguments: &[&str]) -> String {
    let output = berth(up.home.path(), arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn what_changes_nothing_says_so() {
    let up = Up::start(&["--members=1"]);
    for (words, expected) in [
        (["heal", "member1"], "was not cut off"),
        (["fail", "member1"], "cannot be reached any more"),
        (["fail", "member1"], "is cut off already"),
        (["heal", "member1"], "can be reached again"),
    ] {
        let said = answer(&up, &words);
        assert!(said.contains(expected), "{words:?}: {said}");
    }
}

#[test]
fn answers_are_yaml_on_request() {
    let up = Up::start(&["--members=1"]);
    let list = answer(&up, &["get", "clusters", "-o", "yaml"]);
    assert!(
        list.contains("kind: List") && list.contains("name: member1"),
        "{list}"
    );
    // It is a fleet file: the cluster says where its API is, so nothing is simulated.
    let fleet = up.home.path().join("fleet.yaml");
    std::fs::write(&fleet, list).unwrap();
    let second = Up::start(&["--fleet", fleet.to_str().unwrap()]);
    let names = answer(&second, &["get", "clusters", "-o", "name"]);
    assert_eq!(names, "cluster/member1\n");
    let status = answer(&second, &["status", "-o", "yaml"]);
    assert!(
        status.contains("apiServer:") && status.contains("name: member1"),
        "{status}"
    );
}

#[test]
fn whoever_stops_reading_has_read_enough() {
    let home = tempfile::tempdir().unwrap();
    for words in [["completion", "bash"].as_slice(), &["version"], &["--help"]] {
        let mut child = berth(home.path(), words)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let ended = child.wait_with_output().unwrap();
        assert!(
            ended.status.success() && ended.stderr.is_empty(),
            "{words:?}: {ended:?}"
        );
    }
}

#[test]
fn shells_understand_their_completions() {
    let home = tempfile::tempdir().unwrap();
    for (shell, words) in [
        (
            "bash",
            ["simulate", "--cluster-kubeconfig", "--move-budget"],
        ),
        ("zsh", ["simulate", "--cluster-kubeconfig", "--move-budget"]),
        ("fish", ["simulate", "cluster-kubeconfig", "move-budget"]),
    ] {
        let output = berth(home.path(), &["completion", shell]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let script = String::from_utf8(output.stdout).unwrap();
        for word in words {
            assert!(script.contains(word), "{shell}: {word}");
        }
        let checked = Command::new(shell)
            .arg("-n")
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        // Not every machine has every shell.
        let Ok(mut checked) = checked else { continue };
        checked
            .stdin
            .take()
            .unwrap()
            .write_all(script.as_bytes())
            .unwrap();
        let checked = checked.wait_with_output().unwrap();
        assert!(checked.status.success(), "{shell}: {checked:?}");
    }
}

#[test]
fn members_fail_only_where_something_is_up() {
    let home = tempfile::tempdir().unwrap();
    for command in ["fail", "heal"] {
        let line = line(&refused(home.path(), &[command, "member1"]));
        assert!(line.contains("start one with `berth up`"), "{line}");
    }
}
