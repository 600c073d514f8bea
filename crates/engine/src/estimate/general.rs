//! The general estimator, which computes estimates from the resource summaries in the status of Cluster objects.

use std::borrow::Cow;
use std::collections::BTreeMap;

use berth_api::feature_gates::EngineGates;
use berth_api::node_requirements::NodeRequirements;
use berth_api::node_resources::in_units;
use berth_api::quantity::Quantity;

use super::assumed::{Assumed, AssumedWorkload, Demand};
use super::component_sets;
use super::devices::Devices;
use super::nodes::{NodeReports, ReportedNodes};
use super::{Basis, EstimateContext, EstimateError, Estimator, Unit, bounded};
use crate::fleet::Snapshot;
use crate::fleet::cluster_block::{BLOCK, Block};
use crate::fleet::node_pools::PoolSet;
use crate::fleet::row::Row;
use crate::request::{EarlierRequest, Request, ResourceRequest};
use crate::resource_vector::PodShape;

/// An estimator that divides the free amount of each resource by the amount that one replica requests.
#[derive(Clone, Debug)]
pub struct GeneralEstimator {
    reports: NodeReports,
    devices: Devices,
}

impl GeneralEstimator {
    /// The estimator name in explanations.
    pub const NAME: &'static str = "general-estimator";

    /// Creates the estimator. The feature gates NodePoolEstimate and CustomizedClusterResourceModeling decide which
    /// reports about nodes it uses, and DeviceClassEstimate whether requests for devices limit estimates.
    pub fn new(gates: EngineGates) -> Self {
        Self {
            reports: NodeReports::new(gates),
            devices: Devices::new(gates),
        }
    }
}

impl Estimator for GeneralEstimator {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn estimate(
        &self,
        context: &EstimateContext<'_>,
        clusters: &[usize],
        estimates: &mut [i32],
    ) -> Result<(), EstimateError> {
        match context.unit {
            Unit::Replicas => {
                self.replicas(context, clusters, estimates);
                if let Some(earlier) = context.request.earlier() {
                    self.lower_by_growth(context, earlier, clusters, estimates);
                }
            }
            Unit::ComponentSets => {
                let sets =
                    component_sets::ComponentSet::new(context.request.components(), self.devices);
                for (&ordinal, estimate) in clusters.iter().zip(estimates) {
                    if let Some(row) = context.snapshot.row(ordinal) {
                        let assumed = context.assumed.adjustments(&row.name);
                        *estimate = (*estimate).min(sets.fit(row, assumed, self.reports));
                    }
                }
            }
        }
        Ok(())
    }

    fn basis(&self, context: &EstimateContext<'_>, cluster: usize) -> Option<Basis> {
        let row = context.snapshot.row(cluster)?;
        let ReportedNodes::Pools(pools) = self.reports.of(&row.capacity)? else {
            return None;
        };
        context.request.requirements()?;
        Some(Basis::Nodes {
            matching: pools.count(pools.select(context.request.nodes())),
            nodes: pools.count(PoolSet::ALL),
            unmet: pools.unmet(context.request.nodes()),
        })
    }
}

