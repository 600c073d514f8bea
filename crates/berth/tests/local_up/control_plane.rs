//! Tests of the control plane that hack/local-up.sh deploys in the host cluster.

use std::fs;

use serde_json::Value;

use crate::machine::Machine;

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
