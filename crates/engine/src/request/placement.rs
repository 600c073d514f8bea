//! Compiled placements. They contain compiled affinities, and enums instead of strings.

use std::sync::Arc;

use berth_api::placement::{
    ClusterAffinityTerm, DynamicWeightFactor, Placement, ReplicaDivisionPreference,
    ReplicaScheduling, ReplicaSchedulingType, SpreadConstraint, SpreadField,
};
use berth_api::toleration::Toleration;

use crate::fleet::{CompiledAffinity, RepellingTaint};

/// The parts of a placement that affect decisions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CompiledPlacement {
    /// The affinity in `clusterAffinity`, which takes precedence over the affinity terms.
    affinity: Option<CompiledAffinity>,
    /// The affinity terms in `clusterAffinities`.
    terms: Vec<Term>,
    tolerations: Vec<CompiledToleration>,
    constraints: Vec<Constraint>,
    strategy: Strategy,
    static_weights_skip_constraints: bool,
}

/// An affinity term: an entry of `clusterAffinities`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Term {
    name: Arc<str>,
    primary: CompiledAffinity,
    /// The affinities of the overflow groups, in order.
    overflow: Vec<CompiledAffinity>,
}

/// The property by which a spread constraint groups clusters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SpreadBy {
    /// Each cluster is a group.
    Cluster,
    /// The region.
    Region,
    /// The zones.
    Zone,
    /// The provider.
    Provider,
    /// The value of the label with this key.
    Label(String),
    /// An unknown or missing field.
    Unknown,
}

/// A spread constraint: bounds on the number of groups.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Constraint {
    by: SpreadBy,
    min: usize,
    /// The maximum number of groups. `None` means that there is no limit.
    max: Option<usize>,
}

/// The method of assigning replicas.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Strategy {
    /// Every cluster gets all replicas.
    Duplicated,
    /// Divides the replicas by static weights. If no selected cluster has a positive weight, all selected clusters have
    /// equal weights.
    StaticWeights(Vec<(CompiledAffinity, i64)>),
    /// Divides the replicas by the capacity of clusters.
    DynamicWeights,
    /// Divides the replicas by the capacity of clusters, among as few clusters as possible.
    Aggregated,
    /// An unknown method.
    Unsupported {
        /// The value of `replicaSchedulingType`.
        scheduling: String,
        /// The value of `replicaDivisionPreference`.
        division: String,
    },
}

/// A toleration of cluster taints.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CompiledToleration {
    key: Option<String>,
    effect: Option<String>,
    value: ToleratedValue,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum ToleratedValue {
    /// Tolerates every value, for the operator `Exists`.
    Any,
    /// Tolerates this value, for the operator `Equal`, which is the default.
    Equal(String),
    /// Tolerates no value, for the operators `Lt` and `Gt` and for unknown operators.
    Never,
}

impl CompiledPlacement {
    pub(crate) fn new(placement: &Placement) -> Self {
        let scheduling = placement.replica_scheduling.as_ref();
        Self {
            affinity: placement
                .cluster_affinity
                .as_ref()
                .map(CompiledAffinity::new),
            terms: placement.cluster_affinities.iter().map(Term::new).collect(),
            tolerations: placement
                .cluster_tolerations
                .iter()
                .map(CompiledToleration::new)
                .collect(),
            constraints: placement
                .spread_constraints
                .iter()
                .map(Constraint::new)
                .collect(),
            strategy: scheduling.map_or(Strategy::Duplicated, Strategy::new),
            static_weights_skip_constraints: scheduling
                .is_some_and(static_weights_skip_constraints),
        }
    }

    /// Returns the affinity in `clusterAffinity`, which takes precedence over the affinity terms.
    pub fn affinity(&self) -> Option<&CompiledAffinity> {
        self.affinity.as_ref()
    }

    /// Returns the affinity terms in `clusterAffinities`, in order.
    pub fn terms(&self) -> &[Term] {
        &self.terms
    }

    /// Returns the tolerations of cluster taints.
    pub fn tolerations(&self) -> &[CompiledToleration] {
        &self.tolerations
    }

    /// Returns the spread constraints.
    pub fn constraints(&self) -> &[Constraint] {
        &self.constraints
    }

    /// Returns the method of assigning replicas.
    pub fn strategy(&self) -> &Strategy {
        &self.strategy
    }

    /// Reports whether Karmada ignores all spread constraints because of static weights.
    pub fn static_weights_skip_constraints(&self) -> bool {
        self.static_weights_skip_constraints
    }

    /// Returns the index of the first affinity term with this name.
    pub fn term_named(&self, name: &str) -> Option<usize> {
        self.terms.iter().position(|term| &*term.name == name)
    }

    /// Returns the last spread constraint by this property.
    pub fn constraint(&self, by: &SpreadBy) -> Option<&Constraint> {
        self.constraints
            .iter()
            .rev()
            .find(|constraint| constraint.by == *by)
    }

    /// Reports whether every selected cluster gets all replicas. The selection then accepts any total capacity.
    pub fn duplicates(&self) -> bool {
        self.strategy == Strategy::Duplicated
    }
}

