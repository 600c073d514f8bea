//! Tests of the control plane that hack/local-up.sh deploys in the host cluster.

use std::fs;
use std::process::Command;

use berth_test_transcripts::assert_snapshot;
use serde_json::Value;

use crate::machine::{Machine, executed, transcript};

/// Returns a file that a run has written or passed to a fake tool.
fn file(machine: &Machine, name: &str) -> String {
    fs::read_to_string(machine.path(name)).unwrap()
}

/// The snapshot shows what the tests below check in part, and also that
/// - the kubeconfig has contexts for the control plane, which is the first of the merged files, and for the host, and
///   lacks kubeadm's name `kubernetes`,
/// - components reach the control plane by its service,
/// - the controllers run with failover and autoscaling.
#[test]
fn a_run_writes_manifests_and_kubeconfigs() {
    let machine = Machine::complete();
    machine.succeed(&[]);
    let mut written = transcript();
    for (about, name) in [
        ("configuration of kind", "fake-tools/host.yaml"),
        (
            "manifests of the control plane",
            "fake-tools/control-plane.yaml",
        ),
        ("manifest of the controllers", "fake-tools/controllers.yaml"),
        ("kubeconfig of the user", "home/.kube/karmada.config"),
        ("kubeconfigs of the components", "fake-tools/kubeconfigs"),
        ("kubeconfigs for joining the members", "fake-tools/given"),
    ] {
        written.about(about);
        written.lines(&file(&machine, name));
    }
    assert_snapshot!(written);

    let manifests: Vec<Value> =
        serde_saphyr::from_multiple(&file(&machine, "fake-tools/control-plane.yaml")).unwrap();
    let pods = manifests
        .iter()
        .map(|manifest| &manifest["spec"]["template"]["spec"]);
    let containers: Vec<&Value> = pods
        .filter_map(|pod| pod["containers"].as_array())
        .flatten()
        .collect();
    workload_controllers_are_disabled(containers[2]);
    for container in &containers {
        assert_eq!(container["image"], "the-image", "{container}");
    }
    the_port_on_this_machine_is_mapped_to_the_api_server(&machine, &manifests[0], containers[1]);
    no_certificate_and_no_kubeconfig_depends_on_the_address_of_a_node(&machine);
    the_flags_of_the_controllers_are_valid(&machine);
}

fn workload_controllers_are_disabled(manager: &Value) {
    let command: Vec<&str> = manager["command"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert_eq!(command[0], "kube-controller-manager");
    let controllers = command
        .iter()
        .find_map(|flag| flag.strip_prefix("--controllers="));
    let controllers: Vec<&str> = controllers.unwrap().split(',').collect();
    for workload in [
        "*",
        "deployment",
        "replicaset",
        "statefulset",
        "daemonset",
        "job",
        "endpoint",
    ] {
        assert!(!controllers.contains(&workload), "{controllers:?}");
    }
}

fn the_port_on_this_machine_is_mapped_to_the_api_server(
    machine: &Machine,
    service: &Value,
    server: &Value,
) {
    let kind: Value = serde_saphyr::from_str(&file(machine, "fake-tools/host.yaml")).unwrap();
    let mapping = &kind["nodes"][0]["extraPortMappings"][0];
    assert_eq!(
        mapping["listenAddress"], "127.0.0.1",
        "other machines can reach the port of the API server"
    );
    let port = &service["spec"]["ports"][0]["port"];
    assert_eq!(mapping["containerPort"], *port);
    assert_eq!(server["ports"][0]["hostPort"], *port);
    let flag = format!("--secure-port={port}");
    assert!(server["command"].to_string().contains(&flag), "{server}");
}

/// Docker may give a container another address when it restarts.
fn no_certificate_and_no_kubeconfig_depends_on_the_address_of_a_node(machine: &Machine) {
    let calls = executed(machine);
    assert!(
        !calls.iter().any(|call| call.starts_with("docker inspect")),
        "{calls:#?}"
    );
    for member in ["member1", "member2"] {
        let endpoint = format!("--cluster-endpoint=https://{member}-control-plane:6443");
        let joins = calls
            .iter()
            .filter(|call| call.contains(" join ") && call.ends_with(&endpoint));
        assert_eq!(joins.count(), 1, "{calls:#?}");
    }
}

/// The program prints its help only if the flags before --help are valid.
fn the_flags_of_the_controllers_are_valid(machine: &Machine) {
    let deployment: Value =
        serde_saphyr::from_str(&file(machine, "fake-tools/controllers.yaml")).unwrap();
    let command = &deployment["spec"]["template"]["spec"]["containers"][0]["command"];
    let command: Vec<String> = serde_json::from_value(command.clone()).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_berth"))
        .args(&command[1..])
        .arg("--help")
        .output()
        .unwrap();
    assert!(output.status.success(), "{command:?}");
}
