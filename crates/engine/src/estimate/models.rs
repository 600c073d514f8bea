//! Estimates from the resource models of a cluster.
//!
//! Resource models count the nodes of a cluster by grade, which is a range of node sizes. The estimate assumes that
//! each node has the minimum size of its grade. It places pods by first fit: each pod on the first node with enough
//! capacity.

use super::UNBOUNDED;
use super::assumed::{Adjustments, AssumedWorkload};
use crate::fleet::capacity::Models;
use crate::resource_vector::{NodeShape, PodShape};

/// The use of resource models in estimates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Modelling {
    /// If the cluster has usable resource models, they limit the number of pods that fit.
    Used,
    /// Resource models are ignored.
    Ignored,
}

/// The nodes of a cluster in first-fit order, stored as runs of equal nodes.
#[derive(Clone, Debug)]
pub(crate) struct Nodes {
    runs: Vec<(i64, NodeShape)>,
}

impl Nodes {
    /// Returns the nodes of a cluster, or `None` if the cluster has no usable resource models.
    pub(crate) fn new(models: &Models) -> Option<Self> {
        match models {
            Models::Nodes(runs) => Some(Self { runs: runs.clone() }),
            Models::Absent | Models::Unusable => None,
        }
    }

    /// Places equal pods, each on the first node with enough capacity. Returns the number of pods that do not fit.
    fn place(&mut self, pod: &PodShape, pods: i64) -> i64 {
        let mut missing = pods;
        let mut runs = Vec::with_capacity(self.runs.len() + 2);
        for (count, node) in self.runs.drain(..) {
            let fits = node.fits(pod);
            if missing <= 0 || fits <= 0 {
                runs.push((count, node));
                continue;
            }
            let full = count.min(missing / fits);
            missing -= full * fits;
            if full > 0 {
                runs.push((full, node.without(pod, fits)));
            }
            let mut untouched = count - full;
            if untouched > 0 && missing > 0 {
                runs.push((1, node.without(pod, missing)));
                missing = 0;
                untouched -= 1;
            }
            if untouched > 0 {
                runs.push((untouched, node));
            }
        }
        self.runs = runs;
        missing
    }

    /// Places one set of pods, and reports whether all pods of the set fit. If some do not fit, the other pods stay
    /// placed.
    fn place_set(&mut self, set: &[(i64, PodShape)]) -> bool {
        set.iter()
            .all(|(replicas, pod)| self.place(pod, *replicas) == 0)
    }

    /// Applies corrections: adds free nodes for the removed workloads, and then places the pods of the added workloads.
    pub(crate) fn take(&mut self, assumed: &Adjustments) {
        for workload in &assumed.removed {
            for (replicas, pod) in pods_of(workload) {
                // The nodes on which the removed pods run are unknown. Each removed pod therefore becomes a free node
                // of the pod's size.
                self.runs.push((replicas, NodeShape::freed_by(&pod)));
            }
        }
        for workload in &assumed.added {
            self.place_set(&pods_of(workload));
        }
    }

    /// Places complete sets until a set does not fit or `bound` sets are placed. Returns the number of placed sets.
    pub(crate) fn sets_that_fit(&mut self, set: &[(i64, PodShape)], bound: i64) -> i64 {
        let mut sets = 0;
        while sets < bound && self.place_set(set) {
            sets += 1;
        }
        sets
    }

    /// Returns the number of equal pods that fit. The sum over all nodes is exact, because all pods are equal.
    fn pods_that_fit(&self, pod: &PodShape) -> i64 {
        self.runs
            .iter()
            .fold(0_i64, |sum, (count, node)| {
                sum.saturating_add(node.fits(pod).max(0).saturating_mul(*count))
            })
            .min(i64::from(UNBOUNDED))
    }
}

/// Returns the number and the shape of the pods of each component.
fn pods_of(workload: &AssumedWorkload) -> Vec<(i64, PodShape)> {
    let components = workload.components.iter();
    components
        .map(|(replicas, request)| (i64::from(*replicas).max(0), request.pod_shape()))
        .collect()
}

