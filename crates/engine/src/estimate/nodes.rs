//! Estimates from the nodes of a cluster: from its node pools, or from its resource models.
//!
//! Node pools count the nodes of a cluster by their free resources, and have the labels and taints of the nodes. Resource
//! models count the nodes by grade, which is a range of node sizes. The estimate then assumes that each node has the
//! minimum size of its grade. If a cluster reports both, the pools are used.
//!
//! Pods are placed by first fit: each pod on the first node with enough capacity.

use berth_api::feature_gates::EngineGates;
use berth_api::node_requirements::NodeRequirements;

use super::UNBOUNDED;
use super::assumed::{Adjustments, AssumedWorkload};
use crate::fleet::capacity::{Capacity, Models};
use crate::fleet::node_pools::{NodePools, PoolSet};
use crate::resource_vector::{NodeShape, PodShape};

/// The reports about nodes that estimates use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeReports {
    pools: Use,
    models: Use,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Used,
    Ignored,
}

impl NodeReports {
    /// Returns the reports that the feature gates NodePoolEstimate and CustomizedClusterResourceModeling select.
    pub(crate) fn new(gates: EngineGates) -> Self {
        let used = |gate| if gate { Use::Used } else { Use::Ignored };
        Self {
            pools: used(gates.node_pool_estimate),
            models: used(gates.customized_cluster_resource_modeling),
        }
    }

    /// Reports whether estimates use any report about nodes.
    pub(crate) fn are_used(self) -> bool {
        self.pools == Use::Used || self.models == Use::Used
    }

    /// Returns the nodes that a cluster reports, or `None` if it has no usable report.
    pub(crate) fn of(self, capacity: &Capacity) -> Option<ReportedNodes<'_>> {
        if self.pools == Use::Used
            && let Some(pools) = &capacity.pools
        {
            return Some(ReportedNodes::Pools(pools));
        }
        match &capacity.models {
            Models::Nodes(runs) if self.models == Use::Used => Some(ReportedNodes::Models(runs)),
            _ => None,
        }
    }
}

/// The nodes that a cluster reports, in first-fit order.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ReportedNodes<'a> {
    /// Nodes with their free resources, labels and taints.
    Pools(&'a NodePools),
    /// Nodes with the minimum free resources of their grade.
    Models(&'a [(i64, NodeShape)]),
}

impl ReportedNodes<'_> {
    /// Returns the pools whose nodes satisfy the requirements of a pod template.
    pub(crate) fn select(self, requirements: &NodeRequirements) -> PoolSet {
        match self {
            Self::Pools(pools) => pools.select(requirements),
            Self::Models(_) => PoolSet::ALL,
        }
    }

    /// Returns the number of equal pods that fit into these pools. The sum over all nodes is exact, because all pods are
    /// equal.
    pub(crate) fn pods_that_fit(
        self,
        pod: &PodShape,
        pools: PoolSet,
        assumed: &Adjustments,
    ) -> i64 {
        if !assumed.is_empty() {
            let mut nodes = self.to_nodes();
            nodes.take(assumed);
            return nodes.pods_that_fit(pod, pools);
        }
        match self {
            Self::Pools(all) => all.pools().fold(0, |sum: i64, (pool, nodes)| {
                if pools.contains(pool) {
                    sum.saturating_add(sum_of(nodes, pod))
                } else {
                    sum
                }
            }),
            Self::Models(runs) => sum_of(runs, pod),
        }
        .min(i64::from(UNBOUNDED))
    }

    /// Copies the nodes, to place pods on them.
    pub(crate) fn to_nodes(self) -> Nodes {
        let run = |pool| {
            move |(count, node): &(i64, NodeShape)| Run {
                count: *count,
                node: node.clone(),
                pool,
            }
        };
        let (runs, freed) = match self {
            Self::Pools(pools) => {
                let runs = pools
                    .pools()
                    .flat_map(|(pool, nodes)| nodes.iter().map(run(pool)));
                (runs.collect(), Freed::OnNodes)
            }
            Self::Models(runs) => (runs.iter().map(run(0)).collect(), Freed::AsNodes),
        };
        Nodes { runs, freed }
    }
}

