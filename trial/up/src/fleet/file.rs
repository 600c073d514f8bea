//! The parser of fleet files. A fleet file contains Cluster manifests in YAML or JSON, as single documents or as Lists
//! in the format of `kubectl get clusters -o yaml`. Errors contain the number of the invalid document.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use berth_api::Cluster;
use berth_api::go_zero::is_empty;
use berth_api::names::cluster_name;
use berth_api::quantity::Quantity;
use kube::api::ObjectMeta;
use serde_json::{Value, json};

use crate::kubeconfig::CONTEXT;

/// Maximum number of nodes of a cluster.
const MAX_NODES: i32 = 5_000;

/// An error of reading a fleet file.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// The file cannot be read.
    #[error("cannot read the fleet file {path}: {source}", path = .path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        source: std::io::Error,
    },
    /// The file contains no Cluster.
    #[error("fleet file {path}: there is no Cluster in it; `--members 0` starts without members", path = .0.display())]
    Empty(PathBuf),
    /// The file is not valid YAML.
    #[error("fleet file {path}: {reason}", path = .path.display())]
    Syntax {
        /// Path of the file.
        path: PathBuf,
        /// Description and position of the error.
        reason: String,
    },
    /// A document is not a valid Cluster manifest.
    #[error("fleet file {path}, document {document}: {reason}", path = .path.display())]
    Document {
        /// Path of the file.
        path: PathBuf,
        /// Number of the document, from 1.
        document: usize,
        /// Description of the error.
        reason: String,
    },
}

/// Reads a fleet file.
///
/// # Errors
/// Fails if the file cannot be read, if it contains no Cluster, or if a document is not a valid Cluster or repeats a
/// name.
pub fn read(path: &Path) -> Result<Vec<Cluster>, FleetError> {
    let text = std::fs::read_to_string(path).map_err(|source| FleetError::Read {
        path: path.to_owned(),
        source,
    })?;
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(&text).map_err(|error| FleetError::Syntax {
            path: path.to_owned(),
            reason: one_line(&error.to_string()),
        })?;
    let fleet = clusters(documents).map_err(|(document, reason)| FleetError::Document {
        path: path.to_owned(),
        document,
        reason,
    })?;
    if fleet.is_empty() {
        return Err(FleetError::Empty(path.to_owned()));
    }
    Ok(fleet)
}

/// Returns the clusters of all documents. The error is the number of an invalid document, and the reason.
fn clusters(documents: Vec<Value>) -> Result<Vec<Cluster>, (usize, String)> {
    let mut names = BTreeSet::new();
    let mut fleet = Vec::new();
    for (index, document) in documents.into_iter().enumerate() {
        let error = |reason| (index + 1, reason);
        for object in objects(document) {
            let cluster = cluster(object).map_err(error)?;
            let name = cluster.metadata.name.clone().unwrap_or_default();
            if !names.insert(name.clone()) {
                return Err(error(format!("the name {name:?} is used twice")));
            }
            fleet.push(cluster);
        }
    }
    Ok(fleet)
}

/// Returns the objects of a document: none for an empty document, the items of a List, or else the document itself.
fn objects(mut document: Value) -> Vec<Value> {
    if document.is_null() {
        return Vec::new();
    }
    let kind = document["kind"].as_str().unwrap_or_default();
    match document.get("items") {
        Some(Value::Array(_)) if kind.ends_with("List") => match document["items"].take() {
            Value::Array(items) => items,
            _ => Vec::new(),
        },
        _ => vec![document],
    }
}

fn cluster(mut object: Value) -> Result<Cluster, String> {
    match (object["apiVersion"].as_str(), object["kind"].as_str()) {
        (Some("cluster.karmada.io/v1alpha1"), Some("Cluster")) => {}
        (Some(version), Some(kind)) => {
            return Err(format!(
                "is a {version} {kind}, not a cluster.karmada.io/v1alpha1 Cluster"
            ));
        }
        _ => {
            return Err(
                "is no manifest: it should begin with `apiVersion: cluster.karmada.io/v1alpha1` and `kind: Cluster`"
                    .to_owned(),
            );
        }
    }
    // A missing name is reported by `check`, also if all metadata is missing.
    if let Value::Object(fields) = &mut object {
        fields.entry("metadata").or_insert_with(|| json!({}));
    }
    let mut cluster: Cluster =
        serde_json::from_value(object.clone()).map_err(|error| error.to_string())?;
    let decoded = serde_json::to_value(&cluster).map_err(|error| error.to_string())?;
    if let Some(field) = unknown_field(&object, &decoded) {
        return Err(format!("unknown field {field:?}"));
    }
    // A manifest from another server has metadata of that server, such as the UID. Only the user's metadata is kept.
    cluster.metadata = ObjectMeta {
        name: cluster.metadata.name,
        labels: cluster.metadata.labels,
        annotations: cluster.metadata.annotations,
        ..ObjectMeta::default()
    };
    check(&cluster)?;
    Ok(cluster)
}

