//! The fields by which field selectors can select objects. All kinds have the field `metadata.name`. The constant
//! `KINDS` lists the additional fields of built-in kinds: their labels in requests, and the paths of their values in
//! stored objects. Custom kinds declare additional fields in `selectableFields`.

use serde_json::Value;

use crate::resource::Resource;

/// The group and plural of a kind, and its fields in addition to name and namespace, separated by spaces.
type Kind = (&'static str, &'static str, &'static str);

/// The built-in kinds with additional fields. A field is `LABEL[=PATH[|PATH]][?DEFAULT]`. The label names the field in
/// requests, and is also the path if no `=` follows. The value is the first value at these paths that is not empty. If
/// there is none, the value is the default, or empty.
const KINDS: &[Kind] = &[
    (
        "",
        "pods",
        "spec.nodeName spec.host=spec.nodeName spec.restartPolicy spec.schedulerName spec.serviceAccountName \
         spec.hostNetwork?false status.phase status.podIP=status.podIP|status.podIPs.0.ip status.podIPs= \
         status.nominatedNodeName",
    ),
    ("", "nodes", "spec.unschedulable?false"),
    (
        "",
        "events",
        "involvedObject.kind involvedObject.namespace involvedObject.name involvedObject.uid involvedObject.apiVersion \
         involvedObject.resourceVersion involvedObject.fieldPath reason reportingComponent \
         source=source.component|reportingComponent type",
    ),
    // These events are stored as events of core/v1, so their paths name fields of core/v1.
    (
        "events.k8s.io",
        "events",
        "regarding.kind=involvedObject.kind regarding.namespace=involvedObject.namespace \
         regarding.name=involvedObject.name regarding.uid=involvedObject.uid \
         regarding.apiVersion=involvedObject.apiVersion regarding.resourceVersion=involvedObject.resourceVersion \
         regarding.fieldPath=involvedObject.fieldPath reason reportingController=reportingComponent type",
    ),
    ("", "namespaces", "status.phase"),
    ("", "secrets", "type"),
    ("", "services", "spec.clusterIP spec.type"),
    ("", "replicationcontrollers", "status.replicas?0"),
    ("apps", "replicasets", "status.replicas?0"),
    ("batch", "jobs", "status.successful=status.succeeded?0"),
    (
        "certificates.k8s.io",
        "certificatesigningrequests",
        "spec.signerName",
    ),
];

/// A field by which objects can be selected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Field {
    label: &'static str,
    paths: &'static str,
    absent: &'static str,
}

fn kind_of(resource: &Resource) -> Option<&'static Kind> {
    let mut kinds = KINDS.iter().filter(|_| !resource.is_custom());
    kinds.find(|(group, plural, _)| resource.is(group, plural))
}

/// The field that a label in a field selector names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SelectedField {
    Name,
    Namespace,
    Builtin(Field),
    /// The path of a field in a custom resource.
    Custom(String),
}

impl SelectedField {
    /// Returns the field for a label, or `None` if objects of the resource cannot be selected by this label.
    pub(super) fn parse(label: &str, resource: &Resource) -> Option<Self> {
        let kind = kind_of(resource);
        // A built-in kind without additional fields accepts the labels of name and namespace, even if it is
        // cluster-scoped.
        let has_namespace = resource.namespaced() || (kind.is_none() && !resource.is_custom());
        match label {
            "metadata.name" => return Some(Self::Name),
            "metadata.namespace" if has_namespace => return Some(Self::Namespace),
            _ => {}
        }
        if let Some(kind) = kind {
            let mut fields = kind.2.split(' ').map(Field::parse);
            return fields.find(|field| field.label == label).map(Self::Builtin);
        }
        let mut declared = resource.selectable.iter();
        let path = declared.find(|path| *path == label)?;
        Some(Self::Custom(path.clone()))
    }
}

impl Field {
    fn parse(text: &'static str) -> Self {
        let (text, absent) = text.split_once('?').unwrap_or((text, ""));
        let (label, paths) = text.split_once('=').unwrap_or((text, text));
        Self {
            label,
            paths,
            absent,
        }
    }

    /// Returns the value of the field in an object, as text.
    pub(super) fn read(&self, object: &Value) -> String {
        let mut values = self.paths.split('|').map(|path| text_at(object, path));
        let found = values.find(|value| !value.is_empty());
        found.unwrap_or_else(|| self.absent.to_owned())
    }
}

/// Returns the value at a dotted path as text: a string without quotes, any other value as JSON. The result is empty if
/// the value is missing or null.
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

/// Returns the message for an unsupported label of a field.
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
    fn a_field_has_the_value_at_its_paths_or_the_zero_value_of_its_type() {
        let field = |plural: &str, label: &str| {
            let kind = KINDS.iter().find(|kind| kind.1 == plural).unwrap();
            let mut fields = kind.2.split(' ').map(Field::parse);
            fields.find(|f| f.label == label).unwrap()
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
