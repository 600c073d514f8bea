//! Tests of the Cluster objects of members: status, taints of failed members, deletion, and synced namespaces.

use berth_test_requirements::needs;
use serde_json::{Value, json};

use crate::program::{Up, berth, line, until};

/// Flags with short intervals and thresholds for the cluster status.
const SHORT_INTERVALS: [&str; 3] = [
    "--cluster-status-update-frequency=200ms",
    "--cluster-failure-threshold=500ms",
    "--cluster-success-threshold=500ms",
];

fn start(more: &[&str]) -> Up {
    let mut arguments = SHORT_INTERVALS.to_vec();
    arguments.extend(more);
    Up::start(&arguments)
}

fn cluster(up: &Up, name: &str) -> Value {
    let text = up.kubectl(&["get", "cluster", name, "-o", "json"]);
    serde_json::from_str(&text).unwrap()
}

/// Waits until a Cluster satisfies a condition. `what` describes the condition.
fn wait_for_cluster(up: &Up, name: &str, what: &str, expected: impl Fn(&Value) -> bool) -> Value {
    until(what, || {
        let cluster = cluster(up, name);
        if expected(&cluster) {
            Ok(cluster)
        } else {
            Err(cluster.to_string())
        }
    })
}

fn condition<'a>(cluster: &'a Value, kind: &str) -> &'a Value {
    let conditions = cluster["status"]["conditions"].as_array().unwrap();
    conditions.iter().find(|c| c["type"] == kind).unwrap()
}

fn taints(cluster: &Value) -> Vec<String> {
    let taints = cluster["spec"]["taints"].as_array();
    let format_taint = |t: &Value| format!("{}:{}", t["key"], t["effect"]).replace('"', "");
    taints.into_iter().flatten().map(format_taint).collect()
}

#[needs(kubectl)]
#[test]
fn the_status_reflects_nodes_and_pods_of_the_member() {
    let up = start(&["--members=1"]);
    cluster(&up, "member1");
    // At first, the status contains the Kubernetes version of the generated fleet, v1.36.0. The controller replaces it
    // with the version that the API server of the member reports.
    let first = wait_for_cluster(&up, "member1", "the version of the server", |cluster| {
        cluster["status"]["kubernetesVersion"] != "v1.36.0"
    });
    let summary = &first["status"]["resourceSummary"];
    assert_eq!(summary["allocatable"]["cpu"], "32");
    assert_eq!(summary["allocated"]["cpu"], "4");
    assert_eq!(
        condition(&first, "CompleteAPIEnablements")["reason"],
        "Complete"
    );
    let apis = first["status"]["apiEnablements"].as_array().unwrap();
    for group in ["v1", "apps/v1", "monitoring.coreos.com/v1"] {
        assert!(
            apis.iter().any(|api| api["groupVersion"] == group),
            "{apis:?}"
        );
    }
    let graded: i64 = summary["allocatableModelings"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|model| model["count"].as_i64())
        .sum();
    assert_eq!(graded, 4);

    up.kubectl(&["--context=member1", "delete", "node", "member1-node-4"]);
    let pod = r#"{"spec": {"nodeName": "member1-node-1", "containers": [
        {"name": "c", "image": "i", "resources": {"requests": {"cpu": "2500m"}}}]}}"#;
    up.kubectl(&[
        "--context=member1",
        "run",
        "p",
        "--image=i",
        &format!("--overrides={pod}"),
    ]);
    wait_for_cluster(&up, "member1", "the changed status", |cluster| {
        let status = &cluster["status"];
        status["nodeSummary"]["totalNum"] == 3
            && status["resourceSummary"]["allocatable"]["cpu"] == "24"
            // Three system pods and the new pod remain. The fourth system pod was deleted with its node.
            && status["resourceSummary"]["allocated"]["cpu"] == "5500m"
    });
}

