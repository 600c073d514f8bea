//! Field selectors: for each built-in kind, the labels that its API accepts and the paths of their values in stored
//! objects. Custom kinds declare theirs in `selectableFields`.

use serde_json::Value;

use crate::resource::Resource;

/// The value of an absent field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Absent {
    Empty,
    False,
    Zero,
}

/// A field that objects can be selected by.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Field {
    label: &'static str,
    /// Dotted paths of its value, separated by spaces. The first value that is not empty counts.
    paths: &'static str,
    absent: Absent,
}

/// Returns a field whose label differs from its path.
const fn at(label: &'static str, paths: &'static str, absent: Absent) -> Field {
    Field {
        label,
        paths,
        absent,
    }
}

const fn text(path: &'static str) -> Field {
    at(path, path, Absent::Empty)
}

/// A kind, by group and plural, and its fields in addition to name and namespace.
type Kind = (&'static str, &'static str, &'static [Field]);

const KINDS: &[Kind] = &[
    (
        "",
        "pods",
        &[
            text("spec.nodeName"),
            // Clients of the first Kubernetes versions use this label.
            at("spec.host", "spec.nodeName", Absent::Empty),
            text("spec.restartPolicy"),
            text("spec.schedulerName"),
            text("spec.serviceAccountName"),
            at("spec.hostNetwork", "spec.hostNetwork", Absent::False),
            text("status.phase"),
            at(
                "status.podIP",
                "status.podIP status.podIPs.0.ip",
                Absent::Empty,
            ),
            // Kubernetes accepts the label, but its value is always empty.
            at("status.podIPs", "", Absent::Empty),
            text("status.nominatedNodeName"),
        ],
    ),
    (
        "",
        "nodes",
        &[at(
            "spec.unschedulable",
            "spec.unschedulable",
            Absent::False,
        )],
    ),
    (
        "",
        "events",
        &[
            text("involvedObject.kind"),
            text("involvedObject.namespace"),
            text("involvedObject.name"),
            text("involvedObject.uid"),
            text("involvedObject.apiVersion"),
            text("involvedObject.resourceVersion"),
            text("involvedObject.fieldPath"),
            text("reason"),
            text("reportingComponent"),
            at(
                "source",
                "source.component reportingComponent",
                Absent::Empty,
            ),
            text("type"),
        ],
    ),
    // These are stored as events of core/v1.
    (
        "events.k8s.io",
        "events",
        &[
            at("regarding.kind", "involvedObject.kind", Absent::Empty),
            at(
                "regarding.namespace",
                "involvedObject.namespace",
                Absent::Empty,
            ),
            at("regarding.name", "involvedObject.name", Absent::Empty),
            at("regarding.uid", "involvedObject.uid", Absent::Empty),
            at(
                "regarding.apiVersion",
                "involvedObject.apiVersion",
                Absent::Empty,
            ),
            at(
                "regarding.resourceVersion",
                "involvedObject.resourceVersion",
                Absent::Empty,
            ),
            at(
                "regarding.fieldPath",
                "involvedObject.fieldPath",
                Absent::Empty,
            ),
            text("reason"),
            at("reportingController", "reportingComponent", Absent::Empty),
            text("type"),
        ],
    ),
    ("", "namespaces", &[text("status.phase")]),
    ("", "secrets", &[text("type")]),
    ("", "services", &[text("spec.clusterIP"), text("spec.type")]),
    ("", "replicationcontrollers", REPLICAS),
    ("apps", "replicasets", REPLICAS),
    (
        "batch",
        "jobs",
        &[at("status.successful", "status.succeeded", Absent::Zero)],
    ),
    (
        "certificates.k8s.io",
        "certificatesigningrequests",
        &[text("spec.signerName")],
    ),
];

const REPLICAS: &[Field] = &[at("status.replicas", "status.replicas", Absent::Zero)];

fn kind_of(resource: &Resource) -> Option<&'static Kind> {
    let mut kinds = KINDS.iter().filter(|_| !resource.is_custom());
    kinds.find(|(group, plural, _)| resource.is(group, plural))
}

/// The field that a label in a request selects by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SelectedField {
    Name,
    Namespace,
    Builtin(&'static Field),
    /// A path within a custom resource.
    Custom(String),
}

impl SelectedField {
    /// Returns the field for a label, or `None` if the resource cannot be selected by it.
    pub(super) fn parse(label: &str, resource: &Resource) -> Option<Self> {
        let kind = kind_of(resource);
        // Kinds without additional fields accept both labels at any scope.
        let has_namespace = resource.namespaced() || (kind.is_none() && !resource.is_custom());
        match label {
            "metadata.name" => return Some(Self::Name),
            "metadata.namespace" if has_namespace => return Some(Self::Namespace),
            _ => {}
        }
        if let Some(kind) = kind {
            let mut fields = kind.2.iter();
            return fields.find(|field| field.label == label).map(Self::Builtin);
        }
        let mut declared = resource.selectable.iter();
        let path = declared.find(|path| *path == label)?;
        Some(Self::Custom(path.clone()))
    }
}

impl Field {
    /// Returns the text that a selector compares with.
    pub(super) fn read(&self, object: &Value) -> String {
        let mut values = self.paths.split(' ').map(|path| text_at(object, path));
        let found = values.find(|value| !value.is_empty());
        found.unwrap_or_else(|| {
            let absent = match self.absent {
                Absent::Empty => "",
                Absent::False => "false",
                Absent::Zero => "0",
            };
            absent.to_owned()
        })
    }
}

/// Returns the scalar at a dotted path as text, empty if there is none.
pub(super) fn text_at(object: &Value, path: &str) -> String {
    let found = path.split('.').try_fold(object, |value, step| match value {
        Value::Array(items) => items.get(step.parse::<usize>().ok()?),
        _ => value.get(step),
    });
    match found {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

/// Returns the message for an unsupported label.
pub(super) fn not_supported(label: &str) -> String {
    format!("field label not supported: {label}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::registry::Registry;

    #[test]
    fn every_row_names_a_served_kind() {
        let served = Registry::new(Vec::new()).snapshot();
        for (group, plural, _) in KINDS {
            let is_served = served.all().any(|r| r.is(group, plural));
            assert!(is_served, "{group}/{plural}");
        }
    }

    #[test]
    fn absent_fields_have_the_zero_value_of_their_type() {
        let field = |plural: &str, label: &str| {
            let kind = KINDS.iter().find(|kind| kind.1 == plural).unwrap();
            kind.2.iter().find(|f| f.label == label).unwrap()
        };
        let empty = json!({});
        assert_eq!(field("nodes", "spec.unschedulable").read(&empty), "false");
        assert_eq!(field("jobs", "status.successful").read(&empty), "0");
        assert_eq!(field("pods", "spec.nodeName").read(&empty), "");
        let dual = json!({"status": {"podIPs": [{"ip": "10.0.0.1"}, {"ip": "::1"}]}});
        assert_eq!(field("pods", "status.podIP").read(&dual), "10.0.0.1");
        assert_eq!(field("pods", "status.podIPs").read(&dual), "");
        let new = json!({"source": {}, "reportingComponent": "c"});
        assert_eq!(field("events", "source").read(&new), "c");
    }
}
