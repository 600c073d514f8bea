//! The trait [`Simulate`], through which the dashboard gets the moves that a change causes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use berth_core::Fleet;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Taint;

use crate::explainer::BindingName;

/// Maximum number of moves in a [`Simulation`].
pub(crate) const MAX_MOVES: usize = 1000;
/// Maximum number of clusters in a [`Placement`].
const MAX_CLUSTERS: usize = 100;

/// A change to simulate.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// A cluster is lost.
    Lose {
        /// Name of the cluster.
        cluster: String,
    },
    /// A cluster gets a taint.
    Taint {
        /// Name of the cluster.
        cluster: String,
        /// The taint.
        taint: Taint,
    },
    /// A cluster joins.
    Join {
        /// Name of the cluster.
        cluster: String,
        /// Name of the existing cluster whose spec and status the new cluster copies.
        like: String,
    },
    /// The workload of a binding is scaled.
    Scale {
        /// The binding.
        binding: BindingName,
        /// The new number of replicas.
        replicas: i32,
    },
    /// The allocatable amount of a resource changes.
    Capacity {
        /// Name of the cluster.
        cluster: String,
        /// Name of the resource.
        resource: String,
        /// The new amount, as a quantity.
        amount: String,
    },
}

/// The clusters of a binding with their replicas. The list has at most 100 clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Placement {
    pub(crate) clusters: Vec<(String, i32)>,
    /// Number of all clusters of the binding.
    pub(crate) total: usize,
    /// Number of replicas on all clusters.
    pub(crate) replicas: i64,
}

impl Placement {
    fn new(clusters: &[(String, i32)]) -> Self {
        Self {
            clusters: clusters.iter().take(MAX_CLUSTERS).cloned().collect(),
            total: clusters.len(),
            replicas: clusters.iter().map(|of| i64::from(of.1)).sum(),
        }
    }
}

/// A binding that would move or become unschedulable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PredictedMove {
    pub(crate) binding: BindingName,
    pub(crate) from: Placement,
    pub(crate) to: Placement,
    /// Replicas that leave each cluster, for at most 100 clusters. A resource without replicas counts as 1.
    pub(crate) leaving: Vec<(String, i64)>,
    /// Replicas that each cluster gets, for at most 100 clusters. A resource without replicas counts as 1.
    pub(crate) arriving: Vec<(String, i64)>,
    pub(crate) has_replicas: bool,
    pub(crate) failure: Option<String>,
    becomes_unschedulable: bool,
}

impl PredictedMove {
    /// Compares the clusters of a binding before and after a change.
    pub fn new(binding: BindingName, from: &[(String, i32)], to: &[(String, i32)]) -> Self {
        let map = |clusters: &[(String, i32)]| -> BTreeMap<String, i32> {
            clusters.iter().cloned().collect()
        };
        let (before, after) = (map(from), map(to));
        // A resource without replicas counts as 1 on each of its clusters.
        let is_empty = from.iter().chain(to).all(|of| of.1 == 0);
        let min_weight = i64::from(is_empty);
        let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
        let (mut leaving, mut arriving) = (Vec::new(), Vec::new());
        for name in names {
            let weight = |of: &BTreeMap<String, i32>| {
                of.get(name).map_or(0, |it| i64::from(*it).max(min_weight))
            };
            let change = weight(&after) - weight(&before);
            if change < 0 && leaving.len() < MAX_CLUSTERS {
                leaving.push((name.clone(), -change));
            } else if change > 0 && arriving.len() < MAX_CLUSTERS {
                arriving.push((name.clone(), change));
            }
        }
        Self {
            binding,
            from: Placement::new(from),
            to: Placement::new(to),
            leaving,
            arriving,
            has_replicas: false,
            failure: None,
            becomes_unschedulable: false,
        }
    }

    /// Sets whether the resource has replicas.
    #[must_use]
    pub fn with_replicas(mut self, has_replicas: bool) -> Self {
        self.has_replicas = has_replicas;
        self
    }

