//! Validation of volumes, and of the references of containers to volumes.

use super::checks::set_among;
use super::field::Field;
use super::rules::Check::{IfSet, Required};
use super::rules::{Rule, apply};

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
        named(&name, spec);
        if paths.contains(&path.text()) {
            path.invalid("must be unique");
        }
        paths.push(path.text());
    }
}

/// Checks the volume devices of a container. Only claims can be block devices.
pub(super) fn devices(container: &Field<'_>, spec: &Field<'_>) {
    for device in container.items("volumeDevices") {
        let name = device.get("name");
        Required.apply(&name);
        Required.apply(&device.get("devicePath"));
        if named(&name, spec).is_some_and(|volume| {
            set_among(&volume, &["persistentVolumeClaim", "ephemeral"]).is_empty()
        }) {
            name.invalid("can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode");
        }
    }
}

/// Checks the environment variables that read a file of a volume. Only an `emptyDir` can have such files.
pub(super) fn files(container: &Field<'_>, spec: &Field<'_>) {
    for variable in container.items("env") {
        let name = variable.get("valueFrom.fileKeyRef.volumeName");
        if variable.get("valueFrom.fileKeyRef").is_set()
            && named(&name, spec).is_some_and(|volume| !volume.get("emptyDir").is_set())
        {
            name.invalid("referenced volume must be of type emptyDir");
        }
    }
}

/// Returns the volume with a name. Reports a name that no volume has.
fn named<'a>(name: &Field<'_>, spec: &Field<'a>) -> Option<Field<'a>> {
    let mut volumes = spec.items("volumes");
    let found = volumes.find(|volume| volume.text_of("name") == name.text());
    if found.is_none() {
        name.not_found();
    }
    found
}
