//! Hostile clients do not delay others. `load hostile` measures the delay of an administrator on an idle machine.

use std::time::Duration;

use berth_apiserver::{Server, ServerConfig};
use berth_e2e::hostile::{Attack, Misbehavior};
use berth_e2e::load::AttackedServer;
use futures::future::join_all;

/// Total number of hostile connections.
const CONNECTIONS: usize = 2000;
/// Time limit for the hostile clients to connect.
const READY: Duration = Duration::from_secs(40);
/// Longest request of the administrator: far above the time on a busy machine without optimisation, and far below that
/// of a blocked server.
const LONGEST: Duration = Duration::from_secs(10);

#[test]
fn two_thousand_hostile_connections_do_not_delay_others() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    berth::open_files::raise_limit();
    // A separate runtime, or the clients would occupy the server's threads.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let server = runtime.spawn(Server::start(ServerConfig::default()));
    let server = runtime.block_on(server).unwrap().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    std::fs::write(&kubeconfig, server.kubeconfig("besieged")).unwrap();
    let clients = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let waits = clients.block_on(async {
        let siege = AttackedServer::prepare(kubeconfig).await.unwrap();
        let each = CONNECTIONS / Misbehavior::ALL.len();
        let attacks: Vec<Attack> = Misbehavior::ALL
            .map(|misbehavior| siege.attack(misbehavior, each))
            .into();
        join_all(
            attacks
                .iter()
                .map(|attack| attack.wait_until_started(READY)),
        )
        .await;
        let made: usize = attacks.iter().map(|attack| attack.connections().0).sum();
        // On a busy machine some connections are still in the TLS handshake.
        assert!(made >= CONNECTIONS / 2, "only {made} hostile connections");
        siege.write_large_objects(10).await.unwrap();
        siege.measure(100).await.unwrap()
    });
    let count = waits.renewals.len();
    assert!(count > 1 && !waits.checks.is_empty(), "{count} renewals");
    assert!(waits.longest() < LONGEST, "{waits:?}");
    clients.shutdown_background();
    drop(server);
    runtime.shutdown_background();
}
