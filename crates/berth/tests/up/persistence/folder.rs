//! Tests of the folder of `--data-dir`: restart, permissions, unusable folders, a full disk and damaged credentials.

use berth_test_requirements::needs;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams, PostParams};
use serde_json::{Value, json};

use super::{Installation, TIMEOUT};
use crate::program::{Up, berth, line, refused, until};

#[needs(kubectl)]
#[test]
fn members_and_objects_exist_after_a_restart() {
    let installation = Installation::new(&["--members=2"]);
    let up = installation.start();
    up.kubectl(&["create", "configmap", "kept"]);
    up.kubectl(&["--context=member1", "create", "configmap", "inside"]);
    up.kubectl(&["annotate", "cluster", "member2", "mine=yes"]);
    up.signal("-TERM");
    let mut up = up;
    let ended = until("the end", || {
        let status = up.child.try_wait().unwrap();
        status.ok_or_else(|| "it still runs".to_owned())
    });
    assert!(ended.success(), "{ended}");

    let up = installation.start();
    for context in ["berth", "member1"] {
        let context = format!("--context={context}");
        let found = up.kubectl(&[&context, "get", "configmaps", "-o", "name"]);
        let expected = if context.ends_with("berth") {
            "kept"
        } else {
            "inside"
        };
        assert!(found.contains(expected), "{context}");
    }
    let clusters = up.kubectl(&["get", "clusters", "-o", "json"]);
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
fn only_the_owner_can_read_the_data_folder() {
    let installation = Installation::new(&["--members=1"]);
    let up = installation.start();
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
fn the_error_about_an_unusable_folder_contains_the_folder_and_the_reason() {
    let installation = Installation::new(&["--members=0"]);
    let up = installation.start();
    let other_home = tempfile::tempdir().unwrap();
    let data = up.home.path().join("data").display().to_string();
    let flag = format!("--data-dir={data}");
    let refusal = |flag: &str| line(&refused(other_home.path(), &["up", "--port=0", flag]));
    let in_use = refusal(&flag);
    let process = format!("in use by another process ({})", up.child.id());
    assert!(
        in_use.contains(&data) && in_use.contains(&process),
        "{in_use}"
    );
    drop(up);

    fs::write(format!("{data}/berth-data.json"), r#"{"format":7}"#).unwrap();
    let newer = refusal(&flag);
    assert!(newer.contains("has format 7"), "{newer}");

    fs::write(other_home.path().join("letter.txt"), "dear").unwrap();
    let theirs = format!("--data-dir={}", other_home.path().display());
    let not_ours = refusal(&theirs);
    assert!(not_ours.contains("contains other files"), "{not_ours}");
    let left: Vec<_> = fs::read_dir(other_home.path().join(".berth"))
        .unwrap()
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn fsync_requires_a_data_folder() {
    let home = tempfile::tempdir().unwrap();
    let output = berth(home.path(), &["up", "--fsync"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

/// Maximum file size in bytes. Writes beyond this limit fail, as on a full disk.
const FILE_SIZE_LIMIT: usize = 12 << 20;

/// Sets the maximum file size of a process. Reports whether this succeeded.
fn set_file_size_limit(process: u32, size: &str) -> bool {
    let limit = format!("--fsize={size}:unlimited");
    let pid = format!("--pid={process}");
    let changed = Command::new("prlimit").args([pid, limit]).status();
    changed.is_ok_and(|status| status.success())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_fail_while_the_disk_is_full_and_succeed_again_afterwards() {
    let installation = Installation::new(&["--members=1"]);
    let mut command = Command::new("bash");
    // Without the trap, a write beyond the limit would kill the process with a signal. With it, the write fails.
    let script = "trap '' XFSZ; exec \"$@\"";
    command
        .args(["-c", script, "bash", env!("CARGO_BIN_EXE_berth")])
        .args(installation.arguments())
        .env("HOME", installation.home.path())
        .env_remove("KUBECONFIG");
    let mut up = Up::with(installation.home.clone(), command);
    let maps: Api<ConfigMap> = Api::default_namespaced(installation.client().await);
    let text = "x".repeat(200_000);
    let create = async |name: &str| {
        let object = json!({"metadata": {"name": name}, "data": {"text": text}});
        let object = serde_json::from_value(object).unwrap();
        maps.create(&PostParams::default(), &object).await
    };
    let process = up.child.id();
    if !set_file_size_limit(process, &FILE_SIZE_LIMIT.to_string()) {
        return;
    }
    let mut acknowledged = Vec::new();
    loop {
        let name = format!("m{}", acknowledged.len());
        assert!(
            acknowledged.len() * text.len() < 2 * FILE_SIZE_LIMIT,
            "the disk is never full"
        );
        match create(&name).await {
            Ok(_) => acknowledged.push(name),
            Err(kube::Error::Api(status)) => {
                assert_eq!(status.code, 507, "{status:?}");
                let named = status.message.starts_with("cannot write to");
                assert!(
                    named && status.message.contains("objects.redb"),
                    "{status:?}"
                );
                break;
            }
            Err(other) => panic!("{other}"),
        }
    }
    let listed = async |maps: &Api<ConfigMap>| -> Vec<String> {
        let all = maps.list(&ListParams::default()).await.unwrap();
        let names = all.items.into_iter().filter_map(|map| map.metadata.name);
        let mut names: Vec<String> = names.filter(|name| name.starts_with('m')).collect();
        names.sort();
        names
    };
    acknowledged.sort();
    assert_eq!(
        listed(&maps).await,
        acknowledged,
        "the listed objects differ from the acknowledged writes while the disk is full"
    );
    assert!(up.child.try_wait().unwrap().is_none(), "{}", up.log());

    assert!(set_file_size_limit(process, "unlimited"));
    let end = Instant::now() + TIMEOUT;
    while let Err(refused) = create("more").await {
        assert!(Instant::now() < end, "{refused}: {}", up.log());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    acknowledged.push("more".to_owned());
    acknowledged.sort();
    assert_eq!(listed(&maps).await, acknowledged);
    drop(up);

    let _up = installation.start();
    let maps: Api<ConfigMap> = Api::default_namespaced(installation.client().await);
    assert_eq!(listed(&maps).await, acknowledged);
}

#[test]
fn the_error_about_damaged_credentials_contains_the_file() {
    let installation = Installation::new(&["--members=0"]);
    drop(installation.start());
    let folder = installation
        .home
        .path()
        .join("data/control-plane/credentials");
    for name in ["admin.token", "ca.key", "ca.crt", "service-account.key"] {
        let path = folder.join(name);
        let whole = fs::read(&path).unwrap();
        for left in [0, whole.len() / 2] {
            fs::write(&path, &whole[..left]).unwrap();
            let message = line(&refused(
                installation.home.path(),
                &installation.arguments(),
            ));
            let path = path.display().to_string();
            assert!(message.contains(&path), "{message}");
            assert!(message.contains("put the file back"), "{message}");
        }
        fs::write(&path, &whole).unwrap();
    }
    drop(installation.start());
}
