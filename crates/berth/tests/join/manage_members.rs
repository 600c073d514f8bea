//! Tests of `berth get clusters`, `cordon`, `uncordon` and `taint`.

use berth_test_transcripts::assert_snapshot;

use crate::test_servers::TestServers;

/// Starts a control plane with two members.
async fn servers_with_members() -> TestServers {
    let servers = TestServers::start().await;
    for name in ["member1", "member2"] {
        let join =
            format!("join {name} --cluster-kubeconfig {name}.kubeconfig --cluster-region eu");
        servers.run(&join).await;
    }
    servers
}

/// Runs a command, and shows the taints of member1 after it.
async fn show_taints_after(servers: &TestServers, words: &str) {
    servers.berth(words).await;
    let cluster = servers.clusters().get("member1").await.unwrap();
    let taints: Vec<String> = cluster
        .spec
        .taints
        .iter()
        .map(|taint| {
            let value = taint.value.as_deref().unwrap_or_default();
            format!("{}={value}:{}", taint.key, taint.effect)
        })
        .collect();
    servers.about(&format!("taints of member1: {taints:?}"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_are_listed() {
    let servers = servers_with_members().await;
    servers.run("cordon member2").await;
    for format in ["", " member2 -o wide", " -o name", " -o json", " nonesuch"] {
        servers.berth(&format!("get clusters{format}")).await;
    }
    assert_snapshot!(servers.session());
    servers.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_are_cordoned_and_uncordoned() {
    let servers = servers_with_members().await;
    for words in [
        "cordon member1 --dry-run",
        "cordon member1",
        // `get clusters -o name` prints the first form, kubectl the second one.
        "cordon cluster/member1 cluster.cluster.karmada.io/member2",
        "uncordon member1",
        "uncordon member1",
        "cordon nonesuch",
    ] {
        show_taints_after(&servers, words).await;
    }
    assert_snapshot!(servers.session());
    servers.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_are_tainted_and_untainted() {
    let servers = servers_with_members().await;
    for words in [
        "taint clusters member1 dedicated=gpu:NoSchedule spot:NoExecute",
        "taint member1 dedicated=cpu:NoSchedule --overwrite --dry-run",
        "taint member1 dedicated=cpu:NoSchedule --overwrite",
        "taint member1 spot:NoExecute",
        "taint member1 dedicated- spot:NoExecute-",
    ] {
        show_taints_after(&servers, words).await;
    }
    let before = servers.clusters().get("member2").await.unwrap();
    for words in [
        "taint member1 a:Never",
        "taint member1",
        "taint member1 a-",
        "taint nonesuch a:NoSchedule",
    ] {
        servers.berth(words).await;
    }
    let after = servers.clusters().get("member2").await.unwrap();
    assert_eq!(
        before.metadata.resource_version,
        after.metadata.resource_version
    );
    assert_snapshot!(servers.session());
    servers.stop().await;
}
