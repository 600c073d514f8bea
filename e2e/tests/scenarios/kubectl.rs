//! Scenarios in which the user runs the real kubectl.

use berth_e2e::Plane;
use berth_test_requirements::needs;
use serde_json::json;

use crate::assertions::{
    wait_for_event, wait_for_failure, wait_for_member_changes, wait_for_pending_work,
    wait_until_placed,
};
use crate::manifests::{by_weights, deployment, on_clusters, on_labelled_clusters, policy};

fn apply(plane: &Plane, manifest: &serde_json::Value) {
    let output = plane.kubectl_apply(manifest);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// The binding follows each command. `kubectl get` prints the columns of bindings, and finds them in the category
/// `karmada-io`.
#[needs(kubectl)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workloads_can_be_applied_listed_described_scaled_and_deleted() {
    let plane = Plane::start().await;
    let nginx = deployment("nginx", 2);
    apply(&plane, &nginx);
    apply(
        &plane,
        &policy(
            "p",
            &[&nginx],
            by_weights(&[("member1", 1), ("member2", 1)]),
        ),
    );
    wait_until_placed(
        &plane,
        "nginx-deployment",
        &[("member1", 1), ("member2", 1)],
    )
    .await;

    let table = plane.kubectl(&["get", "resourcebindings"]);
    let mut lines = table.lines();
    let header: Vec<&str> = lines.next().unwrap().split_whitespace().collect();
    assert_eq!(
        header,
        ["NAME", "SCHEDULED", "FULLYAPPLIED", "HEALTHY", "AGE"]
    );
    let row: Vec<&str> = lines.next().unwrap().split_whitespace().collect();
    assert_eq!(row[..2], ["nginx-deployment", "True"], "{table}");
    let names = [
        "get",
        "rb",
        "nginx-deployment",
        "-o",
        "jsonpath={.spec.clusters[*].name}",
    ];
    assert_eq!(plane.kubectl(&names), "member1 member2");
    let category = plane.kubectl(&["get", "karmada-io"]);
    assert!(
        category.contains("propagationpolicy.policy.karmada.io/p")
            && category.contains("resourcebinding.work.karmada.io/nginx-deployment"),
        "{category}"
    );

    wait_for_event(&plane, "Deployment", "nginx", "ScheduleBindingSucceed", "").await;
    let description = plane.kubectl(&["describe", "deployment", "nginx"]);
    assert!(
        description.contains("default-scheduler")
            && description.contains("Result: {member1:1, member2:1}"),
        "{description}"
    );

    plane.kubectl(&["scale", "deployment", "nginx", "--replicas=6"]);
    wait_until_placed(
        &plane,
        "nginx-deployment",
        &[("member1", 3), ("member2", 3)],
    )
    .await;
    plane.kubectl(&["delete", "deployment", "nginx"]);
    if plane.collects_garbage() {
        plane
            .until_gone(
                &plane.api::<berth_api::ResourceBinding>(),
                "nginx-deployment",
            )
            .await;
    }
    plane.kubectl(&["delete", "pp", "p"]);
    plane.stop().await;
}

/// The bindings follow the labels, taints and deletions of clusters.
#[needs(kubectl)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clusters_can_be_labelled_tainted_and_deleted() {
    let plane = Plane::start().await;
    plane.kubectl(&["label", "cluster", "member1", "member2", "site=hall"]);
    let nginx = deployment("nginx", 1);
    apply(
        &plane,
        &policy("p", &[&nginx], on_labelled_clusters("site", "hall")),
    );
    apply(&plane, &nginx);
    wait_until_placed(
        &plane,
        "nginx-deployment",
        &[("member1", 1), ("member2", 1)],
    )
    .await;
    plane.kubectl(&["label", "cluster", "member2", "site-"]);
    wait_until_placed(&plane, "nginx-deployment", &[("member1", 1)]).await;

    let taint = r#"{"spec":{"taints":[{"key":"down","effect":"NoSchedule"}]}}"#;
    plane.kubectl(&["patch", "cluster", "member1", "--type=merge", "-p", taint]);
    wait_for_member_changes(&plane).await;
    let late = deployment("late", 1);
    apply(
        &plane,
        &policy("late", &[&late], on_labelled_clusters("site", "hall")),
    );
    apply(&plane, &late);
    wait_for_failure(&plane, "late-deployment", "NoClusterFit").await;
    let table = plane.kubectl(&["get", "rb", "late-deployment", "--no-headers"]);
    assert!(table.contains("False"), "{table}");
    let description = plane.kubectl(&["describe", "rb", "late-deployment"]);
    assert!(
        description.contains("had untolerated taint {down:NoSchedule}"),
        "{description}"
    );

    let clusters = plane.kubectl(&["get", "clusters"]);
    let header: Vec<&str> = clusters
        .lines()
        .next()
        .unwrap()
        .split_whitespace()
        .collect();
    assert_eq!(header, ["NAME", "VERSION", "MODE", "READY", "AGE"]);
    assert_eq!(clusters.lines().count(), 4, "{clusters}");
    plane.kubectl(&["delete", "cluster", "member1"]);
    let binding = wait_for_failure(&plane, "nginx-deployment", "NoClusterFit").await;
    assert!(binding.spec.clusters.is_empty());
    plane.stop().await;
}

