//! Tests of `hack/local-up.sh --with-karmada`, which replaces Karmada's scheduler by Berth, and of `--restore`, which
//! restores Karmada's scheduler.

use std::fs;

use berth_test_transcripts::assert_snapshot;

use crate::machine::{Machine, executed, planned, transcript};

/// The Deployment of Karmada's scheduler, which the fake kubectl prints.
const DEPLOYMENT: &str = "\
metadata:
  name: karmada-scheduler
  resourceVersion: \"7\"
  uid: 1234
  ownerReferences:
  - name: karmada
    uid: 5678
spec:
    image: docker.io/karmada/karmada-scheduler:latest
";

fn machine_with_karmada() -> Machine {
    let machine = Machine::complete();
    fs::write(machine.path("fake-tools/scheduler"), DEPLOYMENT).unwrap();
    fs::write(
        machine.path("fake-tools/clusters"),
        "karmada-host\nmember1\n",
    )
    .unwrap();
    fs::create_dir(machine.path("home/.kube")).unwrap();
    machine
}

fn scheduler(machine: &Machine) -> String {
    fs::read_to_string(machine.path("fake-tools/scheduler")).unwrap()
}

#[test]
fn the_scheduler_is_replaced_and_restored() {
    let machine = machine_with_karmada();
    let saved = machine.path("home/.kube/berth-local-up.karmada-scheduler.yaml");
    let plan = planned(&machine.succeed(&["--with-karmada", "--dry-run"]));
    machine.succeed(&["--with-karmada"]);
    let calls: Vec<String> = executed(&machine)
        .into_iter()
        // A dry run does not print the checks of the script.
        .filter(|call| call != "docker info" && !call.contains("containers[0].image"))
        .collect();
    assert_eq!(calls, plan);
    assert_eq!(plan.len(), 5, "{plan:#?}");
    assert!(scheduler(&machine).contains("image: berth:latest"));
    assert_eq!(fs::read_to_string(&saved).unwrap(), DEPLOYMENT);
    assert!(
        !calls
            .iter()
            .any(|call| call.starts_with("kind create") || call.starts_with("kind delete"))
    );

    // A second run keeps the saved Deployment of Karmada, and restarts the pods, which use an older image.
    machine.succeed(&["--with-karmada"]);
    let restarts = executed(&machine)
        .iter()
        .filter(|call| call.contains("rollout restart"))
        .count();
    assert_eq!(restarts, 3);
    assert_eq!(fs::read_to_string(&saved).unwrap(), DEPLOYMENT);

    machine.clear_calls();
    machine.succeed(&["--restore"]);
    assert_eq!(
        scheduler(&machine),
        DEPLOYMENT.replace("  resourceVersion: \"7\"\n  uid: 1234\n", "")
    );
    assert!(!saved.exists());
    let printed = machine.succeed(&["--restore"]);
    assert!(printed.contains("Nothing to restore"), "{printed}");
}

#[test]
fn down_restores_the_scheduler_and_keeps_the_clusters() {
    let machine = machine_with_karmada();
    machine.succeed(&["--with-karmada"]);
    machine.succeed(&["--down"]);
    assert!(scheduler(&machine).contains("docker.io/karmada/karmada-scheduler"));
    let clusters = fs::read_to_string(machine.path("fake-tools/clusters")).unwrap();
    assert_eq!(clusters, "karmada-host\nmember1\n");
}

#[test]
fn a_missing_karmada_is_reported_before_the_image_is_built() {
    let machine = Machine::complete();
    let mut refusal = transcript();
    machine.record(&mut refusal, &["--with-karmada"], &[]);
    assert_snapshot!(refusal);
    assert_eq!(executed(&machine).len(), 2, "{:?}", executed(&machine));
}

#[test]
fn a_scheduler_deployment_that_already_runs_berth_is_not_saved() {
    let machine = machine_with_karmada();
    fs::write(
        machine.path("fake-tools/scheduler"),
        "    image: berth:latest\n",
    )
    .unwrap();
    let mut refusal = transcript();
    machine.record(&mut refusal, &["--with-karmada"], &[]);
    assert_snapshot!(refusal);
    assert!(
        !machine
            .path("home/.kube/berth-local-up.karmada-scheduler.yaml")
            .exists()
    );
}
