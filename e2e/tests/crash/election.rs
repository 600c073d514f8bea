//! Leader election between processes of `berth controllers`.

use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};

use berth_e2e::objects::api;
use berth_e2e::{Objects as _, eventually};

use crate::processes::Process;
use crate::scenario::{config_map, policy};
use crate::scene::{MEMBERS, Scene};

/// The arguments of the processes. The lease durations are short, so that the tests are fast, and long enough for a
/// leader on a busy machine to renew its lease.
const ARGUMENTS: [&str; 6] = [
    "controllers",
    "--metrics-bind-address=0",
    "--health-probe-bind-address=0",
    "--leader-elect-lease-duration=8s",
    "--leader-elect-renew-deadline=6s",
    "--leader-elect-retry-period=300ms",
];

fn leases(client: &Client) -> Api<Lease> {
    Api::namespaced(client.clone(), "karmada-system")
}

/// Returns the identity of the leader from the lease, or an empty string if the lease is released.
async fn holder(client: &Client) -> Result<String, String> {
    let lease = leases(client).get("karmada-controller-manager").await;
    let lease = lease.map_err(|error| error.to_string())?;
    let holder = lease.spec.and_then(|spec| spec.holder_identity);
    Ok(holder.unwrap_or_default())
}

/// Waits until the lease has a holder other than `before`, and returns the identity of this holder.
async fn next_leader(client: &Client, before: &str) -> String {
    eventually("another leader", async || {
        let holder = holder(client).await?;
        if holder.is_empty() || holder == before {
            return Err(format!("{holder:?} leads"));
        }
        Ok(holder)
    })
    .await
}

/// Waits until a ConfigMap in a member has this value.
async fn wait_for_value(member: &Client, object: &Value, value: &str) {
    eventually("the ConfigMap to arrive", async || {
        let found = value_in_member(member, object).await?;
        (found.as_deref() == Some(value))
            .then_some(())
            .ok_or_else(|| format!("{found:?}"))
    })
    .await;
}

/// Returns the value of a ConfigMap in a member, if the ConfigMap exists.
async fn value_in_member(member: &Client, object: &Value) -> Result<Option<String>, String> {
    let name = object["metadata"]["name"].as_str().unwrap();
    let api = api(member, "v1", "ConfigMap", Some("default"));
    let found = api.get_opt(name).await.map_err(|error| error.to_string())?;
    Ok(found.and_then(|object| Some(object.data["data"]["a"].as_str()?.to_owned())))
}

/// Checks that a standby becomes the leader and propagates changes, first after the leader exits, and then after the
/// next leader is killed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_takes_over_when_the_leader_exits_or_is_killed() {
    let scene = Scene::start().await;
    scene.start_scheduler();
    let mut first = Process::start("first", &scene.kubeconfig(), &ARGUMENTS);
    let leader = next_leader(&scene.client(None), "").await;
    let mut second = Process::start("second", &scene.kubeconfig(), &ARGUMENTS);
    let object = config_map("c");
    scene.apply(None, &object).await;
    scene.apply(None, &policy(&object, &MEMBERS)).await;
    wait_for_value(&scene.client(Some("member1")), &object, "1").await;

    first.program.signal("TERM");
    assert!(
        first.program.wait_for_exit().await.success(),
        "{}",
        first.program.log()
    );
    let leader = next_leader(&scene.client(None), &leader).await;
    scene
        .edit(None, &object, json!({ "data": { "a": "2" } }))
        .await;
    wait_for_value(&scene.client(Some("member1")), &object, "2").await;

    let _third = Process::start("third", &scene.kubeconfig(), &ARGUMENTS);
    second.program.kill();
    next_leader(&scene.client(None), &leader).await;
    scene
        .edit(None, &object, json!({ "data": { "a": "3" } }))
        .await;
    wait_for_value(&scene.client(Some("member1")), &object, "3").await;
    scene.stop().await;
}

