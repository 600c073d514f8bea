//! Warnings about storage: removed kinds of volumes, overlapping files, and fractional bytes.

use std::fmt;

use serde_json::Value;

use super::{deprecated_label, each, node_terms, text};

/// Deprecated kinds of volumes: the field, its name in warnings, and the versions.
const DEPRECATED: [(&str, &str, &str); 9] = [
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
/// Kinds without a warning for persistent volumes.
const ONLY_IN_PODS: [&str; 2] = ["flocker", "quobyte"];
const OLD_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// Warns about a volume of a pod.
pub(super) fn of_pod(volume: &Value, path: &str, warnings: &mut Vec<String>) {
    deprecated_kinds(volume, path, &[], warnings);
    let template = &volume["ephemeral"]["volumeClaimTemplate"];
    let claim = format!("{path}.ephemeral.volumeClaimTemplate.spec");
    requests(&template["spec"], &claim, warnings);
    overlaps(volume, warnings);
}

fn deprecated_kinds(volume: &Value, path: &str, except: &[&str], warnings: &mut Vec<String>) {
    for (field, name, since) in DEPRECATED {
        if !volume[field].is_null() && !except.contains(&field) {
            warnings.push(format!("{path}.{name}: {since}"));
        }
    }
}

/// Warns about a persistent volume.
pub(super) fn persistent(value: &Value, warnings: &mut Vec<String>) {
    let spec = &value["spec"];
    let terms = "spec.nodeAffinity.required.nodeSelectorTerms";
    node_terms(
        &spec["nodeAffinity"]["required"]["nodeSelectorTerms"],
        terms,
        warnings,
    );
    class_annotation(value, warnings);
    if spec["persistentVolumeReclaimPolicy"] == "Recycle" {
        warnings.push(
            "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning."
                .to_owned(),
        );
    }
    deprecated_kinds(spec, "spec", &ONLY_IN_PODS, warnings);
}

/// Warns about a claim.
pub(super) fn claim(value: &Value, warnings: &mut Vec<String>) {
    class_annotation(value, warnings);
    requests(&value["spec"], "spec", warnings);
}

fn class_annotation(value: &Value, warnings: &mut Vec<String>) {
    if !value["metadata"]["annotations"][OLD_CLASS].is_null() {
        warnings.push(format!(
            "metadata.annotations[{OLD_CLASS}]: deprecated since v1.8; use \"storageClassName\" attribute instead"
        ));
    }
}

/// Warns about the requested storage.
pub(super) fn requests(spec: &Value, path: &str, warnings: &mut Vec<String>) {
    for part in ["requests", "limits"] {
        let path = format!("{path}.resources");
        fraction(&spec["resources"], part, "storage", &path, warnings);
    }
}

/// Warns about fractional amounts of bytes.
pub(super) fn whole_bytes(
    resources: &Value,
    names: &[&str],
    path: &str,
    warnings: &mut Vec<String>,
) {
    for name in names {
        for part in ["limits", "requests"] {
            fraction(resources, part, name, path, warnings);
        }
    }
}

fn fraction(resources: &Value, part: &str, name: &str, path: &str, warnings: &mut Vec<String>) {
    let amount = resources[part][name].as_str().unwrap_or_default();
    // Canonical quantities use these suffixes only for fractions.
    if amount.ends_with(['m', 'u', 'n']) {
        warnings.push(format!(
            "{path}.{part}[{name}]: fractional byte value \"{amount}\" is invalid, must be an integer"
        ));
    }
}

/// Warns about the topologies of a storage class.
pub(super) fn topologies(class: &Value, warnings: &mut Vec<String>) {
    for (i, term) in each(&class["allowedTopologies"]) {
        for (j, expression) in each(&term["matchLabelExpressions"]) {
            if let Some(message) = deprecated_label(text(expression, "key")) {
                let path = format!("allowedTopologies[{i}].matchLabelExpressions[{j}].key");
                warnings.push(format!("{path}: {message}"));
            }
        }
    }
}

/// The path of a file in a volume, and its source if there are several.
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

fn overlaps(volume: &Value, warnings: &mut Vec<String>) {
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
        collisions(&files, &format!("volume \"{name}\" ({title})"), warnings);
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
            warnings.push(format!(
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
    collisions(&files, &format!("volume \"{name}\" (Projected)"), warnings);
}

fn items<'v>(source: &'v Value, title: &str) -> Vec<File<'v>> {
    let file = |(_, item): (usize, &'v Value)| File {
        path: text(item, "path").trim_end_matches('/'),
        source: title.to_owned(),
    };
    each(&source["items"]).map(file).collect()
}

fn collisions(files: &[File<'_>], title: &str, warnings: &mut Vec<String>) {
    for (i, file) in files.iter().enumerate() {
        for other in files[..i].iter().filter(|other| file.overlaps(other)) {
            warnings.push(format!("{title}: overlapping paths: {file} with {other}"));
        }
    }
}