    /// Sets the reason why the binding cannot be placed after the change. `becomes_unschedulable` is true if the
    /// binding could be placed before the change.
    #[must_use]
    pub fn with_failure(mut self, failure: Option<String>, becomes_unschedulable: bool) -> Self {
        self.failure = failure;
        self.becomes_unschedulable = becomes_unschedulable;
        self
    }
}

/// The result of a simulation.
#[derive(Clone, Debug, Default)]
pub struct Simulation {
    /// Number of bindings that the simulation examined.
    pub examined: usize,
    /// Limits of the simulation, and remarks about the result. Each item is one sentence.
    pub remarks: Vec<String>,
    /// Number of bindings that would move or become unschedulable.
    pub(crate) changed: usize,
    /// Number of bindings that would become unschedulable.
    pub(crate) unschedulable: usize,
    /// The first changed bindings, at most 1000.
    pub(crate) moves: Vec<PredictedMove>,
}

impl Simulation {
    /// Counts a changed binding, and stores its move unless 1000 moves are stored.
    pub fn add(&mut self, predicted: PredictedMove) {
        self.changed += 1;
        self.unschedulable += usize::from(predicted.becomes_unschedulable);
        if self.moves.len() < MAX_MOVES {
            self.moves.push(predicted);
        }
    }
}

/// A simulator of changes.
pub trait Simulate: Debug + Send + Sync {
    /// Returns the moves that `berth simulate` predicts for the change, or the reason why no prediction is possible.
    /// The fleet must have the option [`Fleet::keeping_objects`].
    fn simulate(&self, fleet: Fleet, change: Change) -> BoxFuture<'_, Result<Simulation, String>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn predicted(from: &[(&str, i32)], to: &[(&str, i32)]) -> PredictedMove {
        let owned = |of: &[(&str, i32)]| -> Vec<(String, i32)> {
            of.iter()
                .map(|(name, it)| ((*name).to_owned(), *it))
                .collect()
        };
        let name = BindingName {
            namespace: None,
            name: "web".to_owned(),
        };
        PredictedMove::new(name, &owned(from), &owned(to))
    }

    fn pairs(of: &[(String, i64)]) -> Vec<(&str, i64)> {
        of.iter().map(|(name, it)| (name.as_str(), *it)).collect()
    }

    #[test]
    fn only_changed_replicas_leave_or_arrive() {
        let of = predicted(
            &[("a", 3), ("b", 2), ("c", 1)],
            &[("a", 3), ("c", 2), ("d", 1)],
        );
        assert_eq!(pairs(&of.leaving), [("b", 2)]);
        assert_eq!(pairs(&of.arriving), [("c", 1), ("d", 1)]);
        assert_eq!((of.from.replicas, of.to.replicas), (6, 6));
        // Resources without replicas.
        let of = predicted(&[("a", 0), ("b", 0)], &[("a", 0), ("c", 0)]);
        assert_eq!(pairs(&of.leaving), [("b", 1)]);
        assert_eq!(pairs(&of.arriving), [("c", 1)]);
    }

    #[test]
    fn a_simulation_of_many_moves_is_bounded() {
        let clusters: Vec<(String, i32)> = (0..5000).map(|of| (format!("m{of:04}"), 1)).collect();
        let name = BindingName {
            namespace: None,
            name: "web".to_owned(),
        };
        let predicted = PredictedMove::new(name, &clusters, &[]);
        assert_eq!(
            (predicted.from.total, predicted.from.replicas),
            (5000, 5000)
        );
        assert_eq!(
            (predicted.from.clusters.len(), predicted.leaving.len()),
            (100, 100)
        );
        let mut simulation = Simulation::default();
        for _ in 0..=MAX_MOVES {
            simulation.add(predicted.clone());
        }
        assert_eq!(simulation.moves.len(), MAX_MOVES);
        assert_eq!(simulation.changed, MAX_MOVES + 1);
    }
}
