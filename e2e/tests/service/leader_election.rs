//! Tests of the leader election among scheduler processes. A standby is a scheduler that waits for the lease of the
//! leader.

use std::time::{Duration, Instant};

use berth_e2e::proxy::{Fault, Proxy, RecordedRequest};
use berth_e2e::{BareControlPlane, Program, eventually};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::Api;
use serde_json::{Value, json};

use crate::assertions::{
    assert_each_placed_once, engine_decisions, is_settled, wait_until_all_placed,
};
use crate::objects::{binding, fleet, mixed, on_cluster};
use crate::process::{self, ANY_PORT};

/// A lease duration, a renew deadline and a retry period that are short.
const SHORT: [&str; 3] = [
    "--leader-elect-lease-duration=2s",
    "--leader-elect-renew-deadline=1200ms",
    "--leader-elect-retry-period=300ms",
];

/// Short durations, with which a leader can still renew its lease on a busy machine.
const MODERATE: [&str; 3] = [
    "--leader-elect-lease-duration=6s",
    "--leader-elect-renew-deadline=5s",
    "--leader-elect-retry-period=300ms",
];

fn leases(bare: &BareControlPlane) -> Api<Lease> {
    Api::namespaced(bare.client.clone(), "karmada-system")
}

/// Returns the spec of the Lease as JSON.
async fn lease(bare: &BareControlPlane) -> Value {
    let lease = leases(bare).get("karmada-scheduler").await.unwrap();
    serde_json::to_value(lease).unwrap()["spec"].clone()
}

/// Waits until a process other than the holder in `before` has the lease. Returns the spec of the Lease, and the time
/// at which the test read the spec.
async fn next_holder(bare: &BareControlPlane, before: &Value) -> (Value, Instant) {
    eventually("another leader", async || {
        let spec = lease(bare).await;
        let holder = spec["holderIdentity"].as_str().unwrap_or_default();
        if !holder.is_empty() && before["holderIdentity"] != holder {
            Ok((spec, Instant::now()))
        } else {
            Err(format!("{spec}"))
        }
    })
    .await
}

fn start(bare: &BareControlPlane, arguments: &[&str]) -> Program {
    let all: Vec<&str> = ANY_PORT.iter().chain(arguments).copied().collect();
    process::start(bare.folder(), &bare.kubeconfig(), &all)
}

