//! A placement, compiled: affinities ready to match, strategies instead of strings.

use std::sync::Arc;

use berth_api::placement::{
    ClusterAffinityTerm, DynamicWeightFactor, Placement, ReplicaDivisionPreference,
    ReplicaScheduling, ReplicaSchedulingType, SpreadConstraint, SpreadField,
};
use berth_api::toleration::Toleration;

use crate::affinity::CompiledAffinity;
use crate::fleet::RepellingTaint;

/// What of a placement a decision depends on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CompiledPlacement {
    /// `clusterAffinity`, which wins over the terms.
    affinity: Option<CompiledAffinity>,
    /// `clusterAffinities`.
    terms: Vec<Term>,
    tolerations: Vec<CompiledToleration>,
    constraints: Vec<Constraint>,
    strategy: Strategy,
    static_weights_skip_constraints: bool,
}

/// One of the ordered groups of clusters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Term {
    name: Arc<str>,
    primary: CompiledAffinity,
    /// The groups that take what the primary clusters cannot hold.
    overflow: Vec<CompiledAffinity>,
}

/// What clusters are grouped by.
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
    /// The values of a label.
    Label(String),
    /// A field that nobody knows, or nothing at all.
    Unknown,
}

/// A bound on the number of groups.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Constraint {
    by: SpreadBy,
    min: usize,
    /// None where no limit is given.
    max: Option<usize>,
}

/// How replicas are dealt out.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Strategy {
    /// Every cluster gets all of them.
    Duplicated,
    /// Shares by fixed weights; without rules that match, equal ones.
    StaticWeights(Vec<(CompiledAffinity, i64)>),
    /// Shares by the replicas that clusters can take.
    DynamicWeights,
    /// As few clusters as possible.
    Aggregated,
    /// Something else, as written.
    Unsupported {
        /// The type of scheduling.
        scheduling: String,
        /// The preference in dividing.
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
    /// `Exists`.
    Any,
    /// `Equal`, which is the default.
    Equal(String),
    /// `Lt`, `Gt` or an unknown operator.
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

    /// `clusterAffinity`, which wins over the terms.
    pub fn affinity(&self) -> Option<&CompiledAffinity> {
        self.affinity.as_ref()
    }

    /// `clusterAffinities`, in order.
    pub fn terms(&self) -> &[Term] {
        &self.terms
    }

    /// The tolerations of cluster taints.
    pub fn tolerations(&self) -> &[CompiledToleration] {
        &self.tolerations
    }

    /// The spread constraints.
    pub fn constraints(&self) -> &[Constraint] {
        &self.constraints
    }

    /// How replicas are dealt out.
    pub fn strategy(&self) -> &Strategy {
        &self.strategy
    }

    /// Whether Karmada skips all constraints because it sees static weights.
    pub fn static_weights_skip_constraints(&self) -> bool {
        self.static_weights_skip_constraints
    }

    /// The place of a term by name.
    pub fn term_named(&self, name: &str) -> Option<usize> {
        self.terms.iter().position(|term| &*term.name == name)
    }

    /// The constraint by this field. Of several the last counts.
    pub fn constraint(&self, by: &SpreadBy) -> Option<&Constraint> {
        self.constraints
            .iter()
            .rev()
            .find(|constraint| constraint.by == *by)
    }

    /// Whether capacity is of no interest: every cluster gets all replicas.
    pub fn duplicates(&self) -> bool {
        self.strategy == Strategy::Duplicated
    }
}

impl Term {
    /// Its name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The clusters that are filled first.
    pub fn primary(&self) -> &CompiledAffinity {
        &self.primary
    }

    /// The groups that take what the primary clusters cannot hold, in order.
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
    /// What clusters are grouped by.
    pub fn by(&self) -> &SpreadBy {
        &self.by
    }

    /// The fewest groups.
    pub fn min(&self) -> usize {
        self.min
    }

    /// The most groups; None where no limit is given.
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
                if preference.is_some_and(|preference| is_given(preference.dynamic_weight.as_ref()))
                {
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

/// Whether Karmada skips all constraints because it sees static weights. An empty preference divides by
/// equal weights too, but is not seen as such.
fn static_weights_skip_constraints(scheduling: &ReplicaScheduling) -> bool {
    scheduling.replica_scheduling_type == Some(ReplicaSchedulingType::Divided)
        && scheduling.replica_division_preference == Some(ReplicaDivisionPreference::Weighted)
        && scheduling
            .weight_preference
            .as_ref()
            .is_none_or(|preference| {
                !preference.static_weight_list.is_empty()
                    && !is_given(preference.dynamic_weight.as_ref())
            })
}

fn is_given(factor: Option<&DynamicWeightFactor>) -> bool {
    factor.is_some_and(|factor| !factor.as_str().is_empty())
}

impl CompiledToleration {
    fn new(toleration: &Toleration) -> Self {
        let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        Self {
            key: given(&toleration.key),
            effect: given(&toleration.effect),
            value: match toleration.operator.as_deref() {
                None | Some("" | "Equal") => {
                    ToleratedValue::Equal(toleration.value.clone().unwrap_or_default())
                }
                Some("Exists") => ToleratedValue::Any,
                Some(_) => ToleratedValue::Never,
            },
        }
    }

    /// Whether the taint is tolerated.
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
