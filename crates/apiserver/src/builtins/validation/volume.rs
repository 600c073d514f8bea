//! Validation of volumes and volume mounts.

use super::checks::set_among;
use super::claim;
use super::environment::{field_path, resource_field};
use super::field::Field;
use super::rules::Check::{
    Between, By, EmptyOrOneOf, Forbidden, IfSet, OneOf, Required, RequiredText,
};
use super::rules::{Check, Rule, apply};
use crate::error::Cause;
use crate::names;

/// Kinds of volumes, with their rules.
const SOURCES: &[(&str, &[Rule])] = &[
    ("emptyDir", &[("sizeLimit", By(size_limit))]),
    ("hostPath", HOST_PATH),
    ("gitRepo", &[("repository", Required)]),
    ("gcePersistentDisk", &[("pdName", Required)]),
    ("awsElasticBlockStore", &[("volumeID", Required)]),
    ("secret", &[("secretName", Required), ("", By(files))]),
    ("nfs", &[("server path", Required), ("path", By(absolute))]),
    ("iscsi", &[("targetPortal iqn", Required)]),
    ("glusterfs", &[("endpoints path", Required)]),
    ("flocker", &[("", By(flocker))]),
    ("persistentVolumeClaim", &[("claimName", Required)]),
    ("rbd", &[("monitors image", Required)]),
    ("cinder", &[("volumeID", Required)]),
    ("cephfs", &[("monitors", Required)]),
    ("quobyte", &[("registry volume", Required)]),
    ("downwardAPI", &[("", By(downward))]),
    ("fc", &[("", By(fibre_channel))]),
    ("flexVolume", &[("driver", Required)]),
    ("configMap", &[("name", Required), ("", By(files))]),
    ("azureFile", &[("secretName shareName", Required)]),
    ("vsphereVolume", &[("volumePath", Required)]),
    ("photonPersistentDisk", &[("pdID", Required)]),
    ("portworxVolume", &[("volumeID", Required)]),
    (
        "azureDisk",
        &[("diskName diskURI", Required), ("diskURI", By(disk_uri))],
    ),
    ("storageos", &[("volumeName", Required)]),
    ("scaleIO", &[("gateway system volumeName", Required)]),
    ("projected", &[("defaultMode", MODE)]),
    ("csi", CSI),
    ("ephemeral", &[("volumeClaimTemplate", By(claim_template))]),
    (
        "image",
        &[
            ("reference", Required),
            (
                "pullPolicy",
                EmptyOrOneOf(&["Always", "IfNotPresent", "Never"]),
            ),
        ],
    ),
];

const HOST_PATH: &[Rule] = &[
    ("path", Required),
    ("path", By(no_backsteps)),
    (
        "type",
        OneOf(&[
            "",
            "BlockDevice",
            "CharDevice",
            "Directory",
            "DirectoryOrCreate",
            "File",
            "FileOrCreate",
            "Socket",
        ]),
    ),
];

const CSI: &[Rule] = &[
    ("driver", RequiredText(names::subdomain)),
    ("nodePublishSecretRef", IfSet(&[("name", Required)])),
];

/// The permissions of a file.
const MODE: Check = Between(0, 0o777);

/// Checks the source of a volume. `account` is true if the pod names a service account.
pub(super) fn source(volume: &Field<'_>, account: bool) {
    let mut set = SOURCES.iter().filter(|(kind, _)| volume.get(kind).is_set());
    let Some((kind, rules)) = set.next() else {
        return;
    };
    for (another, _) in set {
        Forbidden("may not specify more than 1 volume type").apply(&volume.get(another));
    }
    let mut source = volume.get(kind);
    if *kind == "gcePersistentDisk" {
        source.path = format!("{}.persistentDisk", volume.path);
    }
    apply(rules, &source);
    if *kind == "projected" {
        projected(&source, account);
    }
}

fn size_limit(limit: &Field<'_>) {
    if limit.text().starts_with('-') {
        limit.forbidden("must not be negative");
    }
}

fn absolute(path: &Field<'_>) {
    if !path.text().starts_with('/') {
        path.invalid("must be an absolute path");
    }
}

fn flocker(source: &Field<'_>) {
    if source.get("datasetName").is_empty() && source.get("datasetUUID").is_empty() {
        source.required("one of datasetName and datasetUUID is required");
    }
}

fn fibre_channel(source: &Field<'_>) {
    let names = source.get("targetWWNs");
    if names.is_empty() == source.get("wwids").is_empty() {
        names.required("must specify either targetWWNs or wwids, but not both");
    }
}

