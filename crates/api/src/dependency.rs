//! [`DependentObjectReference`]: a dependency of a resource, by name or label selector, and the annotation that lists
//! dependencies. A dependency, such as a ConfigMap, must exist in the same clusters as the resource.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::label_selector::LabelSelector;

/// A reference to one object by name, or to several objects by labels. Karmada stores the references of a binding as a
/// list in the annotation [`DEPENDENCIES`](crate::well_known::DEPENDENCIES).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DependentObjectReference {
    /// The API version, for example `v1`.
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// The namespace.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The name; takes precedence over the selector.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The selector over the labels of the objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
}

impl DependentObjectReference {
    /// Reports whether an object with this name and these labels matches the reference. The caller compares kind and
    /// namespace. An invalid selector matches no object.
    pub fn matches(&self, name: &str, labels: &BTreeMap<String, String>) -> bool {
        if !self.name.is_empty() {
            return self.name == name;
        }
        let selector = self.label_selector.as_ref();
        let compiled = selector.and_then(|selector| selector.compile().ok());
        compiled.is_some_and(|selector| selector.matches(labels))
    }
}

/// Formats the reference like a Go struct, because Karmada's events contain this format.
impl fmt::Display for DependentObjectReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{{APIVersion:{} Kind:{} Namespace:{} Name:{} LabelSelector:",
            self.api_version, self.kind, self.namespace, self.name
        )?;
        let Some(selector) = &self.label_selector else {
            return f.write_str("nil}");
        };
        f.write_str("&LabelSelector{MatchLabels:map[string]string{")?;
        for (key, value) in &selector.match_labels {
            write!(f, "{key}: {value},")?;
        }
        f.write_str("},MatchExpressions:[]LabelSelectorRequirement{")?;
        for expression in &selector.match_expressions {
            let (key, operator) = (&expression.key, &expression.operator);
            let values = expression.values.join(" ");
            write!(
                f,
                "LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{values}],}},"
            )?;
        }
        f.write_str("},}}")
    }
}

/// Parses the annotation. Returns `None` if the annotation is malformed. Karmada writes `null` for an empty list.
pub fn read_list(annotation: &str) -> Option<Vec<DependentObjectReference>> {
    let list: Option<Vec<DependentObjectReference>> = serde_json::from_str(annotation).ok()?;
    Some(list.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn reference(value: serde_json::Value) -> DependentObjectReference {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn name_takes_precedence_over_selector() {
        let labels = BTreeMap::from([("app".to_owned(), "web".to_owned())]);
        let selector = json!({ "matchLabels": { "app": "web" } });
        let wrong = json!({ "matchExpressions": [{ "key": "app", "operator": "Like" }] });
        for (named, selector, expected) in [
            ("a", json!(null), true),
            ("b", json!(null), false),
            ("b", selector.clone(), false),
            ("", selector, true),
            ("", json!({ "matchLabels": { "app": "db" } }), false),
            ("", wrong, false),
            ("", json!(null), false),
        ] {
            let reference = reference(json!({ "apiVersion": "v1", "kind": "ConfigMap",
                "namespace": "n", "name": named, "labelSelector": selector }));
            assert_eq!(reference.matches("a", &labels), expected, "{reference:?}");
        }
    }

    #[test]
    fn annotation_is_a_list_or_null() {
        assert_eq!(read_list("null"), Some(Vec::new()));
        assert_eq!(read_list("{}"), None);
        let text =
            r#"[{"apiVersion":"v1","kind":"ConfigMap","namespace":"default","name":"settings"}]"#;
        let list = read_list(text).unwrap();
        assert_eq!(serde_json::to_string(&list).unwrap(), text);
    }

    #[test]
    fn display_equals_the_go_struct() {
        let named = reference(json!({ "apiVersion": "v1", "kind": "ConfigMap",
            "namespace": "default", "name": "settings" }));
        assert_eq!(
            named.to_string(),
            "{APIVersion:v1 Kind:ConfigMap Namespace:default Name:settings LabelSelector:nil}"
        );
        let selecting = reference(json!({ "apiVersion": "v1", "kind": "ConfigMap",
            "namespace": "default", "labelSelector": { "matchLabels": { "a": "b" } } }));
        assert_eq!(
            selecting.to_string(),
            "{APIVersion:v1 Kind:ConfigMap Namespace:default Name: \
             LabelSelector:&LabelSelector{MatchLabels:map[string]string{a: b,},\
             MatchExpressions:[]LabelSelectorRequirement{},}}"
        );
    }
}
