//! Compiled cluster affinities. A compiled affinity matches one cluster, or all clusters of a fleet at once.

use std::collections::BTreeMap;

use berth_api::Cluster;
use berth_api::field_selector::{CompiledFieldSelector, FieldRequirement};
use berth_api::label_selector::{CompiledSelector, LabelRequirement, Relation};
use berth_api::placement::ClusterAffinity;

use super::ClusterView;
use super::symbols::{NONE, Symbol};
use super::topology::Topology;
use crate::cluster_set::Bits;

/// A label selector or field selector of an affinity.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Part<T> {
    /// The selector is absent, so every cluster matches.
    Any,
    /// The selector is valid.
    Must(T),
    /// The selector is invalid, so no cluster matches.
    Never,
}

impl<T> Part<T> {
    fn new<E>(compiled: Option<Result<T, E>>) -> Self {
        match compiled {
            None => Self::Any,
            Some(Ok(selector)) => Self::Must(selector),
            Some(Err(_)) => Self::Never,
        }
    }

    fn is_satisfied(&self, matches: impl FnOnce(&T) -> bool) -> bool {
        match self {
            Self::Any => true,
            Self::Must(selector) => matches(selector),
            Self::Never => false,
        }
    }
}

/// A compiled cluster affinity. A cluster matches if it matches all parts of the affinity. An empty affinity matches
/// every cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CompiledAffinity {
    labels: Part<CompiledSelector>,
    fields: Part<CompiledFieldSelector>,
    /// The allowed cluster names. If empty, all names are allowed.
    names: Vec<String>,
    excluded: Vec<String>,
}

impl CompiledAffinity {
    /// Compiles an affinity. An invalid selector matches no cluster, as in Kubernetes.
    pub fn new(affinity: &ClusterAffinity) -> Self {
        Self {
            labels: Part::new(
                affinity
                    .label_selector
                    .as_ref()
                    .map(berth_api::label_selector::LabelSelector::compile),
            ),
            fields: Part::new(
                affinity
                    .field_selector
                    .as_ref()
                    .map(berth_api::field_selector::FieldSelector::compile),
            ),
            names: affinity.cluster_names.clone(),
            excluded: affinity.exclude_clusters.clone(),
        }
    }

    /// Reports whether a Cluster object matches.
    pub fn matches(&self, cluster: &Cluster) -> bool {
        static NO_LABELS: BTreeMap<String, String> = BTreeMap::new();
        let name = cluster.metadata.name.as_deref().unwrap_or_default();
        let labels = cluster.metadata.labels.as_ref().unwrap_or(&NO_LABELS);
        let spec = &cluster.spec;
        !self.excluded.iter().any(|excluded| excluded == name)
            && self
                .labels
                .is_satisfied(|selector| selector.matches(labels))
            && self.fields.is_satisfied(|selector| {
                selector.matches(
                    spec.provider.as_deref().unwrap_or_default(),
                    spec.region.as_deref().unwrap_or_default(),
                    &spec.zones,
                )
            })
            && (self.names.is_empty() || self.names.iter().any(|wanted| wanted == name))
    }

    /// Reports whether a cluster of a snapshot matches.
    pub fn matches_view(&self, cluster: &ClusterView<'_>) -> bool {
        !self
            .excluded
            .iter()
            .any(|excluded| excluded == cluster.name())
            && self.labels.is_satisfied(|selector| {
                selector.requirements().iter().all(|requirement| {
                    requirement
                        .relation()
                        .matches(cluster.label(requirement.key()))
                })
            })
            && self.fields.is_satisfied(|selector| {
                let zones: Vec<String> = cluster.zones().map(str::to_owned).collect();
                selector.matches(cluster.provider(), cluster.region(), &zones)
            })
            && (self.names.is_empty() || self.names.iter().any(|wanted| wanted == cluster.name()))
    }

