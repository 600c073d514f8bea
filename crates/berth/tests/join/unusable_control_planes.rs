//! Tests of commands that connect to a server without the Karmada API, or with an unusable kubeconfig: the error names
//! the cause and the remedy.

use crate::test_servers::TestServers;

/// Checks that each command that reads Karmada's kinds names the missing definitions and how to install them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_definitions_are_named() {
    const CLUSTERS: &str = "clusters.cluster.karmada.io";
    const ALL: &str = "clusters.cluster.karmada.io, resourcebindings.work.karmada.io, \
                       clusterresourcebindings.work.karmada.io";
    let servers = TestServers::start().await;
    // `member1` is a Kubernetes API server without Karmada's definitions.
    for (words, missing) in [
        ("get clusters", CLUSTERS),
        ("cordon m1", CLUSTERS),
        ("uncordon m1", CLUSTERS),
        ("taint m1 a:NoSchedule", CLUSTERS),
        ("join m2 --cluster-kubeconfig member2.kubeconfig", CLUSTERS),
        (
            "unjoin m1",
            "clusters.cluster.karmada.io, works.work.karmada.io",
        ),
        ("top", ALL),
        ("explain web", ALL),
        ("watch --lines", ALL),
        ("dashboard", ALL),
        ("simulate --against member1", ALL),
    ] {
        let words = format!("{words} --kubeconfig member1.kubeconfig");
        let result = servers.berth(&words).await;
        assert_eq!(
            (result.code, &*result.out),
            (Some(1), ""),
            "{words}: {result:?}"
        );
        let url = servers.member1.url();
        let expected = format!(
            "{url} does not serve {missing}: install the definitions with `kubectl apply --server-side -f crds`"
        );
        assert!(result.err.contains(&expected), "{words}: {}", result.err);
        assert_eq!(result.err.lines().count(), 1, "{words}: {}", result.err);
    }
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
    for (authority_data, expected) in [
        (
            format!("{} {}", &authority[..744], &authority[744..]),
            "certificate-authority-data is not base64 (Invalid symbol 32, offset 744.): write the base64 text of a PEM file",
        ),
        (
            base64("no certificate"),
            "certificate-authority contains no PEM certificate",
        ),
        (
            base64(&pem("bm8gY2VydGlmaWNhdGU=")),
            "check certificate-authority, client-certificate and client-key in the kubeconfig",
        ),
    ] {
        let bad = good.replace(&authority, &authority_data);
        std::fs::write(servers.home().join("bad.kubeconfig"), bad).unwrap();
        let words = "get clusters --kubeconfig bad.kubeconfig";
        let result = servers.berth(words).await;
        assert_eq!(result.code, Some(1), "{result:?}");
        assert!(result.err.contains(expected), "{expected}: {}", result.err);
        assert_eq!(result.err.lines().count(), 1, "{}", result.err);
    }
    servers.stop().await;
}