impl GeneralEstimator {
    /// Returns the request of a replica that limits estimates.
    fn counted<'a>(&self, request: &'a Request) -> Option<Cow<'a, ResourceRequest>> {
        request
            .requirements()
            .map(|requirements| self.devices.counted(requirements))
    }

    fn replicas(&self, context: &EstimateContext<'_>, clusters: &[usize], estimates: &mut [i32]) {
        let EstimateContext {
            snapshot,
            request,
            assumed,
            ..
        } = *context;
        let requirements = self.counted(request);
        let columns = RequestColumns::new(snapshot, requirements.as_deref());
        let pod = std::cell::OnceCell::new();
        let mut pending = clusters
            .iter()
            .copied()
            .zip(estimates.iter_mut())
            .peekable();
        // The ordinals are in ascending order, so the loop visits each block once.
        while let Some(&(first, _)) = pending.peek() {
            let block_index = first / BLOCK;
            let Some(block) = snapshot.blocks.get(block_index) else {
                break;
            };
            let in_block = columns.in_block(block);
            let reports_nodes = if self.reports.are_used() {
                block.reports_nodes
            } else {
                0
            };
            while let Some((ordinal, estimate)) =
                pending.next_if(|(ordinal, _)| ordinal / BLOCK == block_index)
            {
                let lane = ordinal % BLOCK;
                let fits = if assumed.is_empty() && reports_nodes >> lane & 1 == 0 {
                    in_block.fit(lane)
                } else {
                    let requirements = requirements.as_deref();
                    self.estimate_cluster(
                        &block.rows[lane],
                        requirements,
                        request.nodes(),
                        assumed,
                        &pod,
                    )
                };
                *estimate = (*estimate).min(bounded(fits));
            }
        }
    }

    /// Lowers the estimates of clusters that report replicas with an earlier and smaller request. The new estimate is the
    /// number of replicas with the new request that would fit into the cluster without the reported replicas, minus the
    /// current replicas. The estimate is negative if the current replicas alone do not fit.
    fn lower_by_growth(
        &self,
        context: &EstimateContext<'_>,
        earlier: &EarlierRequest,
        clusters: &[usize],
        estimates: &mut [i32],
    ) {
        let mut without_reported = context.assumed.clone();
        let mut replicas_of = BTreeMap::new();
        for (name, reported) in &earlier.clusters {
            let components = vec![(*reported, earlier.request.clone())];
            without_reported.free(name, AssumedWorkload { components });
            let mut current = context.request.current().iter();
            let held = current.find(|(holder, _)| holder == name);
            let held = held.map_or(0, |(_, replicas)| {
                i32::try_from(*replicas).unwrap_or(i32::MAX)
            });
            replicas_of.insert(context.snapshot.ordinal(name), held);
        }
        let requirements = self.counted(context.request);
        let pod = std::cell::OnceCell::new();
        for (ordinal, estimate) in clusters.iter().zip(estimates) {
            let Some(replicas) = replicas_of.get(&Some(*ordinal)) else {
                continue;
            };
            if let Some(row) = context.snapshot.row(*ordinal) {
                let all = self.estimate_cluster(
                    row,
                    requirements.as_deref(),
                    context.request.nodes(),
                    &without_reported,
                    &pod,
                );
                *estimate = (*estimate).min(bounded(all).saturating_sub(*replicas));
            }
        }
    }

    /// Estimates one cluster from its row. This is slower than an estimate from columns, but it includes the reported
    /// nodes and assumed workloads.
    fn estimate_cluster(
        &self,
        row: &Row,
        requirements: Option<&ResourceRequest>,
        on_nodes: &NodeRequirements,
        assumed: &Assumed,
        pod: &std::cell::OnceCell<PodShape>,
    ) -> i64 {
        let assumed = assumed.adjustments(&row.name);
        let demand = Demand::of(assumed);
        let pods = row.capacity.pods.unwrap_or(0).saturating_sub(demand.pods);
        if pods <= 0 {
            return 0;
        }
        let Some(requirements) = requirements else {
            return pods;
        };
        if let Some(nodes) = self.reports.of(&row.capacity) {
            let pod = pod.get_or_init(|| requirements.pod_shape());
            let pools = nodes.select(on_nodes);
            let fits = nodes.pods_that_fit(pod, pools, assumed);
            return pods.min(match nodes {
                ReportedNodes::Pools(_) => fits.max(assumed.on_nodes.map_or(0, i64::from)),
                ReportedNodes::Models(_) => fits,
            });
        }
        requirements.amounts().iter().fold(pods, |fits, requested| {
            let free = row
                .capacity
                .free
                .get(&requested.resource)
                .map_or(Quantity::ZERO, |free| {
                    *free
                        - demand
                            .resources
                            .get(&requested.resource)
                            .copied()
                            .unwrap_or(Quantity::ZERO)
                });
            fits.min(in_units(&requested.resource, free).max(0) / requested.units)
        })
    }
}

/// The requested resources of a replica, mapped to the columns of a snapshot.
struct RequestColumns {
    /// For each requested resource, the index of its column and the requested amount. The index is `None` if no cluster
    /// reports the resource.
    amounts: Vec<(Option<usize>, i64)>,
}

impl RequestColumns {
    fn new(snapshot: &Snapshot, requirements: Option<&ResourceRequest>) -> Self {
        let amounts = requirements.map_or(&[][..], ResourceRequest::amounts);
        Self {
            amounts: amounts
                .iter()
                .map(|requested| {
                    (
                        snapshot.resources.get(&requested.resource).copied(),
                        requested.units,
                    )
                })
                .collect(),
        }
    }

    fn in_block<'a>(&self, block: &'a Block) -> BlockColumns<'a> {
        static ZEROS: [i64; BLOCK] = [0; BLOCK];
        let columns = self.amounts.iter().map(|&(column, units)| {
            let free = column
                .and_then(|column| block.free.get(column))
                .unwrap_or(&ZEROS);
            (free, units)
        });
        BlockColumns {
            pods: &block.pods,
            amounts: columns.collect(),
        }
    }
}

/// The requested resources of a replica, mapped to the columns of one block.
struct BlockColumns<'a> {
    pods: &'a [i64; BLOCK],
    amounts: Vec<(&'a [i64; BLOCK], i64)>,
}

impl BlockColumns<'_> {
    fn fit(&self, lane: usize) -> i64 {
        let mut fits = self.pods[lane];
        for &(free, units) in &self.amounts {
            let free = free[lane];
            // Divide only if this resource allows fewer replicas than the previous resources.
            if fits.saturating_mul(units) > free {
                fits = free / units;
            }
        }
        fits
    }
}