/// Validates the values of a manifest.
fn check(cluster: &Cluster) -> Result<(), String> {
    let name = cluster.metadata.name.as_deref().unwrap_or_default();
    if name.is_empty() {
        return Err("metadata.name is missing".to_owned());
    }
    cluster_name(name).map_err(|why| format!("metadata.name {name:?} {why}"))?;
    if name == CONTEXT {
        return Err(format!(
            "a member cannot have the name {CONTEXT}: that is the context of the control plane"
        ));
    }
    let status = cluster.status.clone().unwrap_or_default();
    let nodes = status.node_summary.unwrap_or_default();
    for (field, number) in [("totalNum", nodes.total_num), ("readyNum", nodes.ready_num)] {
        let number = number.unwrap_or_default();
        if !(0..=MAX_NODES).contains(&number) {
            return Err(format!(
                "status.nodeSummary.{field} is {number}: a cluster has 0 to {MAX_NODES} nodes"
            ));
        }
    }
    if let (Some(total), Some(ready)) = (nodes.total_num, nodes.ready_num)
        && ready > total
    {
        return Err(format!(
            "status.nodeSummary: {ready} of {total} nodes cannot be ready"
        ));
    }
    let summary = status.resource_summary.unwrap_or_default();
    for (list, amounts) in [
        ("allocatable", summary.allocatable),
        ("allocated", summary.allocated),
    ] {
        for (resource, text) in amounts {
            let field = format!("status.resourceSummary.{list}.{resource}");
            let amount = text.parse().map_err(|why| format!("{field}: {why}"))?;
            if amount < Quantity::default() {
                return Err(format!("{field} is negative: {}", text.0));
            }
        }
    }
    Ok(())
}

/// Returns the path of the first field of a manifest that the decoded Cluster lacks. Fields with empty values are
/// ignored.
fn unknown_field(manifest: &Value, decoded: &Value) -> Option<String> {
    match (manifest, decoded) {
        (Value::Object(manifest), Value::Object(decoded)) => {
            manifest
                .iter()
                .find_map(|(key, value)| match decoded.get(key) {
                    Some(known) => unknown_field(value, known).map(|rest| format!("{key}.{rest}")),
                    None if is_empty(value) => None,
                    None => Some(key.clone()),
                })
        }
        (Value::Array(manifest), Value::Array(decoded)) => manifest
            .iter()
            .zip(decoded)
            .find_map(|(value, known)| unknown_field(value, known)),
        _ => None,
    }
}

/// Returns the first line of a parser's message, without its prefix `error: `.
fn one_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default().trim();
    line.trim_start_matches("error: ").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::generate;

    const GOOD: &str = "apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: m}
spec: {syncMode: Push}
status:
  nodeSummary: {totalNum: 2, readyNum: 2}
  resourceSummary: {allocatable: {cpu: 4}}
";

    fn parse(text: &str) -> Result<Vec<Cluster>, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fleet.yaml");
        std::fs::write(&path, text).unwrap();
        read(&path).map_err(|error| error.to_string())
    }

    #[test]
    fn the_example_equals_the_default_fleet() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/fleet.yaml");
        assert_eq!(read(&path).unwrap(), generate(3));
    }

    #[test]
    fn an_error_names_the_invalid_document() {
        let cases = [
            (
                "kind: Pod\napiVersion: v1\n".to_owned(),
                "document 1: is a v1 Pod, not a cluster.karmada.io/v1alpha1 Cluster",
            ),
            (
                format!("{GOOD}---\n{GOOD}"),
                "document 2: the name \"m\" is used twice",
            ),
            (
                format!("{GOOD}---\n{}", GOOD.replace("metadata: {name: m}\n", "")),
                "document 2: metadata.name is missing",
            ),
            (
                GOOD.replace("syncMode: Push", ""),
                "document 1: missing field `syncMode`",
            ),
            (
                GOOD.replace("Push", "Push, regoin: eu"),
                "document 1: unknown field \"spec.regoin\"",
            ),
            ("hello\n".to_owned(), "document 1: is no manifest"),
            ("[]\n".to_owned(), "document 1: is no manifest"),
            ("{\n".to_owned(), "fleet.yaml: line 1"),
            (String::new(), "there is no Cluster in it"),
            ("---\n---\n".to_owned(), "there is no Cluster in it"),
        ];
        for (text, expected) in cases {
            let message = parse(&text).unwrap_err();
            assert!(message.contains(expected), "{message}\n{text}");
            assert_eq!(message.lines().count(), 1, "{message}");
        }
    }

    #[test]
    fn an_error_names_the_invalid_field() {
        for (valid, invalid, expected) in [
            (
                "name: m",
                "name: A_B",
                "metadata.name \"A_B\" must consist of",
            ),
            (
                "name: m",
                "name: berth",
                "a member cannot have the name berth",
            ),
            (
                "totalNum: 2",
                "totalNum: -2",
                "status.nodeSummary.totalNum is -2",
            ),
            ("totalNum: 2", "totalNum: 1000000", "has 0 to 5000 nodes"),
            ("totalNum: 2", "totalNum: 1", "2 of 1 nodes cannot be ready"),
            (
                "cpu: 4",
                "cpu: lots",
                "status.resourceSummary.allocatable.cpu: \"lots\" is not a quantity",
            ),
            (
                "cpu: 4",
                "cpu: -4",
                "status.resourceSummary.allocatable.cpu is negative: -4",
            ),
        ] {
            let message = parse(&GOOD.replace(valid, invalid)).unwrap_err();
            assert!(message.contains(expected), "{message}");
        }
    }

    #[test]
    fn a_list_from_another_server_is_a_fleet() {
        let text = r#"{"apiVersion": "v1", "kind": "List", "items": [{
            "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
            "metadata": {"name": "m", "uid": "u", "resourceVersion": "7", "generation": 2, "labels": {"a": "b"},
                "creationTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["karmada.io/cluster-controller"]},
            "spec": {"syncMode": "Push"}}]}"#;
        let fleet = parse(text).unwrap();
        let metadata = serde_json::to_value(&fleet[0].metadata).unwrap();
        assert_eq!(
            metadata,
            serde_json::json!({"name": "m", "labels": {"a": "b"}})
        );
    }

    #[test]
    fn crlf_and_a_byte_order_mark_are_accepted() {
        let expected = parse(GOOD).unwrap();
        assert_eq!(parse(&GOOD.replace('\n', "\r\n")).unwrap(), expected);
        assert_eq!(parse(&format!("\u{feff}{GOOD}")).unwrap(), expected);
    }
}
