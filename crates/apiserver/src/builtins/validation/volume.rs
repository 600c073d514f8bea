//! Validation of volumes and volume mounts.

use super::field::Field;
use super::rules::Check::{IfSet, Required};
use super::rules::{Rule, apply};
use crate::error::Cause;

const VOLUME: &[Rule] = &[
    ("hostPath", IfSet(&[("path", Required)])),
    ("secret", IfSet(&[("secretName", Required)])),
    ("configMap", IfSet(&[("name", Required)])),
    ("persistentVolumeClaim", IfSet(&[("claimName", Required)])),
];

/// Checks that a volume has at most one source, and checks the fields of the source.
pub(super) fn source(volume: &Field<'_>) {
    let fields = volume.value.as_object().into_iter().flatten();
    let sources = fields.filter(|(name, source)| *name != "name" && !source.is_null());
    for (another, _) in sources.skip(1) {
        let another = volume.get(another);
        another.forbidden("may not specify more than 1 volume type");
    }
    apply(VOLUME, volume);
}

/// Checks the volume mounts of a container.
pub(super) fn mounts(container: &Field<'_>, spec: &Field<'_>) {
    let mut paths = Vec::new();
    for mount in container.items("volumeMounts") {
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
    }
}