/// Neither a scale command nor an applied policy moves a suspended binding. The resumed binding is moved.
#[needs(kubectl)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scheduling_can_be_suspended_and_resumed() {
    let plane = Plane::start().await;
    let nginx = deployment("nginx", 1);
    apply(&plane, &policy("p", &[&nginx], on_clusters(&["member1"])));
    apply(&plane, &nginx);
    wait_until_placed(&plane, "nginx-deployment", &[("member1", 1)]).await;
    let patch = |value: serde_json::Value| {
        let patch = json!({ "spec": { "suspension": { "scheduling": value } } }).to_string();
        plane.kubectl(&[
            "patch",
            "rb",
            "nginx-deployment",
            "--type=merge",
            "-p",
            &patch,
        ]);
    };
    patch(json!(true));
    plane.kubectl(&["scale", "deployment", "nginx", "--replicas=3"]);
    // The applied policy does not remove the suspension.
    apply(&plane, &policy("p", &[&nginx], on_clusters(&["member2"])));
    wait_for_pending_work(&plane).await;
    let clusters = [
        "get",
        "rb",
        "nginx-deployment",
        "-o",
        "jsonpath={.spec.clusters}",
    ];
    assert_eq!(
        plane.kubectl(&clusters),
        r#"[{"name":"member1","replicas":1}]"#
    );
    patch(json!(null));
    wait_until_placed(&plane, "nginx-deployment", &[("member2", 3)]).await;
    plane.stop().await;
}

/// The workload moves after each edit.
#[needs(kubectl)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn policies_can_be_edited_by_patch_server_side_apply_and_replace() {
    let plane = Plane::start().await;
    let nginx = deployment("nginx", 1);
    apply(&plane, &nginx);
    let file = std::env::temp_dir().join(plane.unique("policy"));
    let path = file.display().to_string();
    let write = |member: &str| {
        let manifest = policy("p", &[&nginx], on_clusters(&[member]));
        std::fs::write(&file, manifest.to_string()).unwrap();
    };
    write("member1");
    plane.kubectl(&["create", "-f", &path]);
    wait_until_placed(&plane, "nginx-deployment", &[("member1", 1)]).await;
    write("member2");
    plane.kubectl(&["apply", "--server-side", "--force-conflicts", "-f", &path]);
    wait_until_placed(&plane, "nginx-deployment", &[("member2", 1)]).await;
    let edit = r#"[{"op":"replace","path":"/spec/placement/clusterAffinity/clusterNames/0","value":"member3"}]"#;
    plane.kubectl(&["patch", "pp", "p", "--type=json", "-p", edit]);
    wait_until_placed(&plane, "nginx-deployment", &[("member3", 1)]).await;

    // As in Karmada, a replacement must contain the permanent ID of the policy.
    write("member1");
    if plane.admits_as_karmada() {
        let refusal = plane.try_kubectl(&["replace", "-f", &path]);
        let text = String::from_utf8_lossy(&refusal.stderr).into_owned();
        assert!(
            !refusal.status.success() && text.contains("permanent-id"),
            "{text}"
        );
    }
    let mut stored: serde_json::Value =
        serde_json::from_str(&plane.kubectl(&["get", "pp", "p", "-o", "json"])).unwrap();
    stored["spec"]["placement"] = on_clusters(&["member1"]);
    std::fs::write(&file, stored.to_string()).unwrap();
    plane.kubectl(&["replace", "-f", &path]);
    wait_until_placed(&plane, "nginx-deployment", &[("member1", 1)]).await;
    let _ = std::fs::remove_file(&file);
    plane.stop().await;
}
