//! Validation of volumes and volume mounts.

use std::collections::HashSet;

use berth_apimachinery::quantity::Quantity;

use super::claim;
use super::environment::{field_path, resource_field};
use super::field::Field;
use crate::error::Cause;
use crate::names;

/// Kinds of volumes, with their required fields. Further rules are in [`kind`].
const SOURCES: &[(&str, &[&str])] = &[
    ("emptyDir", &[]),
    ("hostPath", &["path"]),
    ("gitRepo", &["repository"]),
    ("gcePersistentDisk", &["pdName"]),
    ("awsElasticBlockStore", &["volumeID"]),
    ("secret", &["secretName"]),
    ("nfs", &["server", "path"]),
    ("iscsi", &["targetPortal", "iqn"]),
    ("glusterfs", &["endpoints", "path"]),
    ("flocker", &[]),
    ("persistentVolumeClaim", &["claimName"]),
    ("rbd", &["monitors", "image"]),
    ("cinder", &["volumeID"]),
    ("cephfs", &["monitors"]),
    ("quobyte", &[]),
    ("downwardAPI", &[]),
    ("fc", &[]),
    ("flexVolume", &["driver"]),
    ("configMap", &["name"]),
    ("azureFile", &["secretName", "shareName"]),
    ("vsphereVolume", &["volumePath"]),
    ("photonPersistentDisk", &["pdID"]),
    ("portworxVolume", &["volumeID"]),
    ("azureDisk", &[]),
    ("storageos", &["volumeName"]),
    ("scaleIO", &["gateway", "system", "volumeName"]),
    ("projected", &[]),
    ("csi", &[]),
    ("ephemeral", &[]),
    ("image", &["reference"]),
];

const HOST_PATH_TYPES: &[&str] = &[
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
];

/// Checks the source of a volume. `account` is true if the pod names a service account.
pub(super) fn source(volume: &Field<'_>, account: bool, causes: &mut Vec<Cause>) {
    let mut found = 0;
    for (kind, needed) in SOURCES {
        let mut source = volume.field(kind);
        if !source.is_set() {
            continue;
        }
        found += 1;
        if found > 1 {
            source.forbidden("may not specify more than 1 volume type", causes);
            continue;
        }
        if *kind == "gcePersistentDisk" {
            source.path = format!("{}.persistentDisk", volume.path);
        }
        for field in *needed {
            let field = source.field(field);
            if field.text().is_empty() && field.count() == 0 {
                field.required("", causes);
            }
        }
        self::kind(kind, &source, account, causes);
    }
}