    /// Returns the set of the clusters in a fleet that match.
    pub(crate) fn mask(&self, fleet: &Topology) -> Bits {
        let len = fleet.len();
        if matches!(self.labels, Part::Never) || matches!(self.fields, Part::Never) {
            return Bits::none(len);
        }
        let mut mask = if self.names.is_empty() {
            Bits::all(len)
        } else {
            let mut named = Bits::none(len);
            for ordinal in self.names.iter().filter_map(|name| fleet.ordinal(name)) {
                named.insert(ordinal);
            }
            named
        };
        if let Part::Must(selector) = &self.labels {
            for requirement in selector.requirements() {
                let column = fleet
                    .symbols
                    .get(requirement.key())
                    .and_then(|key| fleet.labels.get(&key));
                mask.intersect(&label_mask(
                    fleet,
                    column.map(|column| column.as_slice()),
                    requirement,
                ));
            }
        }
        if let Part::Must(selector) = &self.fields {
            for requirement in selector.requirements() {
                mask.intersect(&field_mask(fleet, requirement));
            }
        }
        for ordinal in self.excluded.iter().filter_map(|name| fleet.ordinal(name)) {
            mask.remove(ordinal);
        }
        mask
    }
}

fn field_mask(fleet: &Topology, requirement: &FieldRequirement) -> Bits {
    match requirement {
        FieldRequirement::Field(requirement) => {
            let column = match requirement.key() {
                "provider" => Some(fleet.providers.as_slice()),
                "region" => Some(fleet.regions.as_slice()),
                _ => None,
            };
            label_mask(fleet, column, requirement)
        }
        FieldRequirement::Zones(relation) => {
            let zones = |ordinal: usize| fleet.zones.get(ordinal).map_or(&[][..], |zones| zones);
            let overlapping = |values: &[String]| {
                let wanted = symbols_of(fleet, values);
                Bits::from_fn(fleet.len(), |ordinal| {
                    zones(ordinal).iter().any(|zone| wanted.contains(zone))
                })
            };
            match relation {
                Relation::In(values) => overlapping(values),
                Relation::NotIn(values) => inverted(&overlapping(values)),
                Relation::Exists => {
                    Bits::from_fn(fleet.len(), |ordinal| !zones(ordinal).is_empty())
                }
                Relation::DoesNotExist => {
                    Bits::from_fn(fleet.len(), |ordinal| zones(ordinal).is_empty())
                }
                Relation::GreaterThan(_) | Relation::LessThan(_) => Bits::none(fleet.len()),
            }
        }
    }
}

/// Returns the clusters whose value of a label satisfies a requirement. `column` contains the values of all clusters.
/// `None` means that no cluster has the label.
fn label_mask(fleet: &Topology, column: Option<&[Symbol]>, requirement: &LabelRequirement) -> Bits {
    let Some(column) = column else {
        return if requirement.relation().matches(None) {
            Bits::all(fleet.len())
        } else {
            Bits::none(fleet.len())
        };
    };
    let any_of = |values: &[String]| match symbols_of(fleet, values).as_slice() {
        [] => Bits::none(fleet.len()),
        &[wanted] => Bits::from_column(column, |value| value == wanted),
        &[one, two] => Bits::from_column(column, |value| value == one || value == two),
        wanted => Bits::from_column(column, |value| wanted.binary_search(&value).is_ok()),
    };
    match requirement.relation() {
        Relation::In(values) => any_of(values),
        Relation::NotIn(values) => inverted(&any_of(values)),
        Relation::Exists => Bits::from_column(column, |value| value != NONE),
        Relation::DoesNotExist => Bits::from_column(column, |value| value == NONE),
        relation @ (Relation::GreaterThan(_) | Relation::LessThan(_)) => {
            // The operators `Gt` and `Lt` are rare, so testing all strings of the fleet is acceptable.
            let matching: Vec<Symbol> = fleet
                .symbols
                .satisfying(|text| relation.matches(Some(text)));
            Bits::from_column(column, |value| matching.binary_search(&value).is_ok())
        }
    }
}

/// Returns the symbols of the values, in ascending order. Omits values that no cluster has.
fn symbols_of(fleet: &Topology, values: &[String]) -> Vec<Symbol> {
    let mut symbols: Vec<Symbol> = values
        .iter()
        .filter_map(|value| fleet.symbols.get(value))
        .collect();
    symbols.sort_unstable();
    symbols
}

fn inverted(mask: &Bits) -> Bits {
    let mut all = Bits::all(mask.len());
    all.subtract(mask);
    all
}
