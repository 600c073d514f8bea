//! Tokens: where they are read, and where they must not appear.

use berth_e2e::proxy::{Fault, Proxy};
use berth_e2e::{Bare, eventually};
use berth_test_requirements::needs;
use http::StatusCode;
use serde_json::json;

use crate::objects::{binding, fleet, on};
use crate::process::{ANY_PORT, Program};
use crate::watching::is_settled;

const SECRET: &str = "eyJ-this-must-not-be-seen";

async fn places(bare: &Bare, name: &str) {
    bare.bind(&binding(name, 1, on("m1"))).await;
    eventually("a binding to be placed", async || {
        if is_settled(&bare.bindings("default").get(name).await.unwrap()) {
            Ok(())
        } else {
            Err("not yet")
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_token_is_ever_logged() {
    let bare = Bare::start(&fleet(1)).await;
    let proxy = Proxy::start(bare.client.clone());
    proxy.require_token(SECRET);
    let kubeconfig = bare.folder().join("proxy");
    std::fs::write(&kubeconfig, proxy.kubeconfig(&json!({ "token": SECRET }))).unwrap();
    let arguments = ["-v=10", ANY_PORT[0], ANY_PORT[1]];
    let mut program = Program::start(bare.folder(), &kubeconfig, &arguments);
    places(&bare, "first").await;
    // What goes wrong is logged too.
    proxy.rule(|asked| match asked.number % 3 {
        0 => Fault::Answer(StatusCode::INTERNAL_SERVER_ERROR, None),
        1 => Fault::LoseAnswer,
        _ => Fault::None,
    });
    bare.bind(&binding("second", 1, on("m1"))).await;
    program.says("trying again").await;
    proxy.heal();
    proxy.require_token("another");
    bare.bind(&binding("third", 1, on("m1"))).await;
    program.says("cannot use the lease").await;
    proxy.require_token(SECRET);
    program.signal("TERM");
    program.ended().await;
    let log = program.log();
    assert!(
        log.contains("TRACE") || log.contains("DEBUG"),
        "the log is detailed: {log}"
    );
    assert!(!log.contains(SECRET) && !log.contains("Bearer"), "{log}");
    println!(
        "{} lines of log at -v=10 without the token",
        log.lines().count()
    );
    bare.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_file_is_read_again() {
    let bare = Bare::start(&fleet(1)).await;
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
    let arguments = ["--leader-elect=false", ANY_PORT[0], ANY_PORT[1]];
    let _program = Program::start(bare.folder(), &kubeconfig, &arguments);
    places(&bare, "first").await;
    std::fs::write(&token, "two").unwrap();
    let began = std::time::Instant::now();
    while proxy.count(|asked| asked.token == "two") == 0 {
        assert!(began.elapsed().as_secs() < 90, "it is never read again");
        let touch =
            kube::api::Patch::Merge(json!({ "spec": { "replicas": began.elapsed().as_secs() } }));
        let api = bare.bindings("default");
        api.patch("first", &Default::default(), &touch)
            .await
            .unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
    proxy.require_token("two");
    places(&bare, "second").await;
    println!(
        "the new token is used {:.1?} after it was written",
        began.elapsed()
    );
    bare.stop().await;
}

#[needs(embedded)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewed_client_certificate_is_read_without_a_restart() {
    let bare = Bare::start(&fleet(1)).await;
    let file = |name: &str| bare.folder().join(name);
    let (certificate, key) = (file("client.crt"), file("client.key"));
    // The first certificate is of a user without any rights.
    assert!(bare.write_certificate("nobody", "nobodies", &certificate, &key));
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
    let program = Program::start(bare.folder(), &kubeconfig, &arguments);
    program.says("nobody").await;
    bare.write_certificate("renewed", "system:masters", &certificate, &key);
    program.says("credentials changed").await;
    places(&bare, "first").await;
    bare.stop().await;
}