impl Term {
    /// Returns the name of the term.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Returns the affinity of the primary clusters.
    pub fn primary(&self) -> &CompiledAffinity {
        &self.primary
    }

    /// Returns the affinities of the overflow groups, in order.
    pub fn overflow(&self) -> &[CompiledAffinity] {
        &self.overflow
    }

    fn new(term: &ClusterAffinityTerm) -> Self {
        Self {
            name: term.affinity_name.as_str().into(),
            primary: CompiledAffinity::new(&term.affinity),
            overflow: term
                .overflow_affinities
                .iter()
                .map(|overflow| CompiledAffinity::new(&overflow.affinity))
                .collect(),
        }
    }
}

impl Constraint {
    /// Returns the property by which the constraint groups clusters.
    pub fn by(&self) -> &SpreadBy {
        &self.by
    }

    /// Returns the minimum number of groups.
    pub fn min(&self) -> usize {
        self.min
    }

    /// Returns the maximum number of groups, or `None` if there is no limit.
    pub fn max(&self) -> Option<usize> {
        self.max
    }

    fn new(constraint: &SpreadConstraint) -> Self {
        let label = constraint
            .spread_by_label
            .as_deref()
            .filter(|key| !key.is_empty());
        let by = match (&constraint.spread_by_field, label) {
            (Some(SpreadField::Cluster), _) => SpreadBy::Cluster,
            (Some(SpreadField::Region), _) => SpreadBy::Region,
            (Some(SpreadField::Zone), _) => SpreadBy::Zone,
            (Some(SpreadField::Provider), _) => SpreadBy::Provider,
            (Some(SpreadField::Other(field)), None) if !field.is_empty() => SpreadBy::Unknown,
            (_, Some(key)) => SpreadBy::Label(key.to_owned()),
            (_, None) => SpreadBy::Unknown,
        };
        Self {
            by,
            min: usize::try_from(constraint.min_groups).unwrap_or(0),
            max: usize::try_from(constraint.max_groups)
                .ok()
                .filter(|&max| max > 0),
        }
    }
}

impl Strategy {
    fn new(scheduling: &ReplicaScheduling) -> Self {
        use ReplicaDivisionPreference::{Aggregated, Weighted};
        let kind = scheduling.replica_scheduling_type.as_ref();
        let division = scheduling.replica_division_preference.as_ref();
        match (kind, division) {
            (Some(ReplicaSchedulingType::Duplicated), _) => Self::Duplicated,
            (Some(ReplicaSchedulingType::Divided), Some(Aggregated)) => Self::Aggregated,
            (Some(ReplicaSchedulingType::Divided), Some(Weighted)) => {
                let preference = scheduling.weight_preference.as_ref();
                if preference.is_some_and(|preference| is_set(preference.dynamic_weight.as_ref())) {
                    return Self::DynamicWeights;
                }
                let rules = preference.map_or(&[][..], |preference| &preference.static_weight_list);
                Self::StaticWeights(
                    rules
                        .iter()
                        .map(|rule| (CompiledAffinity::new(&rule.target_cluster), rule.weight))
                        .collect(),
                )
            }
            _ => Self::Unsupported {
                scheduling: kind.map_or_else(String::new, ToString::to_string),
                division: division.map_or_else(String::new, ToString::to_string),
            },
        }
    }
}

/// Reports whether Karmada ignores all spread constraints of a placement that divides replicas by weights. Karmada
/// ignores the constraints if the weight preference is absent, or contains static weights and no dynamic weight. If the
/// preference is present but empty, Karmada applies the constraints, and uses equal static weights.
fn static_weights_skip_constraints(scheduling: &ReplicaScheduling) -> bool {
    scheduling.replica_scheduling_type == Some(ReplicaSchedulingType::Divided)
        && scheduling.replica_division_preference == Some(ReplicaDivisionPreference::Weighted)
        && scheduling
            .weight_preference
            .as_ref()
            .is_none_or(|preference| {
                !preference.static_weight_list.is_empty()
                    && !is_set(preference.dynamic_weight.as_ref())
            })
}

fn is_set(factor: Option<&DynamicWeightFactor>) -> bool {
    factor.is_some_and(|factor| !factor.as_str().is_empty())
}

impl CompiledToleration {
    fn new(toleration: &Toleration) -> Self {
        let non_empty = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        Self {
            key: non_empty(&toleration.key),
            effect: non_empty(&toleration.effect),
            value: match toleration.operator.as_deref() {
                None | Some("" | "Equal") => {
                    ToleratedValue::Equal(toleration.value.clone().unwrap_or_default())
                }
                Some("Exists") => ToleratedValue::Any,
                Some(_) => ToleratedValue::Never,
            },
        }
    }

    /// Reports whether this toleration tolerates the taint.
    pub fn tolerates(&self, taint: &RepellingTaint) -> bool {
        self.effect
            .as_ref()
            .is_none_or(|effect| effect == taint.effect.as_str())
            && self.key.as_ref().is_none_or(|key| *key == taint.key)
            && match &self.value {
                ToleratedValue::Any => true,
                ToleratedValue::Equal(value) => *value == taint.value,
                ToleratedValue::Never => false,
            }
    }
}