/// Creates a binding, and waits until it is placed.
async fn bind_and_wait(bare: &BareControlPlane, name: &str) {
    bare.bind(&binding(name, 1, on_cluster("m1"))).await;
    eventually("a new binding to be placed", async || {
        if is_settled(&bare.bindings("default").get(name).await.unwrap()) {
            Ok(())
        } else {
            Err("not yet")
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_takes_over_at_once_after_sigterm() {
    let bare = BareControlPlane::start(&fleet(2)).await;
    let mut leader = start(&bare, &[]);
    leader.wait_for_log("successfully acquired lease").await;
    let before = lease(&bare).await;
    let standby = start(&bare, &[]);
    standby.wait_for_log("caches are filled").await;
    leader.signal("TERM");
    let signalled = Instant::now();
    let (after, at) = next_holder(&bare, &before).await;
    let took = at - signalled;
    // A standby that only retries after each retry period would take up to two seconds.
    assert!(took < Duration::from_millis(1900), "{took:?}");
    assert_eq!(after["leaseTransitions"], json!(1));
    assert!(leader.wait_for_exit().await.success());
    bind_and_wait(&bare, "next").await;
    println!("a standby leads {took:.1?} after SIGTERM of the leader");
    bare.stop().await;
}

/// Bindings are created all the time. The standby becomes the leader within four seconds, and writes a binding within
/// another four seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_takes_over_and_schedules_at_once_under_load() {
    let bare = BareControlPlane::start(&fleet(4)).await;
    let proxy = Proxy::start(bare.client.clone());
    let kubeconfig = bare.folder().join("proxy");
    std::fs::write(&kubeconfig, proxy.kubeconfig(&json!({}))).unwrap();
    let mut leader = start(&bare, &[]);
    leader.wait_for_log("successfully acquired lease").await;
    let before = lease(&bare).await;
    let arguments: Vec<&str> = ANY_PORT.to_vec();
    let standby = process::start(bare.folder(), &kubeconfig, &arguments);
    standby.wait_for_log("caches are filled").await;
    let settled = mixed("settled", 300);
    bare.bind_all(&settled).await;
    let (client, count) = (bare.bindings("default"), std::cell::Cell::new(0));
    // Creates a hundred bindings per second, which is more than the default request rate can place.
    let load = async {
        let mut pace = tokio::time::interval(Duration::from_millis(10));
        loop {
            pace.tick().await;
            let number = count.replace(count.get() + 1);
            let next = binding(&format!("load{number}"), 1, on_cluster("m1"));
            client.create(&Default::default(), &next).await.unwrap();
        }
    };
    let takeover = async {
        eventually("the load to start", async || {
            if count.get() >= 200 {
                Ok(())
            } else {
                Err(count.get())
            }
        })
        .await;
        leader.signal("TERM");
        let signalled = Instant::now();
        let (_, led) = next_holder(&bare, &before).await;
        let placed = eventually("the first binding of the next leader", async || {
            let requests = proxy.requests();
            let first = requests.iter().find(|request| request.writes_a_binding());
            first.map(|request| request.at).ok_or("not yet")
        })
        .await;
        (led - signalled, placed.saturating_duration_since(led))
    };
    let (led, placed) = tokio::select! {
        () = load => unreachable!(),
        took = takeover => took,
    };
    println!("under load a standby leads {led:.1?} after SIGTERM and places {placed:.1?} later");
    // Both durations are well under a second on an idle machine. The limits allow for other tests that run at the same
    // time.
    assert!(led < Duration::from_secs(4), "{led:?}");
    assert!(placed < Duration::from_secs(4), "{placed:?}");
    assert!(leader.wait_for_exit().await.success());
    bare.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_leader_is_replaced_soon_after_its_lease_expires() {
    let bare = BareControlPlane::start(&fleet(2)).await;
    let leader = start(&bare, &SHORT);
    leader.wait_for_log("successfully acquired lease").await;
    let before = lease(&bare).await;
    let standby = start(&bare, &SHORT);
    standby.wait_for_log("caches are filled").await;
    leader.signal("KILL");
    let signalled = Instant::now();
    let (_, at) = next_holder(&bare, &before).await;
    let took = at - signalled;
    // The lease lasts two seconds. The limit allows for the retry period and for other tests.
    assert!(took < Duration::from_secs(5), "{took:?}");
    bind_and_wait(&bare, "next").await;
    println!("a standby leads {took:.1?} after kill -9 of a leader with a lease of 2 s");
    bare.stop().await;
}

/// Requests for the lease get no response. The leader sends its last write before the standby becomes the leader, and
/// exits with code 1.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_cannot_renew_stops_writing_before_the_next_leader_starts() {
    let bare = BareControlPlane::start(&fleet(2)).await;
    let proxy = Proxy::start(bare.client.clone());
    let kubeconfig = bare.folder().join("proxy");
    std::fs::write(&kubeconfig, proxy.kubeconfig(&json!({}))).unwrap();
    let arguments: Vec<&str> = ANY_PORT.iter().chain(&SHORT).copied().collect();
    let mut leader = process::start(bare.folder(), &kubeconfig, &arguments);
    leader.wait_for_log("successfully acquired lease").await;
    bind_and_wait(&bare, "first").await;
    let before = lease(&bare).await;
    let standby = start(&bare, &SHORT);
    standby.wait_for_log("caches are filled").await;

    // Only requests for the lease get no response. New bindings are created continuously.
    proxy.rule(|request| {
        if request.path.contains("leases") {
            Fault::Silence
        } else {
            Fault::None
        }
    });
    let (client, mut number) = (bare.bindings("default"), 0);
    let work = async {
        loop {
            let next = binding(&format!("w{number}"), 1, on_cluster("m1"));
            client.create(&Default::default(), &next).await.unwrap();
            number += 1;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let (_, at) = tokio::select! {
        () = work => unreachable!(),
        next = next_holder(&bare, &before) => next,
    };
    let last = proxy
        .requests()
        .into_iter()
        .rfind(RecordedRequest::writes_a_binding)
        .unwrap()
        .at;
    assert!(
        last < at,
        "the old leader wrote {:?} after the next leader had the lease",
        last - at
    );
    assert_eq!(
        leader.wait_for_exit().await.code(),
        Some(1),
        "{}",
        leader.log()
    );
    let writes = proxy.count(RecordedRequest::writes_a_binding);
    println!(
        "a leader that could not renew its lease sent the last of {writes} writes {:.1?} before the \
         next leader had the lease",
        at - last
    );
    bare.stop().await;
}

/// The leader is paused until the standby leads, and then resumed. Each binding is placed with one write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resumed_stale_leader_overwrites_nothing() {
    let bare = BareControlPlane::start(&fleet(4)).await;
    let proxy = Proxy::start(bare.client.clone());
    proxy.rule(|_| Fault::Delay(Duration::from_millis(20)));
    let kubeconfig = bare.folder().join("proxy");
    std::fs::write(&kubeconfig, proxy.kubeconfig(&json!({}))).unwrap();
    let unlimited = ["--kube-api-qps=0"];
    let stale = ANY_PORT.iter().chain(&MODERATE).chain(&unlimited).copied();
    let mut stale = process::start(bare.folder(), &kubeconfig, &stale.collect::<Vec<_>>());
    stale.wait_for_log("successfully acquired lease").await;
    let before = lease(&bare).await;
    let arguments: Vec<&str> = MODERATE.iter().chain(&unlimited).copied().collect();
    let standby = start(&bare, &arguments);
    standby.wait_for_log("caches are filled").await;

    let bindings = mixed("w", 300);
    let expected = engine_decisions(&bare, &bindings).await;
    let paused = async {
        eventually("the first writes", async || {
            match proxy.count(RecordedRequest::writes_a_binding) {
                0..20 => Err("not yet"),
                _ => Ok(()),
            }
        })
        .await;
        stale.signal("STOP");
    };
    tokio::join!(bare.bind_all(&bindings), paused);
    let (_, at) = next_holder(&bare, &before).await;
    // The old leader is resumed while the new leader is scheduling.
    let writes = proxy.count(RecordedRequest::writes_a_binding);
    stale.signal("CONT");
    let all = wait_until_all_placed(&bare, &expected).await;
    assert_eq!(
        stale.wait_for_exit().await.code(),
        Some(1),
        "{}",
        stale.log()
    );
    let late = proxy
        .requests()
        .into_iter()
        .filter(|request| request.at > at);
    let late = late.filter(RecordedRequest::writes_a_binding).count();
    assert_each_placed_once(&all);
    println!(
        "a leader paused after {writes} writes and resumed under the next leader sent {late} more writes, \
         which changed nothing; 300 bindings were placed once each"
    );
    bare.stop().await;
}

/// A scheduler takes over a lease that a client-go program holds. The scheduler writes the lease as client-go does, and
/// releases the lease when it ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lease_has_the_format_of_client_go() {
    let bare = BareControlPlane::start(&fleet(1)).await;
    // A client-go candidate holds the lease and has just renewed it.
    let now = || {
        let now = jiff::Timestamp::now();
        json!(format!("{now:.6}"))
    };
    let foreign = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": { "name": "karmada-scheduler", "namespace": "karmada-system" },
        "spec": { "holderIdentity": "host_karmada", "leaseDurationSeconds": 2,
                  "acquireTime": now(), "renewTime": now(), "leaseTransitions": 7 },
    });
    let created: Lease = serde_json::from_value(foreign).unwrap();
    leases(&bare)
        .create(&Default::default(), &created)
        .await
        .unwrap();
    let began = Instant::now();
    let mut ours = start(&bare, &[]);
    ours.wait_for_log("successfully acquired lease").await;
    assert!(
        began.elapsed() >= Duration::from_secs(2),
        "{:?}",
        began.elapsed()
    );
    let spec = lease(&bare).await;
    let text = |field: &str| spec[field].as_str().unwrap_or_default().to_owned();
    let micro = |field: &str| {
        let text = text(field);
        let fraction = text
            .split_once('.')
            .and_then(|(_, rest)| rest.strip_suffix('Z'));
        assert_eq!(fraction.map(str::len), Some(6), "{field} {text}");
    };
    micro("acquireTime");
    micro("renewTime");
    assert_eq!(spec["leaseDurationSeconds"], json!(15));
    assert_eq!(spec["leaseTransitions"], json!(8));
    let identity = text("holderIdentity");
    let (host, id) = identity.rsplit_once('_').unwrap();
    assert!(!host.is_empty() && id.len() == 36, "{identity}");

    ours.signal("TERM");
    assert!(ours.wait_for_exit().await.success());
    let spec = lease(&bare).await;
    assert!(
        spec["holderIdentity"]
            .as_str()
            .unwrap_or_default()
            .is_empty(),
        "{spec}"
    );
    assert_eq!(spec["leaseDurationSeconds"], json!(1));
    assert_eq!(spec["leaseTransitions"], json!(8));
    bare.stop().await;
}
