//! Tests of `berth interpret` with customizations and objects in files.

use berth_test_transcripts::{Transcript, assert_snapshot};

use super::command_line::command;

const CUSTOMIZATION: &str = include_str!("rollout_customization.yaml");
const ROLLOUT: &str = "apiVersion: example.com/v1\nkind: Rollout\nspec: {size: 3, hosts: []}\n";
const ITEMS: &str = "clusterName: m1\n---\nclusterName: m2\n";

#[test]
fn scripts_are_checked_and_run() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("customization.yaml", CUSTOMIZATION),
        ("broken.yaml", &CUSTOMIZATION.replace("> 1 end", "> 1")),
        ("rollout.yaml", ROLLOUT),
        ("items.yaml", ITEMS),
    ] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let mut transcript = Transcript::new();
    for arguments in [
        "customization.yaml --check",
        "broken.yaml --check",
        "customization.yaml --operation=interpretReplica --desired-file rollout.yaml",
        "customization.yaml --operation=ReviseReplica --observed-file rollout.yaml --desired-replica=7",
        "customization.yaml --operation=aggregateStatus --observed-file rollout.yaml --status-file items.yaml",
        "customization.yaml --operation=InterpretHealth --observed-file rollout.yaml",
        "customization.yaml --operation=Retain --observed-file rollout.yaml",
        "customization.yaml --operation=Prune",
        "customization.yaml --operation=InterpretHealth",
    ] {
        let line = format!("interpret -f {arguments}");
        let words: Vec<&str> = line.split(' ').collect();
        let output = command("berth", &words).current_dir(&folder).output();
        transcript.ran(&["berth", &line], &output.unwrap());
    }
    assert_snapshot!(transcript);
}