fn sum_of(runs: &[(i64, NodeShape)], pod: &PodShape) -> i64 {
    runs.iter().fold(0, |sum: i64, (count, node)| {
        sum.saturating_add(node.fits(pod).max(0).saturating_mul(*count))
    })
}

/// The place of the resources that removed pods free. The nodes on which these pods run are unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Freed {
    /// The pods were spread evenly over the nodes.
    OnNodes,
    /// Each pod becomes a free node of the pod's size.
    AsNodes,
}

/// A run of equal nodes of one pool.
#[derive(Clone, Debug)]
struct Run {
    count: i64,
    node: NodeShape,
    pool: usize,
}

/// The nodes of a cluster in first-fit order, stored as runs of equal nodes.
#[derive(Clone, Debug)]
pub(crate) struct Nodes {
    runs: Vec<Run>,
    freed: Freed,
}

/// The pods of a template: their number, their shape, and the pools on which they run.
pub(crate) type Pods = (i64, PodShape, PoolSet);

impl Nodes {
    /// Places equal pods, each on the first node of these pools with enough capacity. Returns the number of pods that do
    /// not fit.
    fn place(&mut self, (pods, pod, pools): &Pods) -> i64 {
        let mut missing = *pods;
        let mut runs = Vec::with_capacity(self.runs.len() + 2);
        for Run { count, node, pool } in self.runs.drain(..) {
            let fits = node.fits(pod);
            if missing <= 0 || fits <= 0 || !pools.contains(pool) {
                runs.push(Run { count, node, pool });
                continue;
            }
            let mut push = |count, node| runs.push(Run { count, node, pool });
            let full = count.min(missing / fits);
            missing -= full * fits;
            if full > 0 {
                push(full, node.without(pod, fits));
            }
            let mut untouched = count - full;
            if untouched > 0 && missing > 0 {
                push(1, node.without(pod, missing));
                missing = 0;
                untouched -= 1;
            }
            if untouched > 0 {
                push(untouched, node);
            }
        }
        self.runs = runs;
        missing
    }

    /// Places one set of pods, and reports whether all pods of the set fit. If some do not fit, the other pods stay
    /// placed.
    fn place_set(&mut self, set: &[Pods]) -> bool {
        set.iter().all(|pods| self.place(pods) == 0)
    }

    /// Applies corrections: frees the resources of the removed workloads, and then places the pods of the added
    /// workloads.
    pub(crate) fn take(&mut self, assumed: &Adjustments) {
        for workload in &assumed.removed {
            for (replicas, pod, pools) in pods_of(workload) {
                match self.freed {
                    Freed::OnNodes => self.free_evenly(replicas, &pod, pools),
                    Freed::AsNodes => self.runs.push(Run {
                        count: replicas,
                        node: NodeShape::freed_by(&pod),
                        pool: 0,
                    }),
                }
            }
        }
        for workload in &assumed.added {
            self.place_set(&pods_of(workload));
        }
    }

    /// Frees the resources of pods that were spread evenly over the nodes of these pools. Fuller nodes had one pod more.
    fn free_evenly(&mut self, pods: i64, pod: &PodShape, pools: PoolSet) {
        let selected = |run: &Run| pools.contains(run.pool);
        let nodes: i64 = self
            .runs
            .iter()
            .filter(|run| selected(run))
            .map(|run| run.count)
            .sum();
        if nodes == 0 {
            return;
        }
        let (each, mut one_more) = (pods / nodes, pods % nodes);
        let mut runs = std::mem::take(&mut self.runs);
        runs.sort_by_key(|run| run.node.fits(pod));
        for Run { count, node, pool } in runs {
            if !pools.contains(pool) {
                self.runs.push(Run { count, node, pool });
                continue;
            }
            let with_more = count.min(one_more);
            one_more -= with_more;
            for (count, freed) in [(with_more, each + 1), (count - with_more, each)] {
                if count > 0 {
                    let node = node.with(pod, freed);
                    self.runs.push(Run { count, node, pool });
                }
            }
        }
    }

