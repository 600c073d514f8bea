//! Tests with data folders that earlier versions of Berth wrote. The script `hack/record-data-folder.sh` recorded these
//! folders.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use berth_test_requirements::needs;
use serde_json::Value;

use super::Installation;
use crate::program::Up;

/// Returns the paths of the recorded folders, one archive for each format.
fn recorded() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/up/persistence/data");
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

fn get(up: &Up, object: &[&str]) -> Value {
    let words = [&["get", "--output=json"], object].concat();
    serde_json::from_str(&up.kubectl(&words)).unwrap()
}

#[needs(kubectl)]
#[test]
fn data_of_every_format_is_read_and_kept() {
    let archives = recorded();
    assert!(!archives.is_empty());
    for archive in archives {
        let installation = Installation::new(&["--members=0", "--without=scheduler,controllers"]);
        let data = installation.home.path().join("data");
        fs::create_dir(&data).unwrap();
        let extracted = Command::new("tar")
            .args(["--extract", "--gzip", "--file"])
            .arg(&archive)
            .arg("--directory")
            .arg(&data)
            .output()
            .unwrap();
        assert!(extracted.status.success(), "{extracted:?}");

        let up = installation.start();
        let kept = get(&up, &["configmap", "kept"]);
        assert_eq!(kept["data"]["key"], "value", "{}", archive.display());
        assert_eq!(kept["metadata"]["labels"]["changed"], "yes");
        let web = get(&up, &["deployment", "web"]);
        assert_eq!(web["spec"]["replicas"], 2);
        let policy = get(&up, &["propagationpolicy", "web"]);
        assert_eq!(policy["spec"]["resourceSelectors"][0]["name"], "web");
        let widget = get(&up, &["widgets.example.com", "big"]);
        assert_eq!(widget["size"], 3);
        let error = up.refused(&["get", "configmap", "deleted"]);
        assert!(error.contains("NotFound"), "{error}");

        // New resource versions are higher than the recorded ones, so that a client can resume a watch.
        let version = |object: &Value| {
            let version = object["metadata"]["resourceVersion"].as_str();
            version.unwrap().parse::<u64>().unwrap()
        };
        up.kubectl(&["scale", "deployment", "web", "--replicas=3"]);
        let scaled = get(&up, &["deployment", "web"]);
        assert_eq!(scaled["metadata"]["uid"], web["metadata"]["uid"]);
        assert!(version(&scaled) > version(&web).max(version(&kept)));
        drop(up);

        let up = installation.start();
        assert_eq!(get(&up, &["deployment", "web"]), scaled);
        assert_eq!(get(&up, &["configmap", "kept"]), kept);
    }
}
