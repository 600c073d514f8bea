//! The record of one cluster in the fleet, with the fields that decisions read.

use std::sync::Arc;

use berth_api::Cluster;
use k8s_openapi::api::core::v1::Taint;

use super::capacity::Capacity;
use super::symbols::Symbol;

/// A taint that repels workloads: its effect is `NoSchedule` or `NoExecute`. The engine ignores taints with the effect
/// `PreferNoSchedule`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RepellingTaint {
    /// The key.
    pub key: String,
    /// The value, empty if the taint has no value.
    pub value: String,
    /// The effect.
    pub effect: RepellingEffect,
}

/// An effect of a taint that repels workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RepellingEffect {
    /// Prevents new placements.
    NoSchedule,
    /// Prevents new placements, and evicts workloads.
    NoExecute,
}

impl RepellingEffect {
    /// Returns the name of the effect in the Kubernetes API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoSchedule => "NoSchedule",
            Self::NoExecute => "NoExecute",
        }
    }
}

impl RepellingTaint {
    pub(crate) fn read(taint: &Taint) -> Option<Self> {
        let effect = match taint.effect.as_str() {
            "NoSchedule" => RepellingEffect::NoSchedule,
            "NoExecute" => RepellingEffect::NoExecute,
            _ => return None,
        };
        Some(Self {
            key: taint.key.clone(),
            value: taint.value.clone().unwrap_or_default(),
            effect,
        })
    }
}

/// Formats the taint as `key=value:Effect`, or as `key:Effect` if it has no value.
impl std::fmt::Display for RepellingTaint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.value.is_empty() {
            write!(f, "{}:{}", self.key, self.effect.as_str())
        } else {
            write!(f, "{}={}:{}", self.key, self.value, self.effect.as_str())
        }
    }
}

/// An interned string with its symbol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Interned {
    pub(crate) symbol: Symbol,
    pub(crate) text: Arc<str>,
}

/// The data of one cluster that decisions read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) name: Arc<str>,
    /// The labels, sorted by key.
    pub(crate) labels: Vec<(Interned, Interned)>,
    pub(crate) provider: Option<Interned>,
    pub(crate) region: Option<Interned>,
    pub(crate) zones: Vec<Interned>,
    pub(crate) taints: Arc<[RepellingTaint]>,
    /// The index of `taints` in the fleet's list of distinct taint lists.
    pub(crate) taint_list: u32,
    /// The API resources that the cluster serves, as numbers of the [`Catalogue`](super::api_numbers::Catalogue), in
    /// reported order.
    pub(crate) apis: Arc<[u32]>,
    /// True if `apis` is complete: the cluster is ready, and all of its API groups were discovered.
    pub(crate) apis_complete: bool,
    pub(crate) deleting: bool,
    pub(crate) capacity: Arc<Capacity>,
    /// The Cluster object, if the fleet keeps objects.
    pub(crate) object: Option<Arc<Cluster>>,
}

impl Row {
    /// Returns the symbols of all interned strings in the row.
    pub(crate) fn symbols(&self) -> impl Iterator<Item = Symbol> + '_ {
        let labels = self.labels.iter().flat_map(|(key, value)| [key, value]);
        labels
            .chain(&self.provider)
            .chain(&self.region)
            .chain(&self.zones)
            .map(|interned| interned.symbol)
    }
}