    /// Places complete sets until a set does not fit or `bound` sets are placed. Returns the number of placed sets.
    pub(crate) fn sets_that_fit(&mut self, set: &[Pods], bound: i64) -> i64 {
        let mut sets = 0;
        while sets < bound && self.place_set(set) {
            sets += 1;
        }
        sets
    }

    fn pods_that_fit(&self, pod: &PodShape, pools: PoolSet) -> i64 {
        let runs = self.runs.iter().filter(|run| pools.contains(run.pool));
        runs.fold(0, |sum: i64, run| {
            sum.saturating_add(run.node.fits(pod).max(0).saturating_mul(run.count))
        })
        .min(i64::from(UNBOUNDED))
    }
}

/// Returns the pods of each component. The requirements of other workloads on nodes are unknown.
fn pods_of(workload: &AssumedWorkload) -> Vec<Pods> {
    let components = workload.components.iter();
    components
        .map(|(replicas, request)| {
            (
                i64::from(*replicas).max(0),
                request.pod_shape(),
                PoolSet::ALL,
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use berth_api::quantity::Quantity;

    use super::*;

    fn nodes(counts: &[(i64, &str)]) -> Nodes {
        Nodes {
            runs: counts
                .iter()
                .map(|&(count, cpu)| Run {
                    count,
                    node: NodeShape::new([("cpu", Quantity::parse(cpu).unwrap())], 110),
                    pool: 0,
                })
                .collect(),
            freed: Freed::OnNodes,
        }
    }

    fn pod(cpu: &str) -> PodShape {
        PodShape::new([("cpu", Quantity::parse(cpu).unwrap())])
    }

    fn on_all(set: &[(i64, PodShape)]) -> Vec<Pods> {
        let set = set.iter();
        set.map(|(pods, pod)| (*pods, pod.clone(), PoolSet::ALL))
            .collect()
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
            let found = nodes(counts).sets_that_fit(&on_all(&set), bound);
            assert_eq!(found, expected, "{counts:?} {set:?}");
        }
    }

    #[test]
    fn counting_nodes_equals_placing_pods_one_by_one() {
        let cluster = nodes(&[(3, "1"), (2, "4"), (1, "7")]);
        for cpu in ["500m", "1", "2", "3", "5", "8"] {
            let pod = pod(cpu);
            let counted = cluster.pods_that_fit(&pod, PoolSet::ALL);
            assert_eq!(
                cluster.clone().sets_that_fit(&on_all(&[(1, pod)]), 10_000),
                counted,
                "{cpu}"
            );
        }
    }

    #[test]
    fn freed_pods_were_spread_evenly_and_fuller_nodes_had_one_more() {
        // Three nodes have 5 CPUs, and one has 6. Five pods of 1 CPU are removed.
        let mut cluster = nodes(&[(1, "6"), (3, "5")]);
        cluster.free_evenly(5, &pod("1"), PoolSet::ALL);
        let mut fits: Vec<(i64, i64)> = cluster
            .runs
            .iter()
            .map(|run| (run.count, run.node.fits(&pod("1"))))
            .collect();
        fits.sort_unstable();
        assert_eq!(fits, [(1, 7), (1, 7), (2, 6)]);
        nodes(&[]).free_evenly(5, &pod("1"), PoolSet::ALL);
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
            let found = nodes(&runs).sets_that_fit(&on_all(&pods), bound);
            proptest::prop_assert_eq!(found, sets_one_by_one(&counts, &set, bound));
        }
    }
}
