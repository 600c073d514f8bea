//! Two `berth controllers`, of which one works.

use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};

use berth_e2e::eventually;
use berth_e2e::eventually::never;

use crate::processes::Process;
use crate::scene::{self, MEMBERS, Scene};
use crate::state;
use crate::story::{config_map, policy};

/// Short, and yet so long that a leader on a machine with other things to do keeps its office.
const ARGUMENTS: [&str; 4] = [
    "controllers",
    "--leader-elect-lease-duration=8s",
    "--leader-elect-renew-deadline=6s",
    "--leader-elect-retry-period=300ms",
];

fn leases(client: &Client) -> Api<Lease> {
    Api::namespaced(client.clone(), "karmada-system")
}

/// Waits until somebody else than this one leads, and returns who.
async fn next_leader(client: &Client, before: &str) -> String {
    eventually("another leader", async || {
        let lease = leases(client).get("karmada-controller-manager").await;
        let lease = lease.map_err(|error| error.to_string())?;
        let holder = lease.spec.and_then(|spec| spec.holder_identity);
        let holder = holder.unwrap_or_default();
        if holder.is_empty() || holder == before {
            return Err(format!("{holder:?} leads"));
        }
        Ok(holder)
    })
    .await
}

/// Waits until a ConfigMap is in a member with this value.
async fn arrives(member: &Client, object: &Value, value: &str) {
    eventually("the ConfigMap to arrive", async || {
        let found = content(member, object).await?;
        (found.as_deref() == Some(value))
            .then_some(())
            .ok_or_else(|| format!("{found:?}"))
    })
    .await;
}

/// The value of a ConfigMap in a member, where it is there.
async fn content(member: &Client, object: &Value) -> Result<Option<String>, String> {
    let name = object["metadata"]["name"].as_str().unwrap();
    let api = state::api(member.clone(), "v1", "ConfigMap", Some("default"));
    let found = api.get_opt(name).await.map_err(|error| error.to_string())?;
    Ok(found.and_then(|object| Some(object.data["data"]["a"].as_str()?.to_owned())))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_takes_over_when_the_leader_ends_or_is_killed() {
    let scene = Scene::start().await;
    scene.start_scheduler();
    let mut first = Process::start("first", &scene.kubeconfig(), &ARGUMENTS);
    let leader = next_leader(&scene.client(None), "").await;
    let mut second = Process::start("second", &scene.kubeconfig(), &ARGUMENTS);
    let object = config_map("c");
    scene.apply(None, &object).await;
    scene.apply(None, &policy(&object, &MEMBERS)).await;
    arrives(&scene.client(Some("member1")), &object, "1").await;

    first.terminate();
    assert!(first.ended().await.success(), "{}", first.log());
    let leader = next_leader(&scene.client(None), &leader).await;
    scene
        .edit(None, &object, json!({ "data": { "a": "2" } }))
        .await;
    arrives(&scene.client(Some("member1")), &object, "2").await;

    let _third = Process::start("third", &scene.kubeconfig(), &ARGUMENTS);
    second.end();
    next_leader(&scene.client(None), &leader).await;
    scene
        .edit(None, &object, json!({ "data": { "a": "3" } }))
        .await;
    arrives(&scene.client(Some("member1")), &object, "3").await;
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_has_lost_its_office_ends() {
    let scene = Scene::start().await;
    let mut leader = Process::start("leader", &scene.kubeconfig(), &ARGUMENTS);
    next_leader(&scene.client(None), "").await;
    // Somebody else has taken it: the lease is fresh, and bears another name.
    let usurped =
        json!({ "spec": { "holderIdentity": "somebody else", "leaseDurationSeconds": 600 } });
    let taken = leases(&scene.client(None))
        .patch(
            "karmada-controller-manager",
            &PatchParams::default(),
            &Patch::Merge(usurped),
        )
        .await;
    taken.unwrap();
    let status = leader.ended().await;
    let log = leader.log();
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(log.contains("error: lost the leader election"), "{log}");
    scene.stop().await;
}

/// A client by a context of a kubeconfig.
async fn client(kubeconfig: &Path, context: &str) -> Result<Client, String> {
    let options = KubeConfigOptions {
        context: Some(context.to_owned()),
        ..KubeConfigOptions::default()
    };
    let kubeconfig = Kubeconfig::read_from(kubeconfig).map_err(|error| error.to_string())?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    Client::try_from(config.map_err(|error| error.to_string())?).map_err(|error| error.to_string())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exactly_one_leads_after_the_api_server_was_killed_and_started_again() {
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
        let client = client(&kubeconfig, "berth").await?;
        let version = client.apiserver_version().await;
        version.map(|_| client).map_err(|error| error.to_string())
    })
    .await;
    let mut first = Process::start("first", &kubeconfig, &ARGUMENTS);
    let before = next_leader(&plane, "").await;
    let mut second = Process::start("second", &kubeconfig, &ARGUMENTS);
    let object = config_map("c");
    for manifest in [&object, &policy(&object, &["member1"])] {
        scene::apply(plane.clone(), manifest).await.unwrap();
    }
    let member = client(&kubeconfig, "member1").await.unwrap();
    arrives(&member, &object, "1").await;

    server.kill_and_start();
    let set = async |value: &str| {
        let changed = json!({ "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": object["metadata"], "data": { "a": value } });
        eventually("the ConfigMap to be changed", async || {
            scene::apply(plane.clone(), &changed)
                .await
                .map_err(|error| error.to_string())
        })
        .await;
    };
    set("2").await;
    let member = client(&kubeconfig, "member1").await.unwrap();
    arrives(&member, &object, "2").await;
    assert!(server.runs(), "{}", server.log());

    // If both led, the other one would carry out a change although the leader is dead and its lease valid.
    let leader = next_leader(&plane, "").await;
    if leader == before {
        assert!(second.runs(), "{}", second.log());
        first.end();
    } else {
        assert!(!first.runs(), "{}", first.log());
        second.end();
        first.kill_and_start();
    }
    set("3").await;
    never("a second leader", Duration::from_secs(3), async || {
        let found = content(&member, &object).await?;
        (found.as_deref() == Some("2"))
            .then_some(())
            .ok_or_else(|| format!("{found:?}"))
    })
    .await;
    next_leader(&plane, &leader).await;
    arrives(&member, &object, "3").await;
}
