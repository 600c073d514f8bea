//! Tests of the control plane that hack/local-up.sh deploys in the host cluster.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::machine::{Machine, executed};

fn manifests(machine: &Machine) -> Vec<Value> {
    let text = fs::read_to_string(machine.path("fake-tools/control-plane.yaml")).unwrap();
    serde_saphyr::from_multiple(&text).unwrap()
}

fn commands(manifests: &[Value]) -> Vec<Vec<String>> {
    let pods = manifests
        .iter()
        .map(|manifest| &manifest["spec"]["template"]["spec"]);
    let containers = pods
        .filter_map(|pod| pod["containers"].as_array())
        .flatten();
    containers
        .map(|container| serde_json::from_value(container["command"].clone()).unwrap())
        .collect()
}

#[test]
fn workload_controllers_are_disabled_in_the_control_plane() {
    let machine = Machine::complete();
    machine.succeed(&[]);
    let commands = commands(&manifests(&machine));
    let programs: Vec<&str> = commands.iter().map(|command| command[0].as_str()).collect();
    assert_eq!(
        programs,
        ["etcd", "kube-apiserver", "kube-controller-manager"]
    );
    let controllers = commands[2]
        .iter()
        .find_map(|flag| flag.strip_prefix("--controllers="));
    let controllers: Vec<&str> = controllers.unwrap().split(',').collect();
    for needed in ["namespace", "garbagecollector", "serviceaccount-token"] {
        assert!(controllers.contains(&needed), "{controllers:?}");
    }
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

#[test]
fn the_port_on_this_machine_is_mapped_to_the_api_server() {
    let machine = Machine::complete();
    machine.succeed(&[]);
    let kind: Value =
        serde_saphyr::from_str(&fs::read_to_string(machine.path("fake-tools/host.yaml")).unwrap())
            .unwrap();
    let mapping = &kind["nodes"][0]["extraPortMappings"][0];
    assert_eq!(
        mapping["listenAddress"], "127.0.0.1",
        "other machines can reach the port of the API server"
    );
    let manifests = manifests(&machine);
    let port = &manifests[0]["spec"]["ports"][0]["port"];
    assert_eq!(mapping["containerPort"], *port);
    let server = &manifests[1]["spec"]["template"]["spec"]["containers"][1];
    assert_eq!(server["ports"][0]["hostPort"], *port);
    let flag = format!("--secure-port={port}");
    assert!(server["command"].to_string().contains(&flag), "{server}");
}

#[test]
fn control_plane_containers_use_the_images_of_the_host_cluster() {
    let machine = Machine::complete();
    machine.succeed(&[]);
    for manifest in manifests(&machine) {
        let containers = manifest["spec"]["template"]["spec"]["containers"]
            .as_array()
            .cloned();
        for container in containers.unwrap_or_default() {
            assert_eq!(container["image"], "the-image", "{container}");
        }
    }
}

#[test]
fn the_kubeconfig_has_contexts_for_the_control_plane_and_the_host() {
    let machine = Machine::complete();
    machine.succeed(&[]);
    let merged = fs::read_to_string(machine.path("home/.kube/karmada.config")).unwrap();
    assert!(
        merged.contains("server: https://127.0.0.1:5443"),
        "{merged}"
    );
    assert!(
        merged.starts_with("    server:"),
        "the kubeconfig of the control plane is not the first of the merged files: {merged}"
    );
    assert!(
        merged.contains("current-context: karmada-apiserver"),
        "{merged}"
    );
    assert!(
        !merged.contains("kubernetes"),
        "the kubeconfig contains kubeadm's name `kubernetes`: {merged}"
    );
    assert!(
        merged.contains("contexts of kind"),
        "the kubeconfig lacks the contexts of the host: {merged}"
    );
}

#[test]
fn components_reach_the_control_plane_by_its_service() {
    let machine = Machine::complete();
    machine.succeed(&[]);
    let text = fs::read_to_string(machine.path("fake-tools/kubeconfigs")).unwrap();
    let servers: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("server:"))
        .collect();
    assert_eq!(servers.len(), 2, "{text}");
    for server in servers {
        assert_eq!(
            server.trim(),
            "server: https://karmada-apiserver.karmada-system.svc:5443"
        );
    }
    assert_eq!(text.matches("token: the-token").count(), 2, "{text}");
}

/// Docker may give a container another address when it restarts.
#[test]
fn no_certificate_and_no_kubeconfig_depends_on_the_address_of_a_node() {
    let machine = Machine::complete();
    machine.succeed(&[]);
    let calls = executed(&machine);
    let certificates = calls
        .iter()
        .find(|call| call.contains("kubeadm init phase certs all"));
    let certificates = certificates.unwrap();
    for part in [
        "--apiserver-advertise-address=10.96.0.1",
        ",karmada-host-control-plane,",
    ] {
        assert!(certificates.contains(part), "{certificates}");
    }
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

#[test]
fn the_controllers_run_with_failover_and_autoscaling() {
    let machine = Machine::complete();
    machine.succeed(&[]);
    let text = fs::read_to_string(machine.path("fake-tools/controllers.yaml")).unwrap();
    let deployment: Value = serde_saphyr::from_str(&text).unwrap();
    let command = &deployment["spec"]["template"]["spec"]["containers"][0]["command"];
    let command: Vec<String> = serde_json::from_value(command.clone()).unwrap();
    for flag in [
        "--controllers=*,hpaScaleTargetMarker,deploymentReplicasSyncer",
        "--enable-no-execute-taint-eviction=true",
        "--feature-gates=Failover=true",
    ] {
        assert!(command.iter().any(|word| word == flag), "{command:?}");
    }
    // The program prints its help only if the flags before --help are valid.
    let output = Command::new(env!("CARGO_BIN_EXE_berth"))
        .args(&command[1..])
        .arg("--help")
        .output()
        .unwrap();
    assert!(output.status.success(), "{command:?}");
}
