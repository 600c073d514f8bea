//! Tests of `berth get clusters`, `cordon`, `uncordon` and `taint`.

use serde_json::{Value, json};

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

async fn taints(servers: &TestServers, name: &str) -> Value {
    let cluster = servers.clusters().get(name).await.unwrap();
    let taints = cluster.spec.taints.iter().map(|taint| {
        format!(
            "{}={}:{}",
            taint.key,
            taint.value.as_deref().unwrap_or_default(),
            taint.effect
        )
    });
    taints.collect()
}

/// Returns the words of each line of a table. Leaves out the last column, which is the age.
fn words(table: &str) -> Vec<Vec<&str>> {
    let rows = table
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.map(|row| row[..row.len() - 1].to_vec()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_are_listed() {
    let servers = servers_with_members().await;
    servers.run("cordon member2").await;
    let table = servers.run("get clusters").await;
    assert_eq!(
        words(&table),
        [
            ["NAME", "VERSION", "MODE", "READY", "CORDONED"],
            ["member1", "-", "Push", "Unknown", "no"],
            ["member2", "-", "Push", "Unknown", "yes"],
        ]
    );
    let wide = servers.run("get clusters member2 -o wide").await;
    let url = servers.member2.url();
    let expected = format!("- eu - cluster.karmada.io/unschedulable:NoSchedule {url}");
    let row: Vec<&str> = wide
        .lines()
        .nth(1)
        .unwrap()
        .split_whitespace()
        .skip(6)
        .collect();
    assert_eq!(row.join(" "), expected);
    assert_eq!(
        servers.run("get clusters -o name").await,
        "cluster/member1\ncluster/member2\n"
    );
    let list: Value = serde_json::from_str(&servers.run("get clusters -o json").await).unwrap();
    assert_eq!(list["items"][1]["metadata"]["name"], "member2");
    assert_eq!(list["items"][1]["kind"], "Cluster");
    servers.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_are_cordoned_and_uncordoned() {
    let servers = servers_with_members().await;
    let cordoned = json!(["cluster.karmada.io/unschedulable=:NoSchedule"]);
    for (words, stdout, after) in [
        (
            "cordon member1 --dry-run",
            "cluster/member1 cordoned (dry run)\n",
            json!([]),
        ),
        (
            "cordon member1",
            "cluster/member1 cordoned\n",
            cordoned.clone(),
        ),
        (
            // `get clusters -o name` prints the first form, kubectl the second one.
            "cordon cluster/member1 cluster.cluster.karmada.io/member2",
            "cluster/member1 already cordoned\ncluster/member2 cordoned\n",
            cordoned,
        ),
        (
            "uncordon member1",
            "cluster/member1 uncordoned\n",
            json!([]),
        ),
        (
            "uncordon member1",
            "cluster/member1 already uncordoned\n",
            json!([]),
        ),
    ] {
        assert_eq!(servers.run(words).await, stdout, "{words}");
        assert_eq!(taints(&servers, "member1").await, after, "{words}");
    }
    servers.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_are_tainted_and_untainted() {
    let servers = servers_with_members().await;
    for (words, stdout, after) in [
        (
            "taint clusters member1 dedicated=gpu:NoSchedule spot:NoExecute",
            "cluster/member1 tainted\n",
            json!(["dedicated=gpu:NoSchedule", "spot=:NoExecute"]),
        ),
        (
            "taint member1 dedicated=cpu:NoSchedule --overwrite --dry-run",
            "cluster/member1 tainted (dry run)\n",
            json!(["dedicated=gpu:NoSchedule", "spot=:NoExecute"]),
        ),
        (
            "taint member1 dedicated=cpu:NoSchedule --overwrite",
            "cluster/member1 tainted\n",
            json!(["dedicated=cpu:NoSchedule", "spot=:NoExecute"]),
        ),
        (
            "taint member1 spot:NoExecute",
            "cluster/member1 unchanged\n",
            json!(["dedicated=cpu:NoSchedule", "spot=:NoExecute"]),
        ),
        (
            "taint member1 dedicated- spot:NoExecute-",
            "cluster/member1 untainted\n",
            json!([]),
        ),
    ] {
        assert_eq!(servers.run(words).await, stdout, "{words}");
        assert_eq!(taints(&servers, "member1").await, after, "{words}");
    }
    let before = servers.clusters().get("member2").await.unwrap();
    for (words, code, message) in [
        (
            "taint member1 a:Never",
            2,
            "taint a:Never: \"Never\" is not an effect: use NoSchedule, NoExecute",
        ),
        (
            "taint member1",
            2,
            "no taint is named: write key=value:NoSchedule, or key- to remove it",
        ),
        (
            "taint member1 a-",
            1,
            "member1: there is no taint a to remove",
        ),
        (
            "taint nonesuch a:NoSchedule",
            1,
            "there is no member named nonesuch",
        ),
        ("cordon nonesuch", 1, "there is no member named nonesuch"),
        (
            "get clusters nonesuch",
            1,
            "there is no member named nonesuch",
        ),
    ] {
        let result = servers.berth(words).await;
        assert_eq!(
            (result.code, result.err.as_str()),
            (Some(code), &*format!("error: {message}\n")),
            "{words}"
        );
    }
    let after = servers.clusters().get("member2").await.unwrap();
    assert_eq!(
        before.metadata.resource_version,
        after.metadata.resource_version
    );
    servers.stop().await;
}