fn disk_uri(uri: &Field<'_>) {
    if uri.is_empty() {
        uri.not_supported(&["https://ACCOUNT.blob.core.windows.net/CONTAINER/DISK.vhd"]);
    }
}

fn claim_template(template: &Field<'_>) {
    if !template.is_set() {
        return template.required("");
    }
    let name = template.get("metadata.name");
    if !name.is_empty() {
        name.forbidden("cannot be set");
    }
    claim::spec(&template.get("spec"));
}

/// Checks the files of a Secret or ConfigMap.
fn files(source: &Field<'_>) {
    const RULES: &[Rule] = &[
        ("defaultMode", MODE),
        ("items[].key items[].path", Required),
        ("items[].path", By(local_path)),
        ("items[].mode", MODE),
    ];
    apply(RULES, source);
}

/// Checks a path that must stay within its volume.
fn local_path(path: &Field<'_>) {
    relative(path);
    let first = path.text().split('/').next().unwrap_or_default();
    if first.starts_with("..") && first != ".." {
        path.invalid("must not start with '..'");
    }
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
    const FILE: &[Rule] = &[("path", Required), ("path", By(local_path)), ("mode", MODE)];
    MODE.apply(&source.get("defaultMode"));
    for item in source.items("items") {
        let file = item.reported_at(source.path.as_str());
        apply(FILE, &file);
        let (field, resource) = (file.get("fieldRef"), file.get("resourceFieldRef"));
        if field.is_set() && resource.is_set() {
            file.invalid("fieldRef and resourceFieldRef can not be specified simultaneously");
        }
        if field.is_set() {
            field_path(&field);
        } else if !resource.is_set() {
            file.required("one of fieldRef and resourceFieldRef is required");
        } else if resource.get("containerName").is_empty() {
            resource.get("containerName").required("");
        } else {
            resource_field(&resource);
        }
    }
}

fn projected(source: &Field<'_>, account: bool) {
    const KINDS: &[&str] = &["secret", "configMap", "downwardAPI", "serviceAccountToken"];
    let mut paths = Vec::new();
    for part in source.items("sources") {
        let found = set_among(&part, KINDS);
        if found.len() > 1 {
            part.forbidden("may not specify more than 1 volume type per source");
        }
        let Some((kind, inner)) = found.first() else {
            continue;
        };
        match *kind {
            "downwardAPI" => downward(inner),
            "serviceAccountToken" => token(inner, source, account),
            _ => {
                Required.apply(&inner.get("name"));
                files(inner);
                paths.extend(inner.items("items").map(|item| item.text_of("path")));
            }
        }
    }
    let count = paths.len();
    paths.sort_unstable();
    paths.dedup();
    if paths.len() < count {
        source.invalid("conflicting duplicate paths");
    }
}

fn token(token: &Field<'_>, source: &Field<'_>, account: bool) {
    Between(600, i64::MAX).apply(&token.get("expirationSeconds"));
    let path = token
        .get("path")
        .reported_at(format!("{}.path", source.path));
    Required.apply(&path);
    local_path(&path);
    if !account {
        token.forbidden("must not be specified when serviceAccountName is not set");
    }
}

/// Checks the volume mounts of a container.
pub(super) fn mounts(container: &Field<'_>, spec: &Field<'_>) {
    // Kubernetes omits the index of the mount in the paths of these fields.
    const MOUNT: &[Rule] = &[
        ("subPath", By(relative)),
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
    let privileged = container.value["securityContext"]["privileged"] == true;
    let mut paths = Vec::new();
    for mount in all.each() {
        let (name, path) = (mount.get("name"), mount.get("mountPath"));
        Required.apply(&name);
        Required.apply(&path);
        if !spec
            .items("volumes")
            .any(|volume| volume.text_of("name") == name.text())
        {
            name.report(Cause::not_found(name.path.as_str(), name.value));
        }
        if paths.contains(&path.text()) {
            path.invalid("must be unique");
        }
        paths.push(path.text());
        let brief = mount.clone().reported_at(all.path.as_str());
        apply(MOUNT, &brief);
        if mount.get("subPath").is_empty() {
            relative(&brief.get("subPathExpr"));
        } else if !mount.get("subPathExpr").is_empty() {
            mount
                .get("subPathExpr")
                .invalid("subPathExpr and subPath are mutually exclusive");
        }
        let (propagation, read_only) = (
            brief.get("mountPropagation"),
            brief.get("recursiveReadOnly"),
        );
        if propagation.text() == "Bidirectional" && !privileged {
            propagation.forbidden("is available only to privileged containers");
        }
        if matches!(read_only.text(), "Enabled" | "IfPossible") && mount.value["readOnly"] != true {
            read_only.forbidden("may only be specified when readOnly is true");
        }
    }
}
