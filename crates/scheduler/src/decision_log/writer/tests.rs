//! Tests of the written files: their size, their number, their content, and the reading of truncated files.

use berth_api::Cluster;
use berth_engine::{Assumed, AssumedWorkload, ResourceRequest};
use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::decision_log::reader::{ReadError, Reader, files_of};

fn options(folder: &TempDir, max_bytes: u64, max_files: u32) -> DecisionLogOptions {
    DecisionLogOptions {
        folder: folder.path().to_owned(),
        max_bytes,
        max_files,
    }
}

fn cluster(pods: u32) -> Message {
    let object: Cluster = serde_json::from_value(json!({
        "metadata": { "name": "m1", "resourceVersion": pods.to_string() },
        "spec": { "syncMode": "Push" },
        "status": { "resourceSummary": { "allocatable": { "pods": pods.to_string() } } },
    }))
    .unwrap();
    Message::Cluster("m1".to_owned(), Some(Arc::new(object)))
}

fn decision(name: &str, assumed: &[(&str, i32)]) -> Message {
    let mut workloads = Assumed::default();
    for (cluster, replicas) in assumed {
        let components = vec![(*replicas, ResourceRequest::default())];
        workloads.add(cluster, AssumedWorkload { components });
    }
    let decision = RecordedDecision::about_config_map("shop", name, workloads);
    Message::Decision(Arc::new(decision))
}

fn write(options: DecisionLogOptions, messages: impl IntoIterator<Item = Message>) {
    let mut writer = Writer::create(options, DroppedDecisions::default()).unwrap();
    for message in messages {
        writer.handle(message);
    }
    let (sender, receiver) = std::sync::mpsc::sync_channel(1);
    drop(sender);
    writer.run(&receiver);
}

fn describe(entry: &Entry) -> String {
    match entry {
        Entry::Header(_) => "header".to_owned(),
        Entry::Configuration(_) => "configuration".to_owned(),
        Entry::Cluster(object) => format!(
            "cluster with {}",
            object["status"]["resourceSummary"]["allocatable"]["pods"]
        ),
        Entry::ClusterPatch(change) => format!("patch {}", change.patch),
        Entry::ClusterDeleted(name) => format!("{name} deleted"),
        Entry::ClusterScore(object) => format!("scores {}", object["spec"]["scores"]),
        Entry::ClusterScoreDeleted(name) => format!("score {name} deleted"),
        Entry::Decision(decision) => {
            let assumed: Vec<String> = decision
                .assumed
                .iter()
                .map(|(name, workloads)| format!("{name}:{}", workloads.len()))
                .collect();
            format!("{} [{}]", decision.binding.0.key, assumed.join(" "))
        }
        Entry::Gap(gap) => format!("gap of {}", gap.dropped),
        Entry::Case(case) => case.id.clone(),
    }
}

/// Returns the described entries of a file, and whether it is truncated.
fn read(path: &std::path::Path) -> (Vec<String>, bool) {
    let mut reader = Reader::open(path).unwrap();
    let mut entries = Vec::new();
    while let Some(entry) = reader.next_entry().unwrap() {
        entries.push(describe(&entry));
    }
    (entries, reader.is_truncated())
}

#[test]
fn only_changes_of_clusters_and_assumed_workloads_are_written() {
    let folder = TempDir::new().unwrap();
    write(
        options(&folder, 1 << 20, 2),
        [
            cluster(10),
            cluster(10),
            cluster(20),
            decision("a", &[("m1", 1)]),
            decision("b", &[("m1", 1), ("m2", 2)]),
            decision("c", &[("m2", 2)]),
            Message::Cluster("m1".to_owned(), None),
            Message::Cluster("m1".to_owned(), None),
        ],
    );
    let files = files_of(&[folder.path().to_owned()]).unwrap();
    let (entries, truncated) = read(&files[0]);
    assert_eq!(
        entries,
        [
            "header",
            "cluster with \"10\"",
            r#"patch {"status":{"resourceSummary":{"allocatable":{"pods":"20"}}}}"#,
            "shop/a [m1:1]",
            "shop/b [m2:1]",
            "shop/c [m1:0]",
            "m1 deleted",
        ]
    );
    assert!(!truncated);
}

