//! Which resources the selectors of policies and of override policies match, and how precisely.

use std::borrow::Cow;
use std::collections::BTreeMap;

use berth_api::policy::ResourceSelector;
use berth_api::selector::{CompiledSelector, SelectorError};
use serde_json::Value;

/// How precisely a selector matches. Among policies of equal explicit priority the more precise one wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Precision {
    /// By kind alone.
    All,
    /// By labels.
    Labels,
    /// By name.
    Name,
}

/// What selectors look at in a resource.
#[derive(Clone, Debug)]
pub struct ResourceIdentity<'a> {
    /// For example `apps/v1`.
    pub api_version: &'a str,
    /// The kind.
    pub kind: &'a str,
    /// Its namespace, empty for cluster-scoped resources.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its labels.
    pub labels: Cow<'a, BTreeMap<String, String>>,
}

impl<'a> ResourceIdentity<'a> {
    /// What is written in a manifest.
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

/// A resource selector, ready to match.
#[derive(Clone, Debug)]
pub struct Selector {
    /// For example `apps/v1`.
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// The namespace; empty matches all.
    pub namespace: String,
    /// Which objects.
    pub objects: Objects,
}

/// Which objects of a kind a selector matches.
#[derive(Clone, Debug)]
pub enum Objects {
    /// All.
    All,
    /// The one of this name.
    Named(String),
    /// Those with these labels.
    Labelled(CompiledSelector),
}

impl Selector {
    /// Checks a selector. Where it has a name its label selector does not count, and is not looked at.
    ///
    /// # Errors
    /// When the label selector is not valid.
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

    /// How precisely this matches a resource, if it does.
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

    /// Whether this matches a resource, as far as that can be said without its labels.
    pub fn may_match(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> bool {
        self.api_version == api_version
            && self.kind == kind
            && (self.namespace.is_empty() || self.namespace == namespace)
            && match &self.objects {
                Objects::Named(wanted) => wanted == name,
                Objects::All | Objects::Labelled(_) => true,
            }
    }
}
