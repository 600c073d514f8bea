//! A test of the memory and disk use of `berth up --data-dir` after many updates of one object.

use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use serde_json::json;

use super::Installation;

/// Size of the object in bytes. A few hundred updates of this size fill the server's history of watch events.
const SIZE: usize = 100_000;

/// Returns the resident memory of a process in MiB.
fn resident(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib: u64 = line
        .unwrap()
        .trim()
        .trim_end_matches(" kB")
        .parse()
        .unwrap();
    kib / 1024
}

async fn update(maps: &Api<ConfigMap>, rounds: std::ops::Range<usize>) {
    for round in rounds {
        let change = Patch::Merge(json!({"data": {"round": round.to_string()}}));
        maps.patch("a", &PatchParams::default(), &change)
            .await
            .unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn updates_do_not_accumulate_in_memory_or_on_disk() {
    let installation = Installation::new(&["--members=0"]);
    let up = installation.start();
    let maps: Api<ConfigMap> = Api::default_namespaced(installation.client().await);
    let object = json!({"metadata": {"name": "a"}, "data": {"text": "x".repeat(SIZE)}});
    let object = serde_json::from_value(object).unwrap();
    let first = maps.create(&PostParams::default(), &object).await.unwrap();

    update(&maps, 0..600).await;
    let early = resident(up.child.id());
    // If the server kept these updates, they would take 100 MB.
    update(&maps, 600..1600).await;
    let late = resident(up.child.id());
    assert!(late < early + 40, "memory: {early} MiB, then {late} MiB");
    let file = up.home.path().join("data/control-plane/objects.redb");
    let size = std::fs::metadata(file).unwrap().len() >> 20;
    assert!(size < 40, "the database has grown to {size} MiB");

    let from = first.metadata.resource_version.unwrap();
    let stream = maps.watch(&WatchParams::default(), &from).await.unwrap();
    match stream.boxed().try_next().await.unwrap() {
        Some(WatchEvent::Error(status)) => assert_eq!(status.code, 410),
        other => panic!("{other:?}"),
    }
}
