//! Validation of environment variables and their sources.

use berth_apimachinery::quantity::Quantity;

use super::field::Field;
use crate::error::Cause;
use crate::names;

const SOURCES: [&str; 5] = [
    "fieldRef",
    "resourceFieldRef",
    "configMapKeyRef",
    "secretKeyRef",
    "fileKeyRef",
];
/// Fields of a pod that a variable may refer to.
const FIELDS: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
/// Other fields of a pod that exist.
const OTHER_FIELDS: &[&str] = &[
    "metadata.annotations",
    "metadata.labels",
    "spec.hostNetwork",
    "spec.restartPolicy",
    "spec.schedulerName",
    "status.phase",
];
const RESOURCES: &[&str] = &[
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

/// Checks all variables of a container.
pub(super) fn of_container(container: &Field<'_>, causes: &mut Vec<Cause>) {
    for variable in container.items("env") {
        variable.field("name").named(names::variable, causes);
        let from = variable.field("valueFrom");
        if from.is_set() {
            value_from(&from, variable.field("value").text(), causes);
        }
    }
    let all = container.field("envFrom");
    for source in container.items("envFrom") {
        source.field("prefix").optional(names::variable, causes);
        let mut found = 0;
        for kind in ["configMapRef", "secretRef"] {
            let reference = source.field(kind);
            if reference.is_set() {
                found += 1;
                reference.field("name").named(names::subdomain, causes);
            }
        }
        match found {
            0 => all.invalid("must specify one of: `configMapRef` or `secretRef`", causes),
            1 => {}
            _ => one_only(&all, causes),
        }
    }
}

fn one_only(source: &Field<'_>, causes: &mut Vec<Cause>) {
    let detail = "may not have more than one field specified at a time";
    source.invalid(detail, causes);
}

fn value_from(from: &Field<'_>, value: &str, causes: &mut Vec<Cause>) {
    let mut found = 0;
    for kind in SOURCES {
        let source = from.field(kind);
        if !source.is_set() {
            continue;
        }
        found += 1;
        match kind {
            "fieldRef" => field_path(&source, Some(FIELDS), causes),
            "resourceFieldRef" => resource_field(&source, false, causes),
            "fileKeyRef" => {}
            _ => {
                let name = source.field("name");
                name.problems(names::subdomain(name.text()), causes);
                source.field("key").named(names::config_key, causes);
            }
        }
    }
    match found {
        0 => {
            let detail = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or \
                       `fileKeyRef`";
            from.invalid(detail, causes);
        }
        _ if !value.is_empty() => {
            let detail = "may not be specified when `value` is not empty";
            from.invalid(detail, causes);
        }
        1 => {}
        _ => one_only(from, causes),
    }
}

/// Checks a reference to a field of the pod. `allowed` restricts the fields.
pub(super) fn field_path(reference: &Field<'_>, allowed: Option<&[&str]>, causes: &mut Vec<Cause>) {
    let path = reference.field("fieldPath");
    if path.text().is_empty() {
        path.required("", causes);
        return;
    }
    let keyed = path
        .text()
        .strip_suffix("']")
        .and_then(|rest| rest.split_once("['"));
    if let Some((map, key)) = keyed {
        if !matches!(map, "metadata.labels" | "metadata.annotations") {
            path.invalid(
                &format!("error converting fieldPath: field label not supported: {map}"),
                causes,
            );
            return;
        }
        for problem in names::qualified_name(key) {
            reference.invalid(&problem, causes);
        }
        return;
    }
    let version = reference.field("apiVersion");
    if version.text() != "v1" {
        let detail = format!(
            "error converting fieldPath: unsupported pod version: {}",
            version.text()
        );
        path.invalid(&detail, causes);
    } else if !FIELDS.contains(&path.text()) && !OTHER_FIELDS.contains(&path.text()) {
        let detail = format!(
            "error converting fieldPath: field label not supported: {}",
            path.text()
        );
        path.invalid(&detail, causes);
    } else if let Some(allowed) = allowed {
        path.one_of(allowed, causes);
    }
}

/// Checks a reference to a resource of a container. In volumes it names the container.
pub(super) fn resource_field(reference: &Field<'_>, in_volume: bool, causes: &mut Vec<Cause>) {
    let (container, resource) = (
        reference.field("containerName"),
        reference.field("resource"),
    );
    if in_volume && container.text().is_empty() {
        container.required("", causes);
        return;
    }
    if resource.text().is_empty() {
        resource.required("", causes);
        return;
    }
    if !RESOURCES.contains(&resource.text()) && !resource.text().contains(".hugepages-") {
        resource.one_of(RESOURCES, causes);
        return;
    }
    let divisor = reference.field("divisor");
    let Some(amount) = divisor.quantity().filter(|d| *d != Quantity::ZERO) else {
        return;
    };
    let one_of = |allowed: &[&str]| allowed.iter().any(|a| Quantity::parse(a) == Ok(amount));
    let of_processors = matches!(resource.text(), "limits.cpu" | "requests.cpu");
    let (good, detail) = if of_processors {
        (
            one_of(&["1m", "1"]),
            "only divisor's values 1m and 1 are supported with the cpu resource",
        )
    } else {
        (
            one_of(&[
                "1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei",
            ]),
            "only divisor's values 1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with the \
             memory resource",
        )
    };
    if !good {
        divisor.invalid(detail, causes);
    }
}
