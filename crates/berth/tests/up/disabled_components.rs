//! Tests of `berth up --without`, which does not start a component. The tests start the component as a separate
//! program.

use crate::program::{BackgroundProcess, Up, berth, root, until};
use berth_test_requirements::needs;

const CLUSTERS: [&str; 4] = [
    "get",
    "resourcebindings",
    "-o",
    "jsonpath={.items[*].spec.clusters[*].name}",
];

fn apply_nginx(up: &Up) {
    let nginx = root().join("examples/nginx.yaml");
    up.kubectl(&["apply", "-f", nginx.to_str().unwrap()]);
}

#[needs(kubectl)]
#[test]
fn without_the_scheduler_no_binding_is_placed_until_a_scheduler_starts() {
    let up = Up::start(&["--without=scheduler"]);
    let log = up.log();
    assert!(
        log.contains("Not started: the scheduler")
            && log.contains("karmada-scheduler --kubeconfig="),
        "{log}"
    );
    apply_nginx(&up);
    until("the binding", || {
        let names = up.kubectl(&["get", "resourcebindings", "-o", "name"]);
        names.contains("nginx").then_some(()).ok_or(names)
    });
    assert_eq!(up.kubectl(&CLUSTERS), "");
    let _scheduler = BackgroundProcess::start(
        &up,
        &[
            "scheduler",
            "--health-probe-bind-address=0",
            "--metrics-bind-address=0",
        ],
    );
    until("the placement", || {
        let clusters = up.kubectl(&CLUSTERS);
        (clusters == "member1 member2")
            .then_some(())
            .ok_or(clusters)
    });
}

#[needs(kubectl)]
#[test]
fn without_the_controllers_no_binding_is_created_until_controllers_start() {
    let up = Up::start(&["--without=controllers", "--members=2"]);
    assert!(
        up.log().contains("Not started: the controllers"),
        "{}",
        up.log()
    );
    let components = berth(up.home.path(), &["status"]).output().unwrap();
    let components = String::from_utf8_lossy(&components.stdout).into_owned();
    assert!(
        components.contains("scheduler") && !components.contains("detector"),
        "{components}"
    );
    apply_nginx(&up);
    assert_eq!(up.kubectl(&CLUSTERS), "");
    let _controllers = BackgroundProcess::start(
        &up,
        &[
            "controllers",
            "--health-probe-bind-address=0",
            "--metrics-bind-address=0",
        ],
    );
    until("the placement", || {
        let clusters = up.kubectl(&CLUSTERS);
        (clusters == "member1 member2")
            .then_some(())
            .ok_or(clusters)
    });
    until("the copies", || {
        let names = up.kubectl(&["--context=member1", "get", "deployments", "-o", "name"]);
        names.contains("nginx").then_some(()).ok_or(names)
    });
}

#[test]
fn the_error_about_an_unknown_component_lists_the_components() {
    let home = tempfile::tempdir().unwrap();
    let output = berth(home.path(), &["up", "--without=proxy"]).output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        message.contains("scheduler") && message.contains("controllers"),
        "{message}"
    );
}
