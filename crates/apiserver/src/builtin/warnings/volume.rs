//! What clients are warned of about storage: kinds of volumes that are gone, files in each other's place, and parts of
//! bytes.

use std::fmt;

use serde_json::Value;

use super::{each, node_terms, old_label, text};

/// Kinds of volumes that are out of date: the field, its name in Go, and since when.
const GONE: [(&str, &str, &str); 9] = [
    (
        "photonPersistentDisk",
        "photonPersistentDisk",
        "deprecated in v1.11, non-functional in v1.16+",
    ),
    (
        "gitRepo",
        "gitRepo",
        "deprecated in v1.11, and disabled by default in v1.33+",
    ),
    (
        "scaleIO",
        "scaleIO",
        "deprecated in v1.16, non-functional in v1.22+",
    ),
    (
        "flocker",
        "flocker",
        "deprecated in v1.22, non-functional in v1.25+",
    ),
    (
        "storageos",
        "storageOS",
        "deprecated in v1.22, non-functional in v1.25+",
    ),
    (
        "quobyte",
        "quobyte",
        "deprecated in v1.22, non-functional in v1.25+",
    ),
    (
        "glusterfs",
        "glusterfs",
        "deprecated in v1.25, non-functional in v1.26+",
    ),
    (
        "cephfs",
        "cephfs",
        "deprecated in v1.28, non-functional in v1.31+",
    ),
    (
        "rbd",
        "rbd",
        "deprecated in v1.28, non-functional in v1.31+",
    ),
];
/// Those that nothing is said of where a volume is an object of its own.
const ONLY_IN_PODS: [&str; 2] = ["flocker", "quobyte"];
const OLD_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// A volume of a pod.
pub(super) fn of_pod(volume: &Value, path: &str, said: &mut Vec<String>) {
    gone(volume, path, &[], said);
    let template = &volume["ephemeral"]["volumeClaimTemplate"];
    let claim = format!("{path}.ephemeral.volumeClaimTemplate.spec");
    requests(&template["spec"], &claim, said);
    overlaps(volume, said);
}

fn gone(volume: &Value, path: &str, except: &[&str], said: &mut Vec<String>) {
    for (field, name, since) in GONE {
        if !volume[field].is_null() && !except.contains(&field) {
            said.push(format!("{path}.{name}: {since}"));
        }
    }
}

/// A persistent volume.
pub(super) fn persistent(value: &Value, said: &mut Vec<String>) {
    let spec = &value["spec"];
    let terms = "spec.nodeAffinity.required.nodeSelectorTerms";
    node_terms(
        &spec["nodeAffinity"]["required"]["nodeSelectorTerms"],
        terms,
        said,
    );
    old_class(value, said);
    if spec["persistentVolumeReclaimPolicy"] == "Recycle" {
        said.push(
            "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning."
                .to_owned(),
        );
    }
    gone(spec, "spec", &ONLY_IN_PODS, said);
}

/// A claim.
pub(super) fn claim(value: &Value, said: &mut Vec<String>) {
    old_class(value, said);
    requests(&value["spec"], "spec", said);
}

fn old_class(value: &Value, said: &mut Vec<String>) {
    if !value["metadata"]["annotations"][OLD_CLASS].is_null() {
        said.push(format!(
            "metadata.annotations[{OLD_CLASS}]: deprecated since v1.8; use \"storageClassName\" attribute instead"
        ));
    }
}

/// The storage that a claim asks for.
pub(super) fn requests(spec: &Value, path: &str, said: &mut Vec<String>) {
    for part in ["requests", "limits"] {
        let path = format!("{path}.resources");
        fraction(&spec["resources"], part, "storage", &path, said);
    }
}

/// Amounts that are counted in bytes.
pub(super) fn whole_bytes(resources: &Value, names: &[&str], path: &str, said: &mut Vec<String>) {
    for name in names {
        for part in ["limits", "requests"] {
            fraction(resources, part, name, path, said);
        }
    }
}

fn fraction(resources: &Value, part: &str, name: &str, path: &str, said: &mut Vec<String>) {
    let amount = resources[part][name].as_str().unwrap_or_default();
    // Whole numbers are not written in parts of one.
    if amount.ends_with(['m', 'u', 'n']) {
        said.push(format!(
            "{path}.{part}[{name}]: fractional byte value \"{amount}\" is invalid, must be an integer"
        ));
    }
}

/// The topologies of a storage class.
pub(super) fn topologies(class: &Value, said: &mut Vec<String>) {
    for (i, term) in each(&class["allowedTopologies"]) {
        for (j, expression) in each(&term["matchLabelExpressions"]) {
            if let Some(why) = old_label(text(expression, "key")) {
                let path = format!("allowedTopologies[{i}].matchLabelExpressions[{j}].key");
                said.push(format!("{path}: {why}"));
            }
        }
    }
}

/// Where a file of a volume is, and what it comes from if there are several.
struct File<'v> {
    path: &'v str,
    source: String,
}

impl fmt::Display for File<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.path)?;
        if self.source.is_empty() {
            return Ok(());
        }
        write!(f, " ({})", self.source)
    }
}

impl File<'_> {
    fn overlaps(&self, other: &Self) -> bool {
        let below = |a: &str, b: &str| a.strip_prefix(b).is_some_and(|rest| rest.starts_with('/'));
        self.path == other.path || below(self.path, other.path) || below(other.path, self.path)
    }
}

fn overlaps(volume: &Value, said: &mut Vec<String>) {
    let name = text(volume, "name");
    for (kind, field, of) in [
        ("ConfigMap", "configMap", "name"),
        ("Secret", "secret", "secretName"),
        ("DownwardAPI", "downwardAPI", ""),
    ] {
        let source = &volume[field];
        let title = match text(source, of) {
            "" => kind.to_owned(),
            of => format!("{kind} \"{of}\""),
        };
        let files = items(source, "");
        collisions(&files, &format!("volume \"{name}\" ({title})"), said);
    }
    let mut files = Vec::new();
    for (_, source) in each(&volume["projected"]["sources"]) {
        let titled = |field: &str, kind: &str| match text(&source[field], "name") {
            "" => kind.to_owned(),
            of => format!("{kind} \"{of}\""),
        };
        if source
            .as_object()
            .is_none_or(|s| s.values().all(Value::is_null))
        {
            said.push(format!(
                "volume \"{name}\" (Projected) has no sources provided"
            ));
        }
        files.extend(items(
            &source["configMap"],
            &titled("configMap", "ConfigMap"),
        ));
        files.extend(items(&source["secret"], &titled("secret", "Secret")));
        files.extend(items(&source["downwardAPI"], "DownwardAPI"));
        if let Some(path) = source["serviceAccountToken"]["path"].as_str() {
            let source = "ServiceAccountToken".to_owned();
            files.push(File { path, source });
        }
    }
    collisions(&files, &format!("volume \"{name}\" (Projected)"), said);
}

fn items<'v>(source: &'v Value, title: &str) -> Vec<File<'v>> {
    let file = |(_, item): (usize, &'v Value)| File {
        path: text(item, "path").trim_end_matches('/'),
        source: title.to_owned(),
    };
    each(&source["items"]).map(file).collect()
}

fn collisions(files: &[File<'_>], title: &str, said: &mut Vec<String>) {
    for (i, file) in files.iter().enumerate() {
        for other in files[..i].iter().filter(|other| file.overlaps(other)) {
            said.push(format!("{title}: overlapping paths: {file} with {other}"));
        }
    }
}