fn kind(kind: &str, source: &Field<'_>, account: bool, causes: &mut Vec<Cause>) {
    match kind {
        "emptyDir" => {
            let limit = source.field("sizeLimit");
            if limit.quantity().is_some_and(|size| size < Quantity::ZERO) {
                limit.forbidden("SizeLimit field must be a valid resource quantity", causes);
            }
        }
        "hostPath" => {
            no_backsteps(&source.field("path"), causes);
            source.field("type").one_of(HOST_PATH_TYPES, causes);
        }
        "secret" | "configMap" => {
            mode(&source.field("defaultMode"), causes);
            for item in source.items("items") {
                key_to_path(&item, causes);
            }
        }
        "nfs" => {
            let path = source.field("path");
            if !path.text().starts_with('/') {
                path.invalid("must be an absolute path", causes);
            }
        }
        "flocker" => {
            let named = |field: &str| !source.field(field).text().is_empty();
            if !named("datasetName") && !named("datasetUUID") {
                source.required("one of datasetName and datasetUUID is required", causes);
            }
        }
        "quobyte" => {
            let registry = source.field("registry");
            if registry.text().is_empty() {
                let detail = "must be a host:port pair or multiple pairs separated by commas";
                registry.required(detail, causes);
            }
            source.field("volume").not_empty(causes);
        }
        "fc" => {
            let names = source.field("targetWWNs");
            if (names.count() > 0) == (source.field("wwids").count() > 0) {
                let detail = "must specify either targetWWNs or wwids, but not both";
                names.required(detail, causes);
            }
        }
        "azureDisk" => {
            source.field("diskName").not_empty(causes);
            let uri = source.field("diskURI");
            uri.not_empty(causes);
            if uri.text().is_empty() {
                let form =
                    "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd";
                uri.exactly_one_of(&[form], causes);
            }
        }
        "downwardAPI" => {
            mode(&source.field("defaultMode"), causes);
            for item in source.items("items") {
                downward(&item, source, causes);
            }
        }
        "projected" => projected(source, account, causes),
        "csi" => {
            source.field("driver").named(names::subdomain, causes);
            let secret = source.field("nodePublishSecretRef");
            if secret.is_set() {
                secret.field("name").not_empty(causes);
            }
        }
        "ephemeral" => {
            let template = source.field("volumeClaimTemplate");
            if !template.is_set() {
                template.required("", causes);
                return;
            }
            let name = template.field("metadata").field("name");
            if !name.text().is_empty() {
                name.forbidden("cannot be set", causes);
            }
            claim::spec(&template.field("spec"), causes);
        }
        "image" => {
            let policy = source.field("pullPolicy");
            if !policy.text().is_empty() {
                policy.one_of(&["Always", "IfNotPresent", "Never"], causes);
            }
        }
        _ => {}
    }
}

fn mode(mode: &Field<'_>, causes: &mut Vec<Cause>) {
    if mode
        .number()
        .is_some_and(|mode| !(0..=0o777).contains(&mode))
    {
        let detail = "must be a number between 0 and 0777 (octal), both inclusive";
        mode.invalid(detail, causes);
    }
}

fn key_to_path(item: &Field<'_>, causes: &mut Vec<Cause>) {
    item.field("key").not_empty(causes);
    let path = item.field("path");
    path.not_empty(causes);
    local_path(&path, causes);
    mode(&item.field("mode"), causes);
}

/// Checks a path that must stay within its volume.
fn local_path(path: &Field<'_>, causes: &mut Vec<Cause>) {
    relative(path, path, causes);
    let first = path.text().split('/').next().unwrap_or_default();
    if first.starts_with("..") && !path.text().split('/').any(|part| part == "..") {
        path.invalid("must not start with '..'", causes);
    }
}

/// Checks a relative path without `..`; reports causes at `at`.
fn relative(path: &Field<'_>, at: &Field<'_>, causes: &mut Vec<Cause>) {
    if path.text().starts_with('/') {
        at.invalid("must be a relative path", causes);
    }
    if path.text().split('/').any(|part| part == "..") {
        at.invalid("must not contain '..'", causes);
    }
}

fn no_backsteps(path: &Field<'_>, causes: &mut Vec<Cause>) {
    if path.text().split('/').any(|part| part == "..") {
        path.invalid("must not contain '..'", causes);
    }
}

/// Checks a file of the downward API. Kubernetes reports causes at the volume.
fn downward(item: &Field<'_>, source: &Field<'_>, causes: &mut Vec<Cause>) {
    let path = Field::new(&item.value["path"], format!("{}.path", source.path));
    path.not_empty(causes);
    local_path(&path, causes);
    let at = |field: &str| Field::new(&item.value[field], format!("{}.{field}", source.path));
    let (field, resource) = (at("fieldRef"), at("resourceFieldRef"));
    if field.is_set() {
        if resource.is_set() {
            let detail = "fieldRef and resourceFieldRef can not be specified simultaneously";
            source.invalid(detail, causes);
        }
        field_path(&field, None, causes);
    } else if resource.is_set() {
        resource_field(&resource, true, causes);
    } else {
        source.required("one of fieldRef and resourceFieldRef is required", causes);
    }
    mode(&at("mode"), causes);
}

