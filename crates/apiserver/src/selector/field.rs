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
    /// Dotted paths of its value. The first value that is not empty counts.
    paths: &'static [&'static str],
    absent: Absent,
}

const fn text(label: &'static str, paths: &'static [&'static str]) -> Field {
    Field {
        label,
        paths,
        absent: Absent::Empty,
    }
}

const fn flag(label: &'static str, paths: &'static [&'static str]) -> Field {
    Field {
        label,
        paths,
        absent: Absent::False,
    }
}

const fn number(label: &'static str, paths: &'static [&'static str]) -> Field {
    Field {
        label,
        paths,
        absent: Absent::Zero,
    }
}

/// Fields of a kind in addition to its name and its namespace.
struct Kind {
    group: &'static str,
    plural: &'static str,
    fields: &'static [Field],
}

const KINDS: &[Kind] = &[
    Kind {
        group: "",
        plural: "pods",
        fields: &[
            text("spec.nodeName", &["spec.nodeName"]),
            // Clients of the first Kubernetes versions use this label.
            text("spec.host", &["spec.nodeName"]),
            text("spec.restartPolicy", &["spec.restartPolicy"]),
            text("spec.schedulerName", &["spec.schedulerName"]),
            text("spec.serviceAccountName", &["spec.serviceAccountName"]),
            flag("spec.hostNetwork", &["spec.hostNetwork"]),
            text("status.phase", &["status.phase"]),
            text("status.podIP", &["status.podIP", "status.podIPs.0.ip"]),
            // Kubernetes accepts the label, but its value is always empty.
            text("status.podIPs", &[]),
            text("status.nominatedNodeName", &["status.nominatedNodeName"]),
        ],
    },
    Kind {
        group: "",
        plural: "nodes",
        fields: &[flag("spec.unschedulable", &["spec.unschedulable"])],
    },
    Kind {
        group: "",
        plural: "events",
        fields: &[
            text("involvedObject.kind", &["involvedObject.kind"]),
            text("involvedObject.namespace", &["involvedObject.namespace"]),
            text("involvedObject.name", &["involvedObject.name"]),
            text("involvedObject.uid", &["involvedObject.uid"]),
            text("involvedObject.apiVersion", &["involvedObject.apiVersion"]),
            text(
                "involvedObject.resourceVersion",
                &["involvedObject.resourceVersion"],
            ),
            text("involvedObject.fieldPath", &["involvedObject.fieldPath"]),
            text("reason", &["reason"]),
            text("reportingComponent", &["reportingComponent"]),
            text("source", &["source.component", "reportingComponent"]),
            text("type", &["type"]),
        ],
    },
    // These are stored as events of core/v1.
    Kind {
        group: "events.k8s.io",
        plural: "events",
        fields: &[
            text("regarding.kind", &["involvedObject.kind"]),
            text("regarding.namespace", &["involvedObject.namespace"]),
            text("regarding.name", &["involvedObject.name"]),
            text("regarding.uid", &["involvedObject.uid"]),
            text("regarding.apiVersion", &["involvedObject.apiVersion"]),
            text(
                "regarding.resourceVersion",
                &["involvedObject.resourceVersion"],
            ),
            text("regarding.fieldPath", &["involvedObject.fieldPath"]),
            text("reason", &["reason"]),
            text("reportingController", &["reportingComponent"]),
            text("type", &["type"]),
        ],
    },
    Kind {
        group: "",
        plural: "namespaces",
        fields: &[text("status.phase", &["status.phase"])],
    },
    Kind {
        group: "",
        plural: "secrets",
        fields: &[text("type", &["type"])],
    },
    Kind {
        group: "",
        plural: "services",
        fields: &[
            text("spec.clusterIP", &["spec.clusterIP"]),
            text("spec.type", &["spec.type"]),
        ],
    },
    Kind {
        group: "",
        plural: "replicationcontrollers",
        fields: &[number("status.replicas", &["status.replicas"])],
    },
    Kind {
        group: "apps",
        plural: "replicasets",
        fields: &[number("status.replicas", &["status.replicas"])],
    },
    Kind {
        group: "batch",
        plural: "jobs",
        fields: &[number("status.successful", &["status.succeeded"])],
    },
    Kind {
        group: "certificates.k8s.io",
        plural: "certificatesigningrequests",
        fields: &[text("spec.signerName", &["spec.signerName"])],
    },
];

fn kind_of(resource: &Resource) -> Option<&'static Kind> {
    let mut kinds = KINDS.iter().filter(|_| !resource.is_custom());
    kinds.find(|kind| resource.is(kind.group, kind.plural))
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
            let mut fields = kind.fields.iter();
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
        let mut values = self.paths.iter().map(|path| text_at(object, path));
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

/// Returns the message for an unsupported label. Its wording depends on whether the kind has additional fields.
pub(super) fn not_supported(label: &str, resource: &Resource) -> String {
    if resource.is("batch", "jobs") {
        format!(
            "field label \"{label}\" not supported for {}",
            resource.kind
        )
    } else if resource.is_custom() || kind_of(resource).is_some() {
        format!("field label not supported: {label}")
    } else {
        format!(
            "\"{label}\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::registry::Registry;

    #[test]
    fn every_row_names_a_served_kind() {
        let served = Registry::new(Vec::new()).snapshot();
        for kind in KINDS {
            let is_served = served.all().any(|r| r.is(kind.group, kind.plural));
            assert!(is_served, "{}/{}", kind.group, kind.plural);
        }
    }

    #[test]
    fn absent_fields_have_the_zero_value_of_their_type() {
        let field = |plural: &str, label: &str| {
            let kind = KINDS.iter().find(|kind| kind.plural == plural).unwrap();
            kind.fields.iter().find(|f| f.label == label).unwrap()
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