/// Returns the number of pods that fit on the nodes of a cluster, or `None` if the cluster has no usable resource
/// models.
pub(crate) fn pods_that_fit(models: &Models, pod: &PodShape, assumed: &Adjustments) -> Option<i64> {
    let Models::Nodes(_) = models else {
        return None;
    };
    let mut nodes = Nodes::new(models)?;
    nodes.take(assumed);
    Some(nodes.pods_that_fit(pod))
}

#[cfg(test)]
mod tests {
    use berth_api::quantity::Quantity;

    use super::*;

    fn nodes(counts: &[(i64, &str)]) -> Nodes {
        Nodes {
            runs: counts
                .iter()
                .map(|&(count, cpu)| {
                    (
                        count,
                        NodeShape::new([("cpu", Quantity::parse(cpu).unwrap())], 110),
                    )
                })
                .collect(),
        }
    }

    fn pod(cpu: &str) -> PodShape {
        PodShape::new([("cpu", Quantity::parse(cpu).unwrap())])
    }

    #[test]
    fn sets_fill_the_first_nodes_with_capacity() {
        for (counts, set, bound, expected) in [
            (&[(1, "4")][..], vec![(1, pod("1"))], 100, 4),
            (&[(1, "4")], vec![(1, pod("1"))], 3, 3),
            (&[(2, "3")], vec![(1, pod("2"))], 100, 2),
            (&[(2, "3")], vec![(1, pod("2")), (1, pod("1"))], 100, 2),
            // The second set does not fit: each of the two nodes has only 1 cpu left.
            (&[(2, "3")], vec![(2, pod("1")), (1, pod("2"))], 100, 1),
            (&[(1, "1"), (1, "4")], vec![(1, pod("2"))], 100, 2),
            (&[(0, "4")], vec![(1, pod("1"))], 100, 0),
            (&[(3, "4")], vec![(0, pod("9"))], 7, 7),
        ] {
            let found = nodes(counts).sets_that_fit(&set, bound);
            assert_eq!(found, expected, "{counts:?} {set:?}");
        }
    }

    #[test]
    fn counting_nodes_equals_placing_pods_one_by_one() {
        let cluster = nodes(&[(3, "1"), (2, "4"), (1, "7")]);
        for cpu in ["500m", "1", "2", "3", "5", "8"] {
            let pod = pod(cpu);
            let counted = cluster.pods_that_fit(&pod);
            assert_eq!(
                cluster.clone().sets_that_fit(&[(1, pod)], 10_000),
                counted,
                "{cpu}"
            );
        }
    }

    /// Places pods one by one, each on the first node with enough capacity. Returns the number of complete sets.
    fn sets_one_by_one(counts: &[(i64, u32)], set: &[(i64, u32)], bound: i64) -> i64 {
        let mut free: Vec<u32> = Vec::new();
        for &(count, cpu) in counts {
            free.extend(std::iter::repeat_n(cpu, usize::try_from(count).unwrap()));
        }
        for sets in 0..bound {
            for &(replicas, cpu) in set {
                for _ in 0..replicas {
                    let Some(node) = free.iter_mut().find(|free| **free >= cpu) else {
                        return sets;
                    };
                    *node -= cpu;
                }
            }
        }
        bound
    }

    proptest::proptest! {
        #[test]
        fn runs_of_equal_nodes_give_the_result_of_single_nodes(
            counts in proptest::collection::vec((0_i64..4, 1_u32..12), 0..4),
            set in proptest::collection::vec((1_i64..4, 1_u32..6), 1..4),
            bound in 1_i64..20,
        ) {
            let runs: Vec<(i64, String)> =
                counts.iter().map(|(count, cpu)| (*count, cpu.to_string())).collect();
            let runs: Vec<(i64, &str)> = runs.iter().map(|(count, cpu)| (*count, &**cpu)).collect();
            let pods: Vec<(i64, PodShape)> =
                set.iter().map(|(replicas, cpu)| (*replicas, pod(&cpu.to_string()))).collect();
            let found = nodes(&runs).sets_that_fit(&pods, bound);
            proptest::prop_assert_eq!(found, sets_one_by_one(&counts, &set, bound));
        }
    }
}
