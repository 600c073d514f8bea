//! Tests of complete runs of hack/local-up.sh with fake tools, and of runs that fail or are interrupted.

use std::fs;

use crate::machine::{DOCKER, Machine, RECORD, executed, planned, stderr};

#[test]
fn a_run_executes_the_commands_of_the_dry_run() {
    let machine = Machine::complete();
    let plan = planned(&machine.succeed(&["--dry-run"]));
    assert!(plan.len() > 30, "{plan:#?}");
    let printed = machine.succeed(&[]);
    let calls = executed(&machine);
    // The first two calls check the tools and the existing clusters. A dry run does not print them.
    assert_eq!(calls[..2], ["docker info", "kind get clusters"]);
    for (call, planned) in calls[2..].iter().zip(&plan) {
        assert_eq!(call, planned);
    }
    assert_eq!(calls.len() - 2, plan.len());
    assert!(printed.contains("Berth is up"), "{printed}");

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
fn members_are_joined_with_the_internal_kubeconfigs_of_kind() {
    let machine = Machine::complete();
    machine.succeed(&[]);
    let given = fs::read_to_string(machine.path("fake-tools/given")).unwrap();
    let kubeconfigs: Vec<&str> = given.lines().collect();
    // The first half of the lines was passed to the command for member1, the second half to the command for member2.
    // Each half starts with the kubeconfig of the control plane, which contains the name of its node.
    for (member, given) in ["member1", "member2"]
        .iter()
        .zip(kubeconfigs.chunks(kubeconfigs.len() / 2))
    {
        let server = "    server: https://karmada-host-control-plane:5443";
        assert_eq!(given.first(), Some(&server), "{kubeconfigs:?}");
        let own = format!("a way into {member}");
        assert_eq!(given.last(), Some(&own.as_str()), "{kubeconfigs:?}");
    }
}

#[test]
fn a_second_run_reuses_the_clusters() {
    let machine = Machine::complete();
    machine.succeed(&[]);
    machine.clear_calls();
    let printed = machine.succeed(&[]);
    let calls = executed(&machine);
    let begins = |start: &str| calls.iter().filter(|call| call.starts_with(start)).count();
    assert_eq!(begins("kind create"), 0, "{calls:#?}");
    assert_eq!(begins("kind export kubeconfig"), 3, "{calls:#?}");
    let restarts = calls
        .iter()
        .filter_map(|call| call.split_once("rollout restart --namespace=karmada-system "));
    let restarted: Vec<&str> = restarts.map(|(_, deployment)| deployment).collect();
    assert_eq!(
        restarted,
        [
            "deployment/karmada-scheduler",
            "deployment/berth-controllers",
            "deployment/my-karmada-scheduler"
        ],
        "the pods do not get the new image"
    );
    assert!(printed.contains("member2 exists"), "{printed}");
}

#[test]
fn clusters_that_the_script_did_not_create_are_listed_and_unchanged() {
    let machine = Machine::complete();
    fs::write(
        machine.path("fake-tools/clusters"),
        "kind\nmember2\nkarmada-host\n",
    )
    .unwrap();
    let output = machine.run(&[]);
    let printed = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{printed}");
    assert!(
        printed.contains("were not made by this script: karmada-host member2\n"),
        "{printed}"
    );
    assert_eq!(executed(&machine), ["docker info", "kind get clusters"]);
    assert!(!machine.path("home/.kube").exists());

    machine.clear_calls();
    let printed = machine.succeed(&["--down"]);
    assert!(printed.contains("Nothing to remove"), "{printed}");
    assert_eq!(executed(&machine), ["docker info"]);
}

#[test]
fn the_error_names_the_failed_step_and_the_next_run_succeeds() {
    let machine = Machine::complete();
    let docker = machine.path("bin/docker");
    fs::write(&docker, format!("{RECORD}[ \"$1\" != build ]\n")).unwrap();
    let output = machine.run(&[]);
    let printed = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{printed}");
    assert_eq!(
        printed
            .matches("it stopped while building the image")
            .count(),
        1,
        "{printed}"
    );
    assert!(
        executed(&machine)
            .iter()
            .all(|call| !call.starts_with("kind create"))
    );

    fs::write(&docker, format!("{RECORD}{DOCKER}")).unwrap();
    machine.succeed(&[]);
}

#[test]
fn after_a_failure_of_the_last_step_the_next_run_reuses_the_clusters() {
    let machine = Machine::complete();
    fs::write(machine.path("fake-tools/members-are-not-ready"), "").unwrap();
    let output = machine.run(&[]);
    let printed = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{printed}");
    assert!(
        printed.contains("it stopped while joining the members"),
        "{printed}"
    );
    assert!(
        printed.contains("logs --namespace=karmada-system deployment/berth-controllers"),
        "{printed}"
    );
    assert!(printed.contains("hack/local-down.sh"), "{printed}");
    assert!(!printed.contains("the-token"), "{printed}");
    let left: Vec<_> = fs::read_dir(machine.path("tmp")).unwrap().collect();
    assert!(left.is_empty(), "files with tokens are left: {left:?}");

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
        let output = machine.run_interruptible(&[]);
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
    let output = machine.run(&[]);
    let printed = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{printed}");
    assert!(!printed.contains("error executing template"), "{printed}");
    assert!(
        printed
            .contains("logs --namespace=karmada-system deployment/karmada-kube-controller-manager"),
        "{printed}"
    );
}
