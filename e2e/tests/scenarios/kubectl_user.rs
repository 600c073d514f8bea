//! What users type, and what they see: the same scenarios through the real kubectl.

use berth_e2e::Plane;
use berth_test_requirements::needs;
use serde_json::json;

use crate::manifests::{deployment, labelled, on, policy, weighted};
use crate::watching::{after_all_else, after_changes_of_members, not_placed, placed, told};

fn apply(plane: &Plane, manifest: &serde_json::Value) {
    let output = plane.kubectl_apply(manifest);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[needs(kubectl)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn apply_get_describe_scale_and_delete() {
    let plane = Plane::start().await;
    let nginx = deployment("nginx", 2);
    apply(&plane, &nginx);
    apply(
        &plane,
        &policy("p", &[&nginx], weighted(&[("member1", 1), ("member2", 1)])),
    );
    placed(
        &plane,
        "nginx-deployment",
        &[("member1", 1), ("member2", 1)],
    )
    .await;

    let table = plane.kubectl(&["get", "resourcebindings"]);
    let mut lines = table.lines();
    let header: Vec<&str> = lines.next().unwrap().split_whitespace().collect();
    assert_eq!(header, ["NAME", "SCHEDULED", "FULLYAPPLIED", "AGE"]);
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

    told(&plane, "Deployment", "nginx", "ScheduleBindingSucceed", "").await;
    let description = plane.kubectl(&["describe", "deployment", "nginx"]);
    assert!(
        description.contains("default-scheduler")
            && description.contains("Result: {member1:1, member2:1}"),
        "{description}"
    );

    plane.kubectl(&["scale", "deployment", "nginx", "--replicas=6"]);
    placed(
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

#[needs(kubectl)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn label_taint_and_delete_clusters() {
    let plane = Plane::start().await;
    plane.kubectl(&["label", "cluster", "member1", "member2", "site=hall"]);
    let nginx = deployment("nginx", 1);
    apply(&plane, &policy("p", &[&nginx], labelled("site", "hall")));
    apply(&plane, &nginx);
    placed(
        &plane,
        "nginx-deployment",
        &[("member1", 1), ("member2", 1)],
    )
    .await;
    plane.kubectl(&["label", "cluster", "member2", "site-"]);
    placed(&plane, "nginx-deployment", &[("member1", 1)]).await;

    let taint = r#"{"spec":{"taints":[{"key":"down","effect":"NoSchedule"}]}}"#;
    plane.kubectl(&["patch", "cluster", "member1", "--type=merge", "-p", taint]);
    after_changes_of_members(&plane).await;
    let late = deployment("late", 1);
    apply(&plane, &policy("late", &[&late], labelled("site", "hall")));
    apply(&plane, &late);
    not_placed(&plane, "late-deployment", "NoClusterFit").await;
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
    let binding = not_placed(&plane, "nginx-deployment", "NoClusterFit").await;
    assert!(binding.spec.clusters.is_empty());
    plane.stop().await;
}

#[needs(kubectl)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn suspend_and_resume_by_hand() {
    let plane = Plane::start().await;
    let nginx = deployment("nginx", 1);
    apply(&plane, &policy("p", &[&nginx], on(&["member1"])));
    apply(&plane, &nginx);
    placed(&plane, "nginx-deployment", &[("member1", 1)]).await;
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
    // Applying the policy again, edited, keeps it suspended too.
    apply(&plane, &policy("p", &[&nginx], on(&["member2"])));
    after_all_else(&plane).await;
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
    placed(&plane, "nginx-deployment", &[("member2", 3)]).await;
    plane.stop().await;
}

#[needs(kubectl)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn edits_by_patch_and_by_server_side_apply() {
    let plane = Plane::start().await;
    let nginx = deployment("nginx", 1);
    apply(&plane, &nginx);
    let file = std::env::temp_dir().join(plane.unique("policy"));
    let path = file.display().to_string();
    let write = |member: &str| {
        let manifest = policy("p", &[&nginx], on(&[member]));
        std::fs::write(&file, manifest.to_string()).unwrap();
    };
    write("member1");
    plane.kubectl(&["create", "-f", &path]);
    placed(&plane, "nginx-deployment", &[("member1", 1)]).await;
    write("member2");
    plane.kubectl(&["apply", "--server-side", "--force-conflicts", "-f", &path]);
    placed(&plane, "nginx-deployment", &[("member2", 1)]).await;
    let edit = r#"[{"op":"replace","path":"/spec/placement/clusterAffinity/clusterNames/0","value":"member3"}]"#;
    plane.kubectl(&["patch", "pp", "p", "--type=json", "-p", edit]);
    placed(&plane, "nginx-deployment", &[("member3", 1)]).await;

    // A replacement has to bring the id along that the policy was given, as in Karmada.
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
    stored["spec"]["placement"] = on(&["member1"]);
    std::fs::write(&file, stored.to_string()).unwrap();
    plane.kubectl(&["replace", "-f", &path]);
    placed(&plane, "nginx-deployment", &[("member1", 1)]).await;
    let _ = std::fs::remove_file(&file);
    plane.stop().await;
}