#[needs(kubectl)]
#[test]
fn a_failed_member_is_tainted_until_it_is_healed() {
    let up = start(&["--members=2"]);
    cluster(&up, "member1");
    let run = |arguments: &[&str]| berth(up.home.path(), arguments).output().unwrap();
    let failed = run(&["fail", "member1"]);
    assert!(failed.status.success(), "{failed:?}");
    let gone = wait_for_cluster(&up, "member1", "the taint", |cluster| {
        taints(cluster) == ["cluster.karmada.io/not-ready:NoSchedule"]
    });
    let ready = condition(&gone, "Ready");
    assert_eq!(
        (&ready["status"], &ready["reason"]),
        (&"False".into(), &"ClusterNotReachable".into())
    );
    // The Cluster keeps the status that was collected before the failure.
    assert_eq!(gone["status"]["nodeSummary"]["totalNum"], 4);
    assert_eq!(
        condition(&cluster(&up, "member2"), "Ready")["status"],
        "True"
    );
    let status = run(&["status"]);
    assert!(
        String::from_utf8_lossy(&status.stdout).contains("False"),
        "{status:?}"
    );

    let healed = run(&["heal", "member1"]);
    assert!(healed.status.success(), "{healed:?}");
    let back = wait_for_cluster(&up, "member1", "the member to be ready again", |cluster| {
        taints(cluster).is_empty() && condition(cluster, "Ready")["status"] == "True"
    });
    assert_eq!(condition(&back, "Ready")["reason"], "ClusterReady");
    let nodes = up.kubectl(&["--context=member1", "get", "nodes", "-o", "name"]);
    assert_eq!(nodes.lines().count(), 4, "{nodes}");
    // The program logs no errors during the failure.
    assert!(!up.log().contains("ERROR"), "{}", up.log());
}

#[test]
fn the_command_fail_refuses_an_unknown_member() {
    let up = start(&["--members=1"]);
    let refused = berth(up.home.path(), &["fail", "member7"])
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let line = line(&refused);
    assert!(
        line.contains("member7") && line.contains("member1"),
        "{line}"
    );
}

#[needs(kubectl)]
#[test]
fn a_fleet_file_can_describe_a_failed_member() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fleet.yaml");
    std::fs::write(
        &path,
        "apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: broken}
spec: {syncMode: Push}
status:
  nodeSummary: {totalNum: 2}
  resourceSummary: {allocatable: {cpu: '4'}}
  conditions:
  - {type: Ready, status: 'False', reason: Broken, message: it is, lastTransitionTime: '2026-01-01T00:00:00Z'}
",
    )
    .unwrap();
    let up = start(&["--fleet", path.to_str().unwrap()]);
    cluster(&up, "broken");
    wait_for_cluster(&up, "broken", "the taint", |cluster| {
        taints(cluster) == ["cluster.karmada.io/not-ready:NoSchedule"]
            && condition(cluster, "Ready")["status"] == "False"
    });
    assert!(
        berth(up.home.path(), &["heal", "broken"])
            .status()
            .unwrap()
            .success()
    );
    wait_for_cluster(&up, "broken", "the member to be ready", |cluster| {
        taints(cluster).is_empty() && cluster["status"]["nodeSummary"]["readyNum"] == 2
    });
}

#[needs(kubectl)]
#[test]
fn deleting_a_cluster_removes_its_namespace_and_secrets() {
    let up = start(&["--members=2"]);
    let _ = cluster(&up, "member1");
    let count = |what: &str| {
        let listed = up.kubectl(&["get", what, "-A", "-o", "name"]);
        listed
            .lines()
            .filter(|name| name.ends_with("member1"))
            .count()
    };
    until("the execution namespace", || match count("namespaces") {
        1 => Ok(()),
        other => Err(other.to_string()),
    });
    wait_for_cluster(&up, "member1", "the finalizer", |cluster| {
        cluster["metadata"]["finalizers"][0] == "karmada.io/cluster-controller"
    });
    up.kubectl(&["delete", "cluster", "member1", "--timeout=60s"]);
    until("the namespace and the secrets to be deleted", || {
        match count("namespaces") + count("secrets") {
            0 => Ok(()),
            other => Err(other.to_string()),
        }
    });
    assert_eq!(cluster(&up, "member2")["metadata"]["name"], "member2");
}

