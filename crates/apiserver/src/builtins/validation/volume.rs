//! Validation of volumes and volume mounts.

use super::checks::set_among;
use super::claim;
use super::downward_api::{field_path, resource_field};
use super::field::Field;
use super::rules::Check::{Between, By, EmptyOrOneOf, IfSet, OneOf, Required, RequiredText};
use super::rules::{Check, Rule, apply};
use crate::error::Cause;
use crate::names;

/// The kinds of volumes, of which a volume has at most one.
const KINDS: [&str; 30] = [
    "emptyDir",
    "hostPath",
    "secret",
    "configMap",
    "projected",
    "downwardAPI",
    "persistentVolumeClaim",
    "ephemeral",
    "csi",
    "image",
    "nfs",
    "iscsi",
    "fc",
    "rbd",
    "cephfs",
    "cinder",
    "flexVolume",
    "gitRepo",
    "glusterfs",
    "azureFile",
    "azureDisk",
    "awsElasticBlockStore",
    "gcePersistentDisk",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "quobyte",
    "flocker",
    "storageos",
    "scaleIO",
];

const VOLUME: &[Rule] = &[
    (
        "hostPath",
        IfSet(&[
            ("path", Required),
            ("path", By(no_backsteps)),
            (
                "type",
                EmptyOrOneOf(&[
                    "BlockDevice",
                    "CharDevice",
                    "Directory",
                    "DirectoryOrCreate",
                    "File",
                    "FileOrCreate",
                    "Socket",
                ]),
            ),
        ]),
    ),
    (
        "secret",
        IfSet(&[("secretName", Required), ("", By(files))]),
    ),
    ("configMap", IfSet(&[("name", Required), ("", By(files))])),
    ("downwardAPI", By(downward)),
    ("projected.defaultMode", MODE),
    ("persistentVolumeClaim", IfSet(&[("claimName", Required)])),
    (
        "ephemeral",
        IfSet(&[
            ("volumeClaimTemplate", Required),
            ("volumeClaimTemplate.spec", IfSet(&[("", By(claim::spec))])),
        ]),
    ),
    ("csi", IfSet(&[("driver", RequiredText(names::subdomain))])),
    (
        "image",
        IfSet(&[
            ("reference", Required),
            (
                "pullPolicy",
                EmptyOrOneOf(&["Always", "IfNotPresent", "Never"]),
            ),
        ]),
    ),
    (
        "nfs",
        IfSet(&[("server path", Required), ("path", By(absolute))]),
    ),
    ("iscsi", IfSet(&[("targetPortal iqn", Required)])),
    ("rbd", IfSet(&[("monitors image", Required)])),
    ("cephfs", IfSet(&[("monitors", Required)])),
    (
        "cinder awsElasticBlockStore",
        IfSet(&[("volumeID", Required)]),
    ),
    ("azureFile", IfSet(&[("secretName shareName", Required)])),
    ("vsphereVolume", IfSet(&[("volumePath", Required)])),
];

/// The permissions of a file.
const MODE: Check = Between(0, 0o777);

/// Checks the source of a volume. `account` is true if the pod names a service account.
pub(super) fn source(volume: &Field<'_>, account: bool) {
    for another in set_among(volume, &KINDS).iter().skip(1) {
        another.forbidden("may not specify more than 1 volume type");
    }
    apply(VOLUME, volume);
    projected(&volume.get("projected"), account);
}

fn absolute(path: &Field<'_>) {
    if !path.text().starts_with('/') {
        path.invalid("must be an absolute path");
    }
}

/// Checks the files of a Secret or ConfigMap.
fn files(source: &Field<'_>) {
    const RULES: &[Rule] = &[
        ("defaultMode", MODE),
        ("items[].key items[].path", Required),
        ("items[].path", By(relative)),
        ("items[].mode", MODE),
    ];
    apply(RULES, source);
}

fn relative(path: &Field<'_>) {
    if path.text().starts_with('/') {
        path.invalid("must be a relative path");
    }
    no_backsteps(path);
}

fn no_backsteps(path: &Field<'_>) {
    if path.text().split('/').any(|part| part == "..") {
        path.invalid("must not contain '..'");
    }
}

/// Checks the files of the downward API. Kubernetes reports causes at the volume.
fn downward(source: &Field<'_>) {
    const FILE: &[Rule] = &[
        ("path", Required),
        ("path", By(relative)),
        ("mode", MODE),
        ("fieldRef", IfSet(&[("", By(field_path))])),
        (
            "resourceFieldRef",
            IfSet(&[("containerName", Required), ("", By(resource_field))]),
        ),
    ];
    MODE.apply(&source.get("defaultMode"));
    for item in source.items("items") {
        let file = item.reported_at(source.path.as_str());
        apply(FILE, &file);
        match set_among(&file, &["fieldRef", "resourceFieldRef"]).len() {
            0 => file.required("one of fieldRef and resourceFieldRef is required"),
            1 => {}
            _ => file.invalid("fieldRef and resourceFieldRef can not be specified simultaneously"),
        }
    }
}

fn projected(source: &Field<'_>, account: bool) {
    const KINDS: [&str; 4] = ["secret", "configMap", "downwardAPI", "serviceAccountToken"];
    for part in source.items("sources") {
        if set_among(&part, &KINDS).len() > 1 {
            part.forbidden("may not specify more than 1 volume type per source");
        }
        for inner in set_among(&part, &["secret", "configMap"]) {
            Required.apply(&inner.get("name"));
            files(&inner);
        }
        downward(&part.get("downwardAPI"));
        let token = part.get("serviceAccountToken");
        if token.is_set() {
            Between(600, i64::MAX).apply(&token.get("expirationSeconds"));
            let path = token.get("path");
            Required.apply(&path.reported_at(format!("{}.path", source.path)));
            if !account {
                token.forbidden("must not be specified when serviceAccountName is not set");
            }
        }
    }
}

/// Checks the volume mounts of a container.
pub(super) fn mounts(container: &Field<'_>, spec: &Field<'_>) {
    // Kubernetes omits the index of the mount in the paths of these fields.
    const MOUNT: &[Rule] = &[
        ("subPath subPathExpr", By(relative)),
        (
            "mountPropagation",
            OneOf(&["Bidirectional", "HostToContainer", "None"]),
        ),
        (
            "recursiveReadOnly",
            OneOf(&["Disabled", "Enabled", "IfPossible"]),
        ),
    ];
    let all = container.get("volumeMounts");
    let mut paths = Vec::new();
    for mount in all.each() {
        let (name, path) = (mount.get("name"), mount.get("mountPath"));
        Required.apply(&name);
        Required.apply(&path);
        let is_known = |volume: Field<'_>| volume.text_of("name") == name.text();
        if !spec.items("volumes").any(is_known) {
            name.report(Cause::not_found(name.path.as_str(), name.value));
        }
        if paths.contains(&path.text()) {
            path.invalid("must be unique");
        }
        paths.push(path.text());
        let expression = mount.get("subPathExpr");
        if !expression.is_empty() && !mount.get("subPath").is_empty() {
            expression.invalid("subPathExpr and subPath are mutually exclusive");
        }
        apply(MOUNT, &mount.reported_at(all.path.as_str()));
    }
}