fn projected(source: &Field<'_>, account: bool, causes: &mut Vec<Cause>) {
    mode(&source.field("defaultMode"), causes);
    let mut paths: Vec<&str> = Vec::new();
    for part in source.items("sources") {
        let mut found = 0;
        for kind in ["secret", "configMap", "downwardAPI", "serviceAccountToken"] {
            let inner = part.field(kind);
            if !inner.is_set() {
                continue;
            }
            found += 1;
            if found > 1 {
                part.forbidden("may not specify more than 1 volume type per source", causes);
                continue;
            }
            if matches!(kind, "secret" | "configMap") {
                inner.field("name").not_empty(causes);
                for item in inner.items("items") {
                    key_to_path(&item, causes);
                    taken(item.field("path").text(), source, &mut paths, causes);
                }
            }
            if kind == "downwardAPI" {
                for item in inner.items("items") {
                    downward(&item, &inner, causes);
                }
            }
            if kind == "serviceAccountToken" {
                token(&inner, source, account, causes);
            }
        }
    }
}

/// Refuses two sources for the same file.
fn taken<'a>(path: &'a str, source: &Field<'_>, paths: &mut Vec<&'a str>, causes: &mut Vec<Cause>) {
    if paths.contains(&path) {
        source.invalid("conflicting duplicate paths", causes);
    }
    paths.push(path);
}

fn token(token: &Field<'_>, source: &Field<'_>, account: bool, causes: &mut Vec<Cause>) {
    let seconds = token.field("expirationSeconds");
    if seconds.number().is_some_and(|seconds| seconds < 600) {
        seconds.invalid("may not specify a duration less than 10 minutes", causes);
    }
    let path = Field::new(&token.value["path"], format!("{}.path", source.path));
    path.not_empty(causes);
    local_path(&path, causes);
    if !account {
        let detail = "must not be specified when serviceAccountName is not set";
        token.forbidden(detail, causes);
    }
}

/// Checks the volume mounts of a container.
pub(super) fn mounts(container: &Field<'_>, volumes: &HashSet<&str>, causes: &mut Vec<Cause>) {
    let all = container.field("volumeMounts");
    let privileged = container.value["securityContext"]["privileged"] == true;
    let mut paths: HashSet<&str> = HashSet::new();
    for mount in container.items("volumeMounts") {
        let name = mount.field("name");
        name.not_empty(causes);
        if !volumes.contains(name.text()) {
            causes.push(Cause {
                field: name.path.clone(),
                reason: "FieldValueNotFound".to_owned(),
                message: format!("Not found: \"{}\"", name.text()),
            });
        }
        let path = mount.field("mountPath");
        path.not_empty(causes);
        if !paths.insert(path.text()) {
            path.invalid("must be unique", causes);
        }
        // Kubernetes omits the index of the mount.
        let at = |field: &str| Field::new(&mount.value[field], format!("{}.{field}", all.path));
        let (sub, expression) = (at("subPath"), at("subPathExpr"));
        relative(&sub, &sub, causes);
        if !expression.text().is_empty() {
            if sub.text().is_empty() {
                relative(&expression, &expression, causes);
            } else {
                let detail = "subPathExpr and subPath are mutually exclusive";
                mount.field("subPathExpr").invalid(detail, causes);
            }
        }
        let propagation = at("mountPropagation");
        propagation.one_of(&["Bidirectional", "HostToContainer", "None"], causes);
        if propagation.text() == "Bidirectional" && !privileged {
            let detail =
                "Bidirectional mount propagation is available only to privileged containers";
            propagation.forbidden(detail, causes);
        }
        let read_only = at("recursiveReadOnly");
        read_only.one_of(&["Disabled", "Enabled", "IfPossible"], causes);
        if matches!(read_only.text(), "Enabled" | "IfPossible") && mount.value["readOnly"] != true {
            read_only.forbidden("may only be specified when readOnly is true", causes);
        }
    }
}