/// Checks that a leader exits with status 1 when the lease names another holder.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_loses_its_lease_exits() {
    let scene = Scene::start().await;
    let mut leader = Process::start("leader", &scene.kubeconfig(), &ARGUMENTS);
    next_leader(&scene.client(None), "").await;
    // The lease names another holder and is valid for ten minutes.
    let other_holder =
        json!({ "spec": { "holderIdentity": "another process", "leaseDurationSeconds": 600 } });
    let patched = leases(&scene.client(None))
        .patch(
            "karmada-controller-manager",
            &PatchParams::default(),
            &Patch::Merge(other_holder),
        )
        .await;
    patched.unwrap();
    let status = leader.program.wait_for_exit().await;
    let log = leader.program.log();
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(log.contains("error: lost the leader election"), "{log}");
    scene.stop().await;
}

/// Returns a client for a context of a kubeconfig.
async fn client_for_context(kubeconfig: &Path, context: &str) -> Result<Client, String> {
    let options = KubeConfigOptions {
        context: Some(context.to_owned()),
        ..KubeConfigOptions::default()
    };
    let kubeconfig = Kubeconfig::read_from(kubeconfig).map_err(|error| error.to_string())?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    Client::try_from(config.map_err(|error| error.to_string())?).map_err(|error| error.to_string())
}

/// Checks that, of two processes, only the holder of the lease propagates changes after a restart of the API server.
/// When the leader is killed, the change waits until another process holds the lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exactly_one_process_leads_after_the_api_server_is_killed_and_restarted() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = format!("--port={}", free.local_addr().unwrap().port());
    drop(free);
    let data = format!("--data-dir={}", folder.path().join("data").display());
    let arguments = ["up", &port, "--members=1", &data, "--without=controllers"];
    let mut server = Process::start("up", &kubeconfig, &arguments);
    let plane = eventually("the API server", async || {
        let client = client_for_context(&kubeconfig, "berth").await?;
        let version = client.apiserver_version().await;
        version.map(|_| client).map_err(|error| error.to_string())
    })
    .await;
    let mut first = Process::start("first", &kubeconfig, &ARGUMENTS);
    let before = next_leader(&plane, "").await;
    let mut second = Process::start("second", &kubeconfig, &ARGUMENTS);
    let object = config_map("c");
    for manifest in [&object, &policy(&object, &["member1"])] {
        plane.apply(manifest.clone()).await;
    }
    let member = client_for_context(&kubeconfig, "member1").await.unwrap();
    wait_for_value(&member, &object, "1").await;

    server.kill_and_restart();
    let set = async |value: &str| {
        let changed = json!({ "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": object["metadata"], "data": { "a": value } });
        eventually("the ConfigMap to be changed", async || {
            plane.try_apply(&changed).await
        })
        .await;
    };
    set("2").await;
    let member = client_for_context(&kubeconfig, "member1").await.unwrap();
    wait_for_value(&member, &object, "2").await;
    assert!(
        server.program.exit_status().is_none(),
        "{}",
        server.program.log()
    );

    // Until the lease of the dead leader expires, only a process that leads without the lease could propagate a change.
    let leader = next_leader(&plane, "").await;
    if leader == before {
        assert!(
            second.program.exit_status().is_none(),
            "{}",
            second.program.log()
        );
        first.program.kill();
    } else {
        assert!(
            first.program.exit_status().is_some(),
            "{}",
            first.program.log()
        );
        second.program.kill();
        first.kill_and_restart();
    }
    set("3").await;
    eventually("another leader", async || {
        let found = value_in_member(&member, &object).await?;
        let holder = holder(&plane).await?;
        if holder != leader {
            return Ok(());
        }
        assert_eq!(
            found.as_deref(),
            Some("2"),
            "a process propagated the change without the lease"
        );
        Err(format!("{holder:?} leads"))
    })
    .await;
    wait_for_value(&member, &object, "3").await;
}
