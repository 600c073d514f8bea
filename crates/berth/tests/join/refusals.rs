//! Tests of invalid `join` and `unjoin` commands: each prints an error of one line and changes no object.

use std::net::TcpListener;

use berth_test_transcripts::assert_snapshot;
use kube::api::ListParams;

use crate::test_servers::TestServers;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
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
    for words in [
        "join member1 --cluster-kubeconfig member2.kubeconfig",
        "join other --cluster-kubeconfig member1.kubeconfig",
        "join member2 --cluster-kubeconfig control-plane.kubeconfig",
        "join Member_2 --cluster-kubeconfig member2.kubeconfig",
        "join member2",
        "join member2 --cluster-kubeconfig nonesuch",
        "join member2 --cluster-kubeconfig gone.kubeconfig",
        "join member2 --cluster-kubeconfig member2.kubeconfig --cluster-context nonesuch",
        "join member2 --cluster-kubeconfig member2.kubeconfig --kubeconfig nonesuch",
        "join member2 --cluster-kubeconfig member2.kubeconfig --resources services,deployment",
        "unjoin member2",
        "unjoin member1 --cluster-kubeconfig member2.kubeconfig",
    ] {
        let result = servers.berth(words).await;
        assert_eq!(result.out, "", "{words}");
        assert_eq!(result.err.lines().count(), 1, "{words}: {}", result.err);
        assert_eq!(count().await, 1, "{words}");
    }
    assert_snapshot!(servers.session());
    servers.stop().await;
}
