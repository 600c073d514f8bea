//! Tests of complete runs of hack/local-up.sh with fake tools, and of runs that fail or are interrupted.

use std::fs;

use berth_test_transcripts::assert_snapshot;

use crate::machine::{DOCKER, Machine, RECORD, executed, planned, stderr, transcript};

#[test]
fn a_run_executes_the_commands_of_the_dry_run() {
    let machine = Machine::complete();
    let plan = planned(&machine.succeed(&["--dry-run"]));
    assert!(plan.len() > 30, "{plan:#?}");
    let mut run = transcript();
    machine.record(&mut run, &[], &[]);
    let printed = run.text();
    machine.record_calls(&mut run);
    assert_snapshot!(run);
    let calls = executed(&machine);
    // The first two calls check the tools and the existing clusters. A dry run does not print them.
    assert_eq!(calls[..2], ["docker info", "kind get clusters"]);
    for (call, planned) in calls[2..].iter().zip(&plan) {
        assert_eq!(call, planned);
    }
    assert_eq!(calls.len() - 2, plan.len());

    let secrets: Vec<&String> = calls
        .iter()
        .filter(|call| call.contains("the-token"))
        .collect();
    assert!(
        secrets.is_empty(),
        "a command line contains a token, and all users can read it: {secrets:?}"
    );
    assert!(!printed.contains("the-token"), "{printed}");
    let left: Vec<_> = fs::read_dir(machine.path("tmp")).unwrap().collect();
    assert!(left.is_empty(), "files with tokens are left: {left:?}");
}

#[test]
fn a_second_run_reuses_the_clusters() {
    let machine = Machine::complete();
    machine.succeed(&[]);
    machine.clear_calls();
    let mut second = transcript();
    machine.record(&mut second, &[], &[]);
    machine.record_calls(&mut second);
    assert_snapshot!(second);
    let calls = executed(&machine);
    assert!(
        !calls.iter().any(|call| call.starts_with("kind create")),
        "{calls:#?}"
    );
}

#[test]
fn clusters_that_the_script_did_not_create_are_listed_and_unchanged() {
    let machine = Machine::complete();
    fs::write(
        machine.path("fake-tools/clusters"),
        "kind\nmember2\nkarmada-host\n",
    )
    .unwrap();
    let mut refusal = transcript();
    machine.record(&mut refusal, &[], &[]);
    assert_eq!(executed(&machine), ["docker info", "kind get clusters"]);
    assert!(!machine.path("home/.kube").exists());

    machine.clear_calls();
    machine.record(&mut refusal, &["--down"], &[]);
    assert_eq!(executed(&machine), ["docker info"]);
    assert_snapshot!(refusal);
}

#[test]
fn the_error_names_the_failed_step_and_the_next_run_succeeds() {
    let machine = Machine::complete();
    let docker = machine.path("bin/docker");
    fs::write(&docker, format!("{RECORD}[ \"$1\" != build ]\n")).unwrap();
    let mut failure = transcript();
    machine.record(&mut failure, &[], &[]);
    machine.record_calls(&mut failure);
    assert_snapshot!(failure);

    fs::write(&docker, format!("{RECORD}{DOCKER}")).unwrap();
    machine.succeed(&[]);
}

#[test]
fn after_a_failure_of_the_last_step_the_next_run_reuses_the_clusters() {
    let machine = Machine::complete();
    fs::write(machine.path("fake-tools/members-are-not-ready"), "").unwrap();
    let mut failure = transcript();
    machine.record(&mut failure, &[], &[]);
    let printed = failure.text();
    assert!(!printed.contains("the-token"), "{printed}");
    let left: Vec<_> = fs::read_dir(machine.path("tmp")).unwrap().collect();
    assert!(left.is_empty(), "files with tokens are left: {left:?}");
    assert_snapshot!(failure);

    fs::remove_file(machine.path("fake-tools/members-are-not-ready")).unwrap();
    machine.clear_calls();
    machine.succeed(&[]);
    let calls = executed(&machine);
    assert!(
        !calls.iter().any(|call| call.starts_with("kind create")),
        "{calls:#?}"
    );
}

#[test]
fn a_cluster_whose_creation_is_interrupted_is_deleted() {
    for signal in ["HUP", "INT", "TERM"] {
        let machine = Machine::complete();
        fs::write(machine.path("fake-tools/interrupt"), signal).unwrap();
        let output = machine.run(&[]);
        let printed = stderr(&output);
        assert_eq!(output.status.code(), Some(130), "{signal}: {printed}");
        assert!(
            printed.contains("interrupted while creating the clusters"),
            "{signal}: {printed}"
        );
        let calls = executed(&machine);
        assert_eq!(
            calls.last().map(String::as_str),
            Some("kind delete cluster --name=karmada-host"),
            "{signal}: {calls:#?}"
        );
        let left: Vec<_> = fs::read_dir(machine.path("tmp")).unwrap().collect();
        assert!(left.is_empty(), "{signal}: {left:?}");
        machine.succeed(&[]);
    }
}

#[test]
fn a_cluster_whose_creation_was_killed_is_created_again() {
    let machine = Machine::complete();
    let half_made = machine.path("home/.kube/berth-local-up.creating");
    let kill = || {
        fs::write(machine.path("fake-tools/interrupt"), "KILL").unwrap();
        assert_eq!(machine.run(&[]).status.code(), None);
        assert_eq!(fs::read_to_string(&half_made).unwrap(), "karmada-host\n");
        machine.clear_calls();
    };
    kill();
    let printed = machine.succeed(&[]);
    assert!(printed.contains("karmada-host is incomplete"), "{printed}");
    let calls = executed(&machine);
    let position = |start: &str| calls.iter().position(|call| call.starts_with(start));
    let deleted = position("kind delete cluster --name=karmada-host");
    assert!(deleted.is_some(), "{calls:#?}");
    assert!(
        deleted < position("kind create cluster --name=karmada-host"),
        "{calls:#?}"
    );
    assert!(!half_made.exists());

    // Deleting the clusters also removes the mark.
    machine.succeed(&["--down"]);
    kill();
    machine.succeed(&["--down"]);
    assert!(!half_made.exists());
}

#[test]
fn a_secret_without_a_token_is_reported_with_the_controller_that_fills_it_in() {
    let machine = Machine::complete();
    fs::write(machine.path("fake-tools/no-token"), "").unwrap();
    let sleep = machine.path("bin/sleep");
    fs::remove_file(&sleep).unwrap();
    std::os::unix::fs::symlink(machine.path("bin/true"), &sleep).unwrap();
    let mut failure = transcript();
    machine.record(&mut failure, &[], &[]);
    assert_snapshot!(failure);
}