#[needs(kubectl)]
#[test]
fn namespaces_are_created_and_deleted_in_all_members() {
    let up = start(&["--members=2"]);
    cluster(&up, "member1");
    let exists = |member: &str, name: &str| {
        let context = format!("--context={member}");
        let listed = up.kubectl(&[&context, "get", "namespaces", "-o", "name"]);
        listed
            .lines()
            .any(|line| line == format!("namespace/{name}"))
    };
    up.kubectl(&["create", "namespace", "shop"]);
    for member in ["member1", "member2"] {
        until("the namespace in the member", || {
            exists(member, "shop")
                .then_some(())
                .ok_or_else(|| format!("not in {member}"))
        });
        assert!(!exists(member, "karmada-system"));
    }
    up.kubectl(&["delete", "namespace", "shop", "--timeout=60s"]);
    for member in ["member1", "member2"] {
        until("the namespace to be deleted in the member", || {
            (!exists(member, "shop"))
                .then_some(())
                .ok_or_else(|| format!("still in {member}"))
        });
    }
}

#[needs(kubectl)]
#[test]
fn a_pull_cluster_whose_agent_sends_no_status_is_unknown_and_can_be_deleted() {
    let up = start(&[
        "--members=1",
        "--cluster-monitor-period=100ms",
        "--cluster-monitor-grace-period=2s",
    ]);
    cluster(&up, "member1");
    let apply = |manifest: Value| {
        let file = up.home.path().join("manifest.json");
        std::fs::write(&file, manifest.to_string()).unwrap();
        up.kubectl(&["apply", "-f", file.to_str().unwrap()]);
    };
    apply(
        json!({ "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
        "metadata": { "name": "pulled" }, "spec": { "syncMode": "Pull", "apiEndpoint": "https://127.0.0.1:1" } }),
    );
    let report_ready = |status: &str| {
        let patch = json!({ "status": { "conditions": [{ "type": "Ready", "status": status,
            "reason": "ClusterReady", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z" }] } });
        let (patch, status) = (patch.to_string(), "--subresource=status");
        up.kubectl(&[
            "patch",
            "cluster",
            "pulled",
            status,
            "--type=merge",
            "-p",
            &patch,
        ]);
    };
    report_ready("True");
    let unreachable = |cluster: &Value| {
        taints(cluster) == ["cluster.karmada.io/unreachable:NoSchedule"]
            && condition(cluster, "Ready")["status"] == "Unknown"
    };
    let silent = wait_for_cluster(&up, "pulled", "the cluster to be unreachable", unreachable);
    assert_eq!(
        condition(&silent, "Ready")["reason"],
        "ClusterStatusUnknown"
    );
    assert_eq!(
        condition(&cluster(&up, "member1"), "Ready")["status"],
        "True",
        "a cluster without an agent must stay ready"
    );
    report_ready("True");
    wait_for_cluster(&up, "pulled", "the cluster to be reachable", |cluster| {
        taints(cluster).is_empty()
    });
    wait_for_cluster(
        &up,
        "pulled",
        "the cluster to be unreachable again",
        unreachable,
    );

    // An agent would remove the finalizer of this Work, but no agent runs. The cluster controller removes the finalizer
    // when the Cluster is deleted.
    apply(
        json!({ "apiVersion": "work.karmada.io/v1alpha1", "kind": "Work",
        "metadata": { "name": "w", "namespace": "karmada-es-pulled",
            "finalizers": ["karmada.io/execution-controller"] },
        "spec": { "workload": { "manifests": [] } } }),
    );
    up.kubectl(&["delete", "cluster", "pulled", "--wait=false"]);
    until("the cluster to be deleted", || {
        let there = up.kubectl(&["get", "cluster", "pulled", "--ignore-not-found"]);
        if there.is_empty() { Ok(()) } else { Err(there) }
    });
}

/// The members install a definition one after the other. A custom resource follows it, and leaves a member that loses
/// it. A cordoned member gets no further replicas.
#[needs(kubectl)]
#[test]
fn workloads_follow_the_apis_and_taints_of_members() {
    let up = start(&["--members=2"]);
    let definition = json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "guests.web.example.com" },
        "spec": { "group": "web.example.com", "scope": "Namespaced",
            "names": { "kind": "Guest", "plural": "guests", "singular": "guest" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true } } }] } });
    let divided = json!({ "replicaScheduling": { "replicaSchedulingType": "Divided",
        "replicaDivisionPreference": "Weighted", "weightPreference": { "dynamicWeight": "AvailableReplicas" } } });
    let policy = |name: &str, api_version: &str, kind: &str, placement: &Value| {
        json!({ "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
            "metadata": { "name": name, "namespace": "default" },
            "spec": { "resourceSelectors": [{ "apiVersion": api_version, "kind": kind }], "placement": placement } })
    };
    let deployment = json!({ "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": "web", "namespace": "default" },
        "spec": { "replicas": 2, "selector": { "matchLabels": { "app": "web" } }, "template": {
            "metadata": { "labels": { "app": "web" } },
            "spec": { "containers": [{ "name": "c", "image": "nginx" }] } } } });
    let folder = tempfile::tempdir().unwrap();
    let apply = |object: &Value| {
        let file = folder.path().join("object.json");
        std::fs::write(&file, object.to_string()).unwrap();
        up.kubectl(&["apply", "-f", file.to_str().unwrap()]);
    };
    let clusters = |binding: &str| {
        let path = "-o=jsonpath={range .spec.clusters[*]}{.name}:{.replicas} {end}";
        up.kubectl(&["get", "resourcebinding", binding, path])
    };
    let wait_for_clusters = |binding: &str, expected: &str| {
        until(&format!("{binding} in {expected}"), || {
            let found = clusters(binding);
            if found == expected {
                Ok(())
            } else {
                Err(found)
            }
        });
    };
    let served_by = |members: &[&str]| {
        json!({ "apiVersion": "policy.karmada.io/v1alpha1", "kind": "ClusterPropagationPolicy",
            "metadata": { "name": "guests" },
            "spec": { "resourceSelectors": [{ "apiVersion": "apiextensions.k8s.io/v1",
                    "kind": "CustomResourceDefinition", "name": "guests.web.example.com" }],
                "placement": { "clusterAffinity": { "clusterNames": members } } } })
    };
    apply(&definition);
    up.kubectl(&[
        "wait",
        "--for=condition=Established",
        "crd/guests.web.example.com",
        "--timeout=20s",
    ]);
    apply(
        &json!({ "apiVersion": "web.example.com/v1", "kind": "Guest",
        "metadata": { "name": "g", "namespace": "default" } }),
    );
    apply(&policy("g", "web.example.com/v1", "Guest", &json!({})));
    apply(&served_by(&["member1"]));
    wait_for_clusters("g-guest", "member1: ");
    apply(&served_by(&["member1", "member2"]));
    wait_for_clusters("g-guest", "member1: member2: ");
    apply(&served_by(&["member2"]));
    wait_for_clusters("g-guest", "member2: ");

    apply(&deployment);
    apply(&policy("web", "apps/v1", "Deployment", &divided));
    wait_for_clusters("web-deployment", "member1:1 member2:1 ");
    up.kubectl(&[
        "patch",
        "cluster",
        "member2",
        "--type=merge",
        r#"-p={"spec":{"taints":[{"key":"cordoned","effect":"NoSchedule"}]}}"#,
    ]);
    up.kubectl(&["scale", "deployment/web", "--replicas=10"]);
    wait_for_clusters("web-deployment", "member1:9 member2:1 ");
}
