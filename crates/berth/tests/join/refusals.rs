//! Tests of invalid `join` and `unjoin` commands: each prints an error of one line and changes no object.

use std::net::TcpListener;

use kube::api::ListParams;

use crate::test_servers::TestServers;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::too_many_lines, reason = "a table is as long as its rules")]
async fn invalid_commands_print_one_line_and_write_nothing() {
    let servers = TestServers::start().await;
    servers
        .run("join member1 --cluster-kubeconfig member1.kubeconfig")
        .await;
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let unreachable = servers
        .member2
        .kubeconfig("gone")
        .replace(&servers.member2.url(), &format!("https://127.0.0.1:{port}"));
    std::fs::write(servers.home().join("gone.kubeconfig"), unreachable).unwrap();
    let count = async || {
        servers
            .clusters()
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .len()
    };
    for (words, code, start, hint) in [
        (
            "join member1 --cluster-kubeconfig member2.kubeconfig",
            1,
            "there is a member named member1 already, and it is another cluster",
            "choose another name",
        ),
        (
            "join other --cluster-kubeconfig member1.kubeconfig",
            1,
            "this cluster is a member already, as member1",
            "berth unjoin member1",
        ),
        (
            "join member2 --cluster-kubeconfig control-plane.kubeconfig",
            2,
            "control-plane.kubeconfig leads to the control plane itself",
            "--cluster-context",
        ),
        (
            "join Member_2 --cluster-kubeconfig member2.kubeconfig",
            2,
            "invalid value 'Member_2'",
            "lower case letters",
        ),
        (
            "join member2",
            2,
            "the following required arguments",
            "--cluster-kubeconfig",
        ),
        (
            "join member2 --cluster-kubeconfig nonesuch",
            1,
            "the member: cannot use the kubeconfig nonesuch",
            "No such file",
        ),
        (
            "join member2 --cluster-kubeconfig gone.kubeconfig",
            1,
            "cannot read the id of the cluster in member2",
            "refused",
        ),
        (
            "join member2 --cluster-kubeconfig member2.kubeconfig --cluster-context nonesuch",
            1,
            "the member: cannot use the kubeconfig member2.kubeconfig",
            "nonesuch",
        ),
        (
            "join member2 --cluster-kubeconfig member2.kubeconfig --kubeconfig nonesuch",
            1,
            "the control plane: cannot use the kubeconfig nonesuch",
            "No such file",
        ),
        (
            "join member2 --cluster-kubeconfig member2.kubeconfig --resources services,deployment",
            2,
            "member2 serves no resource deployment",
            "did you mean deployments.apps?",
        ),
        ("unjoin member2", 1, "there is no member named member2", ""),
        (
            "unjoin member1 --cluster-kubeconfig member2.kubeconfig",
            1,
            "member2.kubeconfig leads to another cluster than the member member1",
            "nothing was done",
        ),
    ] {
        let result = servers.berth(words).await;
        assert_eq!(result.code, Some(code), "{words}: {result:?}");
        assert_eq!(result.out, "", "{words}");
        assert_eq!(result.err.lines().count(), 1, "{words}: {}", result.err);
        assert!(
            result.err.starts_with(&format!("error: {start}")),
            "{words}: {}",
            result.err
        );
        assert!(result.err.contains(hint), "{words}: {}", result.err);
        assert_eq!(count().await, 1, "{words}");
    }
    servers.stop().await;
}
