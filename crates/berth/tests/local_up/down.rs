//! Tests of `hack/local-up.sh --down` and hack/local-down.sh, which delete the local clusters.

use std::fs;

use berth_test_transcripts::assert_snapshot;

use crate::machine::{Machine, executed, planned, stderr, stdout, transcript};

#[test]
fn down_deletes_only_the_clusters_of_the_script() {
    let machine = Machine::complete();
    fs::write(machine.path("fake-tools/clusters"), "foreign-cluster\n").unwrap();
    machine.succeed(&[]);
    machine.clear_calls();

    let plan = planned(&machine.succeed(&["--down", "--dry-run"]));
    assert_eq!(machine.calls(), Vec::<Vec<String>>::new());
    machine.succeed(&["--down"]);
    // The entries of the control plane contain the key of its administrator.
    let mut down = transcript();
    machine.record_calls(&mut down);
    down.about("calls that a dry run lists");
    down.lines(&plan.join("\n"));
    assert_snapshot!(down);
    assert_eq!(
        fs::read_to_string(machine.path("fake-tools/clusters")).unwrap(),
        "foreign-cluster\n"
    );

    machine.clear_calls();
    let printed = machine.succeed(&["--down"]);
    assert!(printed.contains("Nothing to remove"), "{printed}");
    assert_eq!(executed(&machine), ["docker info"]);
}

#[test]
fn local_down_deletes_the_clusters_too() {
    let machine = Machine::complete();
    machine.succeed(&[]);
    machine.clear_calls();
    let run = |arguments: &[&str]| {
        let output = machine
            .script("hack/local-down.sh", arguments)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        stdout(&output)
    };
    assert!(run(&["--help"]).contains("Usage: hack/local-down.sh"));
    let plan = planned(&run(&["--dry-run"]));
    assert_eq!(machine.calls(), Vec::<Vec<String>>::new());
    assert!(
        plan.iter()
            .any(|call| call.starts_with("kind delete cluster --name=member1 ")),
        "{plan:#?}"
    );
    run(&[]);
    assert_eq!(
        fs::read_to_string(machine.path("fake-tools/clusters"))
            .unwrap()
            .trim(),
        ""
    );
}
