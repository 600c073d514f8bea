//! The folder: who may use it, and what it brings back.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams, PostParams};
use serde_json::{Value, json};

use super::Place;
use crate::program::{Up, berth, line, refused, until};

#[test]
fn a_restart_brings_members_and_objects_back() {
    let place = Place::new(&["--members=2"]);
    let up = place.start();
    if up.kubectl(&["create", "configmap", "kept"]).is_none() {
        return;
    }
    up.kubectl(&["--context=member1", "create", "configmap", "inside"])
        .unwrap();
    up.kubectl(&["annotate", "cluster", "member2", "mine=yes"])
        .unwrap();
    up.signal("-TERM");
    let mut up = up;
    let ended = until("the end", || {
        let status = up.child.try_wait().unwrap();
        status.ok_or_else(|| "it still runs".to_owned())
    });
    assert!(ended.success(), "{ended}");

    let up = place.start();
    for context in ["berth", "member1"] {
        let context = format!("--context={context}");
        let found = up.kubectl(&[&context, "get", "configmaps", "-o", "name"]);
        let wanted = if context.ends_with("berth") {
            "kept"
        } else {
            "inside"
        };
        assert!(found.unwrap().contains(wanted), "{context}");
    }
    let clusters = up.kubectl(&["get", "clusters", "-o", "json"]).unwrap();
    let clusters: Value = serde_json::from_str(&clusters).unwrap();
    assert_eq!(clusters["items"].as_array().unwrap().len(), 2);
    assert_eq!(
        clusters["items"][1]["metadata"]["annotations"]["mine"],
        "yes"
    );
    let data = up.home.path().join("data");
    assert!(
        up.log().contains(&data.display().to_string()),
        "{}",
        up.log()
    );
}

#[test]
fn only_its_owner_can_read_it() {
    let place = Place::new(&["--members=1"]);
    let up = place.start();
    let mut folders = vec![up.home.path().join("data")];
    while let Some(folder) = folders.pop() {
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&folder), 0o700, "{folder:?}");
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let secret = path
                .extension()
                .is_some_and(|e| e == "redb" || e == "key" || e == "token");
            if path.is_dir() {
                folders.push(path);
            } else if secret {
                assert_eq!(mode(&path), 0o600, "{path:?}");
            }
        }
    }
}

#[test]
fn a_folder_that_cannot_be_used_is_named() {
    let place = Place::new(&["--members=0"]);
    let up = place.start();
    let elsewhere = tempfile::tempdir().unwrap();
    let data = up.home.path().join("data").display().to_string();
    let flag = format!("--data-dir={data}");
    let said = |flag: &str| line(&refused(elsewhere.path(), &["up", "--port=0", flag]));
    let in_use = said(&flag);
    let process = format!("in use by another process ({})", up.child.id());
    assert!(
        in_use.contains(&data) && in_use.contains(&process),
        "{in_use}"
    );
    drop(up);

    fs::write(format!("{data}/berth-data.json"), r#"{"format":7}"#).unwrap();
    let newer = said(&flag);
    assert!(newer.contains("has format 7"), "{newer}");

    fs::write(elsewhere.path().join("letter.txt"), "dear").unwrap();
    let theirs = format!("--data-dir={}", elsewhere.path().display());
    let not_ours = said(&theirs);
    assert!(not_ours.contains("not Berth's"), "{not_ours}");
    let left: Vec<_> = fs::read_dir(elsewhere.path().join(".berth"))
        .unwrap()
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn fsync_needs_a_folder() {
    let home = tempfile::tempdir().unwrap();
    let output = berth(home.path(), &["up", "--fsync"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

/// A file may not get larger than this: as if the disk were full.
const FULL: usize = 12 << 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_ends_it_and_loses_nothing_acknowledged() {
    let place = Place::new(&["--members=0"]);
    let mut command = Command::new("bash");
    let script = format!("trap '' XFSZ; ulimit -f {}; exec \"$@\"", FULL / 1024);
    command
        .args(["-c", &script, "bash", env!("CARGO_BIN_EXE_berth")])
        .args(place.arguments())
        .env("HOME", place.home.path())
        .env_remove("KUBECONFIG");
    let mut up = Up::with(place.home.clone(), command);
    let maps: Api<ConfigMap> = Api::default_namespaced(place.client().await);
    let text = "x".repeat(200_000);
    let mut acknowledged = Vec::new();
    loop {
        let name = format!("m{}", acknowledged.len());
        assert!(
            acknowledged.len() * text.len() < 2 * FULL,
            "the disk is never full"
        );
        let object = json!({"metadata": {"name": name}, "data": {"text": text}});
        let object = serde_json::from_value(object).unwrap();
        match maps.create(&PostParams::default(), &object).await {
            Ok(_) => acknowledged.push(name),
            Err(kube::Error::Api(status)) => {
                assert_eq!(status.code, 500, "{status:?}");
                assert!(status.message.contains("cannot write to"), "{status:?}");
                break;
            }
            // It has ended before it could answer.
            Err(_) => break,
        }
    }
    let status = until("the end", || {
        let status = up.child.try_wait().unwrap();
        status.ok_or_else(|| "it still runs".to_owned())
    });
    assert_eq!(status.code(), Some(1));
    let log = up.log();
    let last = log.lines().last().unwrap();
    assert!(last.starts_with("error: cannot write to"), "{log}");
    assert!(last.contains("objects.redb"), "{log}");
    drop(up);

    let _up = place.start();
    let maps: Api<ConfigMap> = Api::default_namespaced(place.client().await);
    let all = maps.list(&ListParams::default()).await.unwrap();
    let names: Vec<_> = all
        .items
        .iter()
        .filter_map(|m| m.metadata.name.clone())
        .collect();
    for name in &acknowledged {
        assert!(names.contains(name), "{name} is lost");
    }
}
