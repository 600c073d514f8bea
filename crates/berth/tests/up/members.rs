//! Tests of the members of `berth up`: their nodes, their credentials, and objects that are not propagated to them.

use berth_test_requirements::needs;
use serde_json::Value;

use crate::program::{Up, until};

#[needs(kubectl)]
#[test]
fn each_member_has_its_own_server_with_the_nodes_of_the_fleet() {
    let up = Up::start(&["--members=2"]);
    let one = up.kubectl(&["--context=member1", "get", "nodes", "-o", "json"]);
    let nodes: Value = serde_json::from_str(&one).unwrap();
    let nodes = nodes["items"].as_array().unwrap();
    assert_eq!(nodes.len(), 4);
    assert_eq!(nodes[0]["status"]["allocatable"]["cpu"], "8");
    assert_eq!(
        nodes[0]["metadata"]["labels"]["topology.kubernetes.io/zone"],
        "eu-west-1a"
    );
    let two = up.kubectl(&["--context=member2", "get", "nodes", "-o", "name"]);
    assert_eq!(two.lines().count(), 8, "{two}");

    // An object in one member does not exist in the other member or in the control plane.
    up.kubectl(&["--context=member1", "create", "configmap", "only-here"]);
    for context in ["--context=member2", "--context=berth"] {
        let names = up.kubectl(&[context, "get", "configmaps", "-o", "name"]);
        assert!(!names.contains("only-here"), "{context}: {names}");
    }
    let kinds = up.kubectl(&["--context=member1", "api-resources"]);
    assert!(
        kinds.contains("deployments") && !kinds.contains("resourcebindings"),
        "{kinds}"
    );
}

#[needs(kubectl)]
#[test]
fn the_control_plane_has_credentials_for_its_members() {
    let up = Up::start(&["--members=2"]);
    let clusters = up.kubectl(&["get", "clusters", "-o", "json"]);
    let clusters: Value = serde_json::from_str(&clusters).unwrap();
    let mut endpoints = Vec::new();
    for cluster in clusters["items"].as_array().unwrap() {
        let name = cluster["metadata"]["name"].as_str().unwrap();
        let spec = &cluster["spec"];
        assert_eq!(spec["syncMode"], "Push");
        assert_eq!(spec["secretRef"]["namespace"], "karmada-cluster");
        assert_eq!(spec["secretRef"]["name"], name);
        let context = format!("--context={name}");
        let id = up.kubectl(&[
            &context,
            "get",
            "namespace",
            "kube-system",
            "-o",
            "jsonpath={.metadata.uid}",
        ]);
        assert_eq!(spec["id"], id.as_str());
        endpoints.push(spec["apiEndpoint"].as_str().unwrap().to_owned());
    }
    endpoints.dedup();
    assert_eq!(endpoints.len(), 2, "{endpoints:?}");

    // The token in the Secret of member1 gives access to member1 only.
    let field = |template: &str| {
        up.kubectl(&[
            "get",
            "secret",
            "member1",
            "--namespace=karmada-cluster",
            "-o",
            &format!("go-template={{{{{template} | base64decode}}}}"),
        ])
    };
    let authority = up.home.path().join("member1.crt");
    std::fs::write(&authority, field(".data.caBundle")).unwrap();
    let token = field(".data.token");
    let can_do_everything = |endpoint: &str, check: &str| {
        let output = std::process::Command::new("kubectl")
            .args([
                "--kubeconfig=/dev/null",
                "--server",
                endpoint,
                check,
                "--token",
                &token,
            ])
            .args(["auth", "can-i", "*", "*", "--all-namespaces"])
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    let trusted = format!("--certificate-authority={}", authority.display());
    assert_eq!(can_do_everything(&endpoints[0], &trusted), "yes");
    assert_eq!(can_do_everything(&endpoints[1], &trusted), "");
    assert_eq!(
        can_do_everything(&endpoints[1], "--insecure-skip-tls-verify"),
        ""
    );

    // The Secret of a member is deleted with its Cluster.
    up.kubectl(&["delete", "cluster", "member2"]);
    up.kubectl(&[
        "wait",
        "--for=delete",
        "secret/member2",
        "--namespace=karmada-cluster",
        "--timeout=60s",
    ]);
}

#[needs(kubectl)]
#[test]
fn objects_that_each_cluster_creates_are_not_propagated() {
    let up = Up::start(&["--members=1"]);
    let file = up.home.path().join("all.yaml");
    std::fs::write(
        &file,
        "apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: all}
spec:
  resourceSelectors:
    - {apiVersion: v1, kind: ConfigMap}
    - {apiVersion: v1, kind: Service}
    - {apiVersion: discovery.k8s.io/v1, kind: EndpointSlice}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: mine}
",
    )
    .unwrap();
    let apply = ["apply", "-f", file.to_str().unwrap()];
    up.kubectl(&apply);
    let arrived = [
        "get",
        "configmap",
        "mine",
        "--ignore-not-found",
        "-o",
        "name",
    ];
    until("the user's object in the member", || {
        match up.in_member("member1", &arrived) {
            found if found.is_empty() => Err(found),
            _ => Ok(()),
        }
    });
    let bindings = up.kubectl(&["get", "resourcebindings", "-o", "name"]);
    assert_eq!(
        bindings.trim(),
        "resourcebinding.work.karmada.io/mine-configmap"
    );
    // Each cluster has its own certificate authority.
    let certificate = [
        "get",
        "configmap",
        "kube-root-ca.crt",
        "-o",
        "jsonpath={.data}",
    ];
    let here = up.kubectl(&certificate);
    let there = up.in_member("member1", &certificate);
    assert!(here.contains("BEGIN CERTIFICATE") && here != there);
    let service = [
        "get",
        "service",
        "kubernetes",
        "-o",
        "jsonpath={.spec.clusterIP}",
    ];
    assert_eq!(up.in_member("member1", &service), "10.96.0.1");
}
