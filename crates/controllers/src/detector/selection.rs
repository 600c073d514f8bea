//! Which templates a policy selects, and which of several policies wins.

use std::cmp::Reverse;
use std::sync::Arc;

use berth_api::policy::ResourceSelector;
use berth_api::selector::{CompiledSelector, SelectorError};

use super::policy::Policy;
use super::template::Template;

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

    /// How precisely this matches a template, if it does.
    pub fn precision(&self, template: &Template) -> Option<Precision> {
        let key = &template.key;
        let possible = self.api_version == key.api_version()
            && self.kind == key.kind()
            && (self.namespace.is_empty() || self.namespace == key.namespace);
        if !possible {
            return None;
        }
        match &self.objects {
            Objects::All => Some(Precision::All),
            Objects::Named(name) => (*name == key.name).then_some(Precision::Name),
            Objects::Labelled(labels) => labels
                .matches(&template.labels)
                .then_some(Precision::Labels),
        }
    }
}

impl Policy {
    /// How precisely the best of its selectors matches a template, if any does.
    pub fn precision(&self, template: &Template) -> Option<Precision> {
        let selectors = self.selectors.iter();
        selectors.filter_map(|s| s.precision(template)).max()
    }

    /// Whether it selects a template.
    pub fn selects(&self, template: &Template) -> bool {
        self.precision(template).is_some()
    }
}

/// The policy that wins a template among policies of one kind: explicit priority, then precision, then the
/// smallest name.
pub fn winner<'a>(
    candidates: impl Iterator<Item = &'a Arc<Policy>>,
    template: &Template,
) -> Option<&'a Arc<Policy>> {
    candidates
        .filter_map(|policy| Some((policy, policy.precision(template)?)))
        .max_by_key(|(policy, precision)| {
            (policy.priority(), *precision, Reverse(&policy.key.name))
        })
        .map(|(policy, _)| policy)
}
