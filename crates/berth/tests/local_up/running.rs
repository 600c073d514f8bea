//! A run: what it does, what it leaves, and the next one.

use std::fs;

use crate::machine::{DOCKER, Machine, NOTE, executed, planned, stderr};

#[test]
fn a_run_does_what_the_dry_run_says() {
    let machine = Machine::complete();
    let plan = planned(&machine.succeed(&["--dry-run"]));
    assert!(plan.len() > 30, "{plan:#?}");
    let told = machine.succeed(&[]);
    let calls = executed(&machine);
    // The questions whether there is anything to do with.
    assert_eq!(calls[..2], ["docker info", "kind get clusters"]);
    for (call, planned) in calls[2..].iter().zip(&plan) {
        assert_eq!(call, planned);
    }
    assert_eq!(calls.len() - 2, plan.len());
    assert!(told.contains("Berth is up"), "{told}");

    let secrets: Vec<&String> = calls
        .iter()
        .filter(|call| call.contains("the-token"))
        .collect();
    assert!(
        secrets.is_empty(),
        "a token on a command line can be read by everybody: {secrets:?}"
    );
    assert!(!told.contains("the-token"), "{told}");
    let left: Vec<_> = fs::read_dir(machine.path("tmp")).unwrap().collect();
    assert!(left.is_empty(), "tokens were in there: {left:?}");
}

#[test]
fn members_are_joined_with_the_kubeconfigs_of_kinds_own_network() {
    let machine = Machine::complete();
    machine.succeed(&[]);
    let given = fs::read_to_string(machine.path("stand-ins/given")).unwrap();
    let ways: Vec<&str> = given.lines().collect();
    let host = "a way into karmada-host";
    let [one, two, three] = ["member1", "member2", "member3"].map(|m| format!("a way into {m}"));
    assert_eq!(ways, [host, &one, host, &two, host, &three]);
}

#[test]
fn a_second_run_uses_what_the_first_one_made() {
    let machine = Machine::complete();
    machine.succeed(&[]);
    machine.forget_calls();
    let told = machine.succeed(&[]);
    let calls = executed(&machine);
    let begins = |start: &str| calls.iter().filter(|call| call.starts_with(start)).count();
    assert_eq!(begins("kind create"), 0, "{calls:#?}");
    assert_eq!(begins("kind export kubeconfig"), 4, "{calls:#?}");
    let restarts = calls
        .iter()
        .filter(|call| call.contains("rollout restart"))
        .count();
    assert_eq!(
        restarts, 1,
        "the pods must come to the new image: {calls:#?}"
    );
    assert!(told.contains("member2 exists"), "{told}");
}

#[test]
fn clusters_of_others_are_named_and_left_alone() {
    let machine = Machine::complete();
    fs::write(
        machine.path("stand-ins/clusters"),
        "kind\nmember2\nkarmada-host\n",
    )
    .unwrap();
    let output = machine.run(&[]);
    let told = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(
        told.contains("were not made by this script: karmada-host member2\n"),
        "{told}"
    );
    assert_eq!(executed(&machine), ["docker info", "kind get clusters"]);
    assert!(!machine.path("home/.kube").exists());

    machine.forget_calls();
    let told = machine.succeed(&["--down"]);
    assert!(told.contains("Nothing to remove"), "{told}");
    assert_eq!(executed(&machine), ["docker info"]);
}

#[test]
fn a_failing_step_is_named_and_the_next_run_goes_on() {
    let machine = Machine::complete();
    let docker = machine.path("bin/docker");
    fs::write(&docker, format!("{NOTE}[ \"$1\" != build ]\n")).unwrap();
    let output = machine.run(&[]);
    let told = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert_eq!(
        told.matches("it stopped while building the image").count(),
        1,
        "{told}"
    );
    assert!(
        executed(&machine)
            .iter()
            .all(|call| !call.starts_with("kind create"))
    );

    fs::write(&docker, format!("{NOTE}{DOCKER}")).unwrap();
    machine.succeed(&[]);
}
