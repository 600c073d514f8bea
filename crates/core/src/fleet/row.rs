//! One cluster, as the engine sees it.

use std::sync::Arc;

use berth_api::Cluster;
use k8s_openapi::api::core::v1::Taint;

use super::capacity::Capacity;
use super::symbols::Symbol;

/// A taint that keeps workloads away. Taints that merely prefer (`PreferNoSchedule`) are not kept.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RepellingTaint {
    /// Its key.
    pub key: String,
    /// Its value; empty when absent.
    pub value: String,
    /// What it does.
    pub effect: RepellingEffect,
}

/// The effects that keep workloads away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RepellingEffect {
    /// Nothing new is placed.
    NoSchedule,
    /// Nothing stays either.
    NoExecute,
}

impl RepellingEffect {
    /// The effect as on the wire.
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

/// `key=value:Effect`, or `key:Effect` without a value.
impl std::fmt::Display for RepellingTaint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.value.is_empty() {
            write!(f, "{}:{}", self.key, self.effect.as_str())
        } else {
            write!(f, "{}={}:{}", self.key, self.value, self.effect.as_str())
        }
    }
}

/// A string with the symbol that stands for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Interned {
    pub(crate) symbol: Symbol,
    pub(crate) text: Arc<str>,
}

/// What the engine keeps of a cluster.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) name: Arc<str>,
    /// Key and value of each label, by key.
    pub(crate) labels: Vec<(Interned, Interned)>,
    pub(crate) provider: Option<Interned>,
    pub(crate) region: Option<Interned>,
    pub(crate) zones: Vec<Interned>,
    pub(crate) taints: Arc<[RepellingTaint]>,
    /// The place of `taints` among the distinct lists of taints.
    pub(crate) taint_list: u32,
    /// The API resources served, as numbered by the catalogue, in the order reported.
    pub(crate) apis: Arc<[u32]>,
    pub(crate) deleting: bool,
    pub(crate) capacity: Arc<Capacity>,
    /// Where the fleet keeps objects.
    pub(crate) object: Option<Arc<Cluster>>,
}

impl Row {
    /// Every string of the row that holds a symbol.
    pub(crate) fn symbols(&self) -> impl Iterator<Item = Symbol> + '_ {
        let labels = self.labels.iter().flat_map(|(key, value)| [key, value]);
        labels
            .chain(&self.provider)
            .chain(&self.region)
            .chain(&self.zones)
            .map(|interned| interned.symbol)
    }
}