#[test]
fn scores_are_written_when_they_change_and_at_the_start_of_a_file() {
    let score = |value: Option<u32>| {
        let object = value.map(|value| {
            let object = json!({ "metadata": { "name": "a" },
                "spec": { "clusterName": "m1", "scores": { "carbon": value } } });
            Arc::new(serde_json::from_value(object).unwrap())
        });
        Message::Score("a".to_owned(), object)
    };
    let folder = TempDir::new().unwrap();
    let messages = [score(Some(1)), score(Some(1)), score(Some(2)), score(None)];
    write(options(&folder, 1 << 20, 2), messages);
    let files = files_of(&[folder.path().to_owned()]).unwrap();
    let changes = [
        "header",
        r#"scores {"carbon":1.0}"#,
        r#"scores {"carbon":2.0}"#,
        "score a deleted",
    ];
    assert_eq!(read(&files[0]).0, changes);

    let folder = TempDir::new().unwrap();
    write(
        options(&folder, 1, 2),
        [score(Some(1)), decision("web", &[])],
    );
    let files = files_of(&[folder.path().to_owned()]).unwrap();
    let entries = read(&files[0]).0;
    assert_eq!(entries[..2], ["header", r#"scores {"carbon":1.0}"#]);
}

#[test]
fn files_are_bounded_and_each_starts_with_the_complete_state() {
    let folder = TempDir::new().unwrap();
    // Every message fills a file: the maximum size is one byte, and the gzip header alone is larger.
    let decisions = (0..10).map(|n| decision(&format!("web-{n}"), &[("m1", 1)]));
    write(
        options(&folder, 1, 3),
        [cluster(10)].into_iter().chain(decisions),
    );
    let files = files_of(&[folder.path().to_owned()]).unwrap();
    assert_eq!(files.len(), 3);
    let (entries, _) = read(&files[0]);
    assert_eq!(
        entries,
        ["header", "cluster with \"10\"", "shop/web-8 [m1:1]"]
    );
}

#[test]
fn the_complete_entries_of_a_truncated_file_are_read() {
    let folder = TempDir::new().unwrap();
    let decisions = (0..500).map(|n| decision(&format!("web-{n}"), &[]));
    write(options(&folder, 1 << 20, 2), decisions);
    let path = files_of(&[folder.path().to_owned()]).unwrap().remove(0);
    let complete = std::fs::read(&path).unwrap();
    let mut lengths = Vec::new();
    for kept in [complete.len() - 1, complete.len() / 2, 12, 3, 0] {
        std::fs::write(&path, &complete[..kept]).unwrap();
        let (entries, truncated) = read(&path);
        assert!(truncated, "a file of {kept} bytes is truncated");
        lengths.push(entries.len());
    }
    assert_eq!(
        lengths[0], 501,
        "a file that lacks only its last byte has all entries"
    );
    assert!((2..501).contains(&lengths[1]), "{lengths:?}");
    assert_eq!(lengths[2..], [0, 0, 0]);

    // A malformed line is an error, in contrast to a truncated file.
    std::fs::write(&path, "{\"decision\":7}\n").unwrap();
    let error = Reader::open(&path).unwrap().next_entry().unwrap_err();
    assert!(matches!(error, ReadError::Line { line: 1, .. }), "{error}");
}

#[test]
fn merge_patches_change_old_to_new() {
    for (old, new) in [
        (
            json!({ "a": 1, "b": { "c": [1] } }),
            json!({ "b": { "c": [2], "d": 1 } }),
        ),
        (json!({ "a": { "b": 1 } }), json!({ "a": 2 })),
        (json!({ "a": 2 }), json!({ "a": { "b": 1 } })),
    ] {
        let patch = merge_diff(&old, &new).unwrap();
        let mut patched = old;
        json_patch::merge(&mut patched, &patch);
        assert_eq!(patched, new);
    }
    assert_eq!(merge_diff(&json!({ "a": 1 }), &json!({ "a": 1 })), None);
}
