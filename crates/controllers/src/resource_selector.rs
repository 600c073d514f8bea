//! Resource selectors of propagation policies and override policies.

use std::borrow::Cow;
use std::collections::BTreeMap;

use berth_api::label_selector::{CompiledSelector, SelectorError};
use berth_api::policy::ResourceSelector;
use serde_json::Value;

/// The precision of a match. Among policies of equal explicit priority, the policy with the more precise match wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Precision {
    /// The selector has no name and no labels, so all objects of the kind match.
    All,
    /// The labels of the object match.
    Labels,
    /// The name of the object matches.
    Name,
}

/// The fields of a resource that selectors compare.
#[derive(Clone, Debug)]
pub struct ResourceIdentity<'a> {
    /// The API version, for example `apps/v1`.
    pub api_version: &'a str,
    /// The kind.
    pub kind: &'a str,
    /// The namespace, empty for cluster-scoped resources.
    pub namespace: &'a str,
    /// The name.
    pub name: &'a str,
    /// The labels.
    pub labels: Cow<'a, BTreeMap<String, String>>,
}

impl<'a> ResourceIdentity<'a> {
    /// Reads the identity from a manifest.
    pub fn of(manifest: &'a Value) -> Self {
        let text = |pointer: &str| {
            let value = manifest.pointer(pointer).and_then(Value::as_str);
            value.unwrap_or_default()
        };
        let labels = manifest.pointer("/metadata/labels");
        let labels = labels.and_then(Value::as_object).into_iter().flatten();
        Self {
            api_version: text("/apiVersion"),
            kind: text("/kind"),
            namespace: text("/metadata/namespace"),
            name: text("/metadata/name"),
            labels: Cow::Owned(
                labels
                    .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
                    .collect(),
            ),
        }
    }
}

/// Reports whether two kinds with their API versions are the same kind in two versions of one group. A server stores an
/// object once, and serves it in all versions of its group.
pub fn is_same_kind(one: (&str, &str), other: (&str, &str)) -> bool {
    one.1 == other.1 && group_of(one.0) == group_of(other.0)
}

/// Returns the group of an API version, which is empty for the core group.
pub fn group_of(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

/// A compiled resource selector of a policy.
#[derive(Clone, Debug)]
pub struct Selector {
    /// The API version, for example `apps/v1`. Objects of other versions of the group match too.
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// The namespace, empty for a selector that matches all namespaces.
    pub namespace: String,
    /// The selected objects of the kind.
    pub objects: Objects,
}

/// The objects of a kind that a selector matches.
#[derive(Clone, Debug)]
pub enum Objects {
    /// All objects.
    All,
    /// The object with this name.
    Named(String),
    /// The objects whose labels match.
    Labelled(CompiledSelector),
}

impl Selector {
    /// Compiles a selector. A selector with a name ignores its label selector.
    ///
    /// # Errors
    /// When the label selector is invalid.
    pub fn compile(selector: &ResourceSelector) -> Result<Self, SelectorError> {
        let objects = match &selector.label_selector {
            _ if !selector.name.is_empty() => Objects::Named(selector.name.clone()),
            Some(labels) => Objects::Labelled(labels.compile()?),
            None => Objects::All,
        };
        Ok(Self {
            api_version: selector.api_version.clone(),
            kind: selector.kind.clone(),
            namespace: selector.namespace.clone(),
            objects,
        })
    }

    /// Returns the precision with which the selector matches a resource, or `None` if the selector does not match.
    pub fn precision_of(&self, resource: &ResourceIdentity<'_>) -> Option<Precision> {
        let ResourceIdentity {
            api_version,
            kind,
            namespace,
            name,
            labels,
        } = resource;
        if !self.may_match(api_version, kind, namespace, name) {
            return None;
        }
        match &self.objects {
            Objects::All => Some(Precision::All),
            Objects::Named(_) => Some(Precision::Name),
            Objects::Labelled(selector) => selector.matches(labels).then_some(Precision::Labels),
        }
    }

    /// Reports whether the selector matches a resource, without a check of the labels.
    pub fn may_match(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> bool {
        is_same_kind((&self.api_version, &self.kind), (api_version, kind))
            && (self.namespace.is_empty() || self.namespace == namespace)
            && match &self.objects {
                Objects::Named(wanted) => wanted == name,
                Objects::All | Objects::Labelled(_) => true,
            }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_selector_matches_every_version_of_its_group() {
        let selector = |api_version: &str| {
            let selector = json!({ "apiVersion": api_version, "kind": "HorizontalPodAutoscaler", "name": "h" });
            Selector::compile(&serde_json::from_value(selector).unwrap()).unwrap()
        };
        let manifest = json!({ "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
            "metadata": { "name": "h", "namespace": "default" } });
        for (api_version, matches) in [
            ("autoscaling/v1", true),
            ("autoscaling/v2", true),
            ("autoscaling.example.com/v2", false),
            ("v2", false),
        ] {
            let precision = selector(api_version).precision_of(&ResourceIdentity::of(&manifest));
            assert_eq!(precision.is_some(), matches, "{api_version}");
        }
    }
}
