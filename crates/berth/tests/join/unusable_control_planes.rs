//! Tests of commands that connect to a server without the Karmada API, or with an unusable kubeconfig: the error names
//! the cause and the remedy.

use berth_test_transcripts::assert_snapshot;

use crate::test_servers::TestServers;

/// Checks that each command that reads Karmada's kinds names the missing definitions and how to install them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_definitions_are_named() {
    let servers = TestServers::start().await;
    // `member1` is a Kubernetes API server without Karmada's definitions.
    for words in [
        "get clusters",
        "cordon m1",
        "uncordon m1",
        "taint m1 a:NoSchedule",
        "join m2 --cluster-kubeconfig member2.kubeconfig",
        "unjoin m1",
        "top",
        "status -A",
        "explain web",
        "watch --lines",
        "dashboard",
        "simulate --against member1",
    ] {
        let words = format!("{words} --kubeconfig member1.kubeconfig");
        let result = servers.berth(&words).await;
        assert_eq!(result.err.lines().count(), 1, "{words}: {}", result.err);
    }
    assert_snapshot!(servers.session());
    servers.stop().await;
}

/// Checks that the error about a certificate or key names the file, the field and the remedy.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn malformed_certificates_are_named() {
    use base64::Engine as _;
    let servers = TestServers::start().await;
    let good = servers.control_plane.kubeconfig("any");
    let base64 = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    let authority = base64(servers.control_plane.ca_pem());
    assert!(good.contains(&authority), "{good}");
    let pem =
        |text: &str| format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n");
    for authority_data in [
        format!("{} {}", &authority[..744], &authority[744..]),
        base64("no certificate"),
        base64(&pem("bm8gY2VydGlmaWNhdGU=")),
    ] {
        let bad = good.replace(&authority, &authority_data);
        std::fs::write(servers.home().join("bad.kubeconfig"), bad).unwrap();
        let words = "get clusters --kubeconfig bad.kubeconfig";
        let result = servers.berth(words).await;
        assert_eq!(result.err.lines().count(), 1, "{}", result.err);
    }
    assert_snapshot!(servers.session());
    servers.stop().await;
}
