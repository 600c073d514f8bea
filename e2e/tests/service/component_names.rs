//! Tests of the names of components in user agents and field managers, and of the log lines about an unreachable API
//! server.

use std::collections::BTreeSet;
use std::time::Duration;

use berth_e2e::proxy::{Proxy, RecordedRequest};
use berth_e2e::{BareControlPlane, eventually};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Resource;
use kube::api::Api;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::time::timeout;

use crate::assertions::is_settled;
use crate::objects::{binding, fleet, on_cluster};
use crate::process::{self, ANY_PORT, run};

fn managers<K: Resource>(object: &K) -> BTreeSet<String> {
    let fields = object.meta().managed_fields.iter().flatten();
    fields.filter_map(|entry| entry.manager.clone()).collect()
}

/// The user agent of each request and the field manager of each write contain the name of the scheduler, of the
/// controllers, or of the command-line program.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_request_and_write_names_its_component() {
    let bare = BareControlPlane::start(&fleet(1)).await;
    let proxy = Proxy::start(bare.client.clone());
    let kubeconfig = bare.folder().join("proxy");
    std::fs::write(&kubeconfig, proxy.kubeconfig(&json!({}))).unwrap();
    let _scheduler = process::start(bare.folder(), &kubeconfig, &ANY_PORT);
    let controllers = [&["controllers"], &ANY_PORT[..]].concat();
    let _controllers = process::start_as("berth", bare.folder(), &kubeconfig, &controllers);
    bare.bind(&binding("w", 1, on_cluster("m1"))).await;
    let placed = eventually("the binding to be placed", async || {
        let binding = bare.bindings("default").get("w").await.unwrap();
        if is_settled(&binding) {
            Ok(binding)
        } else {
            Err("not yet")
        }
    })
    .await;
    assert!(
        managers(&placed).contains("berth-scheduler"),
        "{:?}",
        managers(&placed)
    );
    let leases: Api<Lease> = Api::namespaced(bare.client.clone(), "karmada-system");
    for (name, manager) in [
        ("karmada-scheduler", "berth-scheduler"),
        ("karmada-controller-manager", "berth-controllers"),
    ] {
        let lease = eventually(&format!("the lease {name}"), async || {
            leases.get(name).await
        })
        .await;
        assert_eq!(managers(&lease), [manager.to_owned()].into(), "{name}");
    }
    let cordoned = run(
        "berth",
        &["cordon", "m1", "--kubeconfig", kubeconfig.to_str().unwrap()],
    );
    assert!(cordoned.status.success(), "{cordoned:?}");
    let cluster = bare.clusters().get("m1").await.unwrap();
    assert!(
        managers(&cluster).contains("berth"),
        "{:?}",
        managers(&cluster)
    );

    let version = env!("CARGO_PKG_VERSION");
    let component_of = |request: &RecordedRequest| {
        request
            .agent
            .split('/')
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    for request in proxy.requests() {
        let rest = request
            .agent
            .split_once('/')
            .map(|(_, rest)| rest.to_owned());
        let rest = rest.unwrap_or_default();
        assert!(
            rest.starts_with(&format!("v{version} (linux/")),
            "{request:?}"
        );
    }
    let names: BTreeSet<String> = proxy.requests().iter().map(component_of).collect();
    let expected = ["berth", "berth-controllers", "berth-scheduler"].map(str::to_owned);
    assert_eq!(names, expected.into());
    bare.stop().await;
}

/// Returns the lines of a log with the level warning or error.
fn warnings_and_errors(log: &str) -> Vec<&str> {
    let levels = [" WARN ", " ERROR "];
    let is_problem = |line: &&str| levels.iter().any(|level| line.contains(level));
    log.lines().filter(is_problem).collect()
}

/// Number of connections that the server closes at once during the outage, so that each watch and each lease is retried
/// several times.
const RETRIES: usize = 40;

/// The scheduler and the controllers log one warning when the outage begins, and one line when it ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_start_and_the_end_of_an_outage_are_each_logged_once() {
    let bare = BareControlPlane::start(&fleet(0)).await;
    let mut proxy = Proxy::start(bare.client.clone());
    let kubeconfig = bare.folder().join("proxy");
    std::fs::write(&kubeconfig, proxy.kubeconfig(&json!({}))).unwrap();
    let scheduler = process::start(bare.folder(), &kubeconfig, &ANY_PORT);
    let controllers = process::start_as(
        "berth",
        bare.folder(),
        &kubeconfig,
        &[&["controllers", "-v=1"], &ANY_PORT[..]].concat(),
    );
    scheduler.wait_for_log("successfully acquired lease").await;
    controllers
        .wait_for_log("successfully acquired lease")
        .await;
    eventually("the controllers to watch", async || {
        match proxy
            .count(|request| request.is_watch() && request.agent.starts_with("berth-controllers"))
        {
            0..4 => Err("not yet"),
            _ => Ok(()),
        }
    })
    .await;
    let before = [scheduler.log(), controllers.log()];
    proxy.down().await;
    for program in [&scheduler, &controllers] {
        program
            .wait_for_log("the API server does not respond")
            .await;
    }
    // During the outage, the retries of all watches and of the lease add no further log lines.
    let broken = TcpListener::bind(proxy.address()).await.unwrap();
    let retries = async {
        for _ in 0..RETRIES {
            broken.accept().await.unwrap();
        }
    };
    timeout(Duration::from_mins(1), retries).await.unwrap();
    drop(broken);
    proxy.back_up();
    for (program, before) in [&scheduler, &controllers].into_iter().zip(before) {
        program.wait_for_log("the API server responds again").await;
        let log = program.log();
        let since = &log[before.len()..];
        let problems = warnings_and_errors(since);
        // A long outage is logged again after growing pauses.
        assert!((1..=2).contains(&problems.len()), "{since}");
        assert_eq!(since.matches("responds again").count(), 1, "{since}");
    }
    bare.stop().await;
}
