//! Tests of tokens and client certificates: they are reloaded from files, and no token is logged.

use berth_e2e::proxy::{Fault, Proxy};
use berth_e2e::{BareControlPlane, eventually};
use berth_test_requirements::needs;
use http::StatusCode;
use serde_json::json;

use crate::assertions::is_settled;
#[cfg(target_os = "linux")]
use crate::clock_jumps::wall_clock::Clock;
use crate::objects::{binding, fleet, on_cluster};
use crate::process::{self, ANY_PORT};

const SECRET: &str = "eyJ-this-must-not-be-seen";

/// Creates a binding, and waits until it is placed.
async fn bind_and_wait(bare: &BareControlPlane, name: &str) {
    bare.bind(&binding(name, 1, on_cluster("m1"))).await;
    eventually("a binding to be placed", async || {
        if is_settled(&bare.bindings("default").get(name).await.unwrap()) {
            Ok(())
        } else {
            Err("not yet")
        }
    })
    .await;
}

/// The scheduler logs at the highest verbosity, and some of its requests fail.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_token_is_ever_logged() {
    let bare = BareControlPlane::start(&fleet(1)).await;
    let proxy = Proxy::start(bare.client.clone());
    proxy.require_token(SECRET);
    let kubeconfig = bare.folder().join("proxy");
    std::fs::write(&kubeconfig, proxy.kubeconfig(&json!({ "token": SECRET }))).unwrap();
    let arguments = ["-v=10", ANY_PORT[0], ANY_PORT[1]];
    let mut program = process::start(bare.folder(), &kubeconfig, &arguments);
    bind_and_wait(&bare, "first").await;
    // Failed requests are logged, too.
    proxy.rule(|request| match request.number % 3 {
        0 => Fault::Respond(StatusCode::INTERNAL_SERVER_ERROR, None),
        1 => Fault::LoseResponse,
        _ => Fault::None,
    });
    bare.bind(&binding("second", 1, on_cluster("m1"))).await;
    program.wait_for_log("trying again").await;
    proxy.heal();
    proxy.require_token("another");
    bare.bind(&binding("third", 1, on_cluster("m1"))).await;
    program.wait_for_log("refuses the credentials").await;
    proxy.require_token(SECRET);
    program.signal("TERM");
    program.wait_for_exit().await;
    let log = program.log();
    assert!(
        log.contains("TRACE") || log.contains("DEBUG"),
        "the log has no debug lines: {log}"
    );
    // Failures are sentences, not the Rust structures of errors.
    for structure in ["Status {", "ErrorResponse", "Some(", "ApiError"] {
        assert!(!log.contains(structure), "{structure}: {log}");
    }
    assert!(!log.contains(SECRET) && !log.contains("Bearer"), "{log}");
    println!(
        "{} lines of log at -v=10 without the token",
        log.lines().count()
    );
    bare.stop().await;
}

/// The scheduler uses a token for 50 seconds before it reads the file again. The test moves the clock of the process by
/// 60 seconds.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_token_file_is_reloaded() {
    let bare = BareControlPlane::start(&fleet(1)).await;
    let proxy = Proxy::start(bare.client.clone());
    let token = bare.folder().join("token");
    std::fs::write(&token, "one").unwrap();
    proxy.require_token("one");
    let kubeconfig = bare.folder().join("proxy");
    std::fs::write(
        &kubeconfig,
        proxy.kubeconfig(&json!({ "tokenFile": token })),
    )
    .unwrap();
    let clock = Clock::make(bare.folder());
    let arguments = ["--leader-elect=false", ANY_PORT[0], ANY_PORT[1]];
    let environment = clock.environment();
    let _program = process::start_in(bare.folder(), &kubeconfig, &arguments, &environment);
    bind_and_wait(&bare, "first").await;
    std::fs::write(&token, "two").unwrap();
    bind_and_wait(&bare, "by-the-old-token").await;
    assert_eq!(proxy.count(|request| request.token == "two"), 0);
    clock.jump_to(60);
    proxy.require_token("two");
    bind_and_wait(&bare, "second").await;
    bare.stop().await;
}

/// A restarted `berth up` writes a kubeconfig with other credentials to the same path.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rewritten_kubeconfig_is_loaded_without_a_restart() {
    let bare = BareControlPlane::start(&fleet(1)).await;
    let proxy = Proxy::start(bare.client.clone());
    proxy.require_token("one");
    let kubeconfig = bare.folder().join("proxy");
    let write = |token: &str| {
        let text = proxy.kubeconfig(&json!({ "token": token }));
        std::fs::write(&kubeconfig, text).unwrap();
    };
    write("one");
    let arguments = ["--leader-elect=false", ANY_PORT[0], ANY_PORT[1]];
    let program = process::start(bare.folder(), &kubeconfig, &arguments);
    bind_and_wait(&bare, "first").await;
    proxy.require_token("two");
    write("two");
    program.wait_for_log("credentials changed").await;
    bind_and_wait(&bare, "second").await;
    bare.stop().await;
}

/// The user of the first certificate has no permissions. The user of the renewed certificate is an administrator.
#[needs(embedded)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewed_client_certificate_is_loaded_without_a_restart() {
    let bare = BareControlPlane::start(&fleet(1)).await;
    let file = |name: &str| bare.folder().join(name);
    let (certificate, key) = (file("client.crt"), file("client.key"));
    assert!(bare.write_certificate("powerless", "powerless-group", &certificate, &key));
    std::fs::write(file("ca.crt"), bare.ca_pem()).unwrap();
    let kubeconfig = file("by-certificate");
    let text = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{ "name": "c", "cluster": { "server": bare.url(), "certificate-authority": "ca.crt" } }],
        "users": [{ "name": "c", "user": { "client-certificate": "client.crt", "client-key": "client.key" } }],
        "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "c" } }],
    });
    std::fs::write(&kubeconfig, text.to_string()).unwrap();
    let arguments = ["--leader-elect=false", ANY_PORT[0], ANY_PORT[1]];
    let program = process::start(bare.folder(), &kubeconfig, &arguments);
    program.wait_for_log("powerless").await;
    bare.write_certificate("renewed", "system:masters", &certificate, &key);
    program.wait_for_log("credentials changed").await;
    bind_and_wait(&bare, "first").await;
    bare.stop().await;
}
