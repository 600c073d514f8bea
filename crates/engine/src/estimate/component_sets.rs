//! Estimates for workloads with several pod templates, which are called components. The estimate is the number of
//! complete sets that fit into a cluster. One set contains all replicas of all components.

use std::collections::BTreeMap;

use berth_api::node_requirements::NodeRequirements;
use berth_api::quantity::Quantity;

use super::assumed::{Adjustments, Demand};
use super::bounded;
use super::devices::Devices;
use super::nodes::{NodeReports, Pods};
use crate::fleet::row::Row;
use crate::request::ComponentRequest;
use crate::resource_vector::PodShape;

/// The resource requests of one set of components.
#[derive(Clone, Debug)]
pub(crate) struct ComponentSet<'a> {
    pods: i64,
    resources: BTreeMap<String, Quantity>,
    shapes: Vec<(i64, PodShape, &'a NodeRequirements)>,
}

impl<'a> ComponentSet<'a> {
    pub(crate) fn new(components: &'a [ComponentRequest], devices: Devices) -> Self {
        let mut resources: BTreeMap<String, Quantity> = BTreeMap::new();
        for component in components {
            for amount in devices.counted(&component.request).amounts() {
                let sum = resources.entry(amount.resource.clone()).or_default();
                *sum = *sum + amount.quantity.times(i64::from(component.replicas));
            }
        }
        Self {
            pods: components.iter().fold(0, |sum: i64, component| {
                sum.saturating_add(i64::from(component.replicas))
            }),
            resources,
            shapes: components
                .iter()
                .map(|component| {
                    let replicas = i64::from(component.replicas);
                    let request = devices.counted(&component.request);
                    (replicas, request.pod_shape(), &component.nodes)
                })
                .collect(),
        }
    }

    /// Returns the number of sets that fit into a cluster. Quantities are compared by value, regardless of their
    /// notation.
    pub(crate) fn fit(&self, row: &Row, assumed: &Adjustments, reports: NodeReports) -> i32 {
        let demand = Demand::of(assumed);
        let pods = row.capacity.pods.unwrap_or(0).saturating_sub(demand.pods);
        if pods <= 0 {
            return 0;
        }
        if self.pods <= 0 {
            return bounded(pods);
        }
        let mut bound = pods / self.pods;
        for (resource, wanted) in &self.resources {
            if *wanted <= Quantity::ZERO {
                continue;
            }
            let free = row
                .capacity
                .free
                .get(resource)
                .map_or(Quantity::ZERO, |free| {
                    *free
                        - demand
                            .resources
                            .get(resource)
                            .copied()
                            .unwrap_or(Quantity::ZERO)
                });
            let sets = free.nano().max(0) / wanted.nano();
            bound = bound.min(i64::try_from(sets).unwrap_or(i64::MAX));
        }
        let mut bound = bounded(bound);
        if let Some(reported) = reports.of(&row.capacity) {
            let shapes = self.shapes.iter();
            let set: Vec<Pods> = shapes
                .map(|(pods, pod, nodes)| (*pods, pod.clone(), reported.select(nodes)))
                .collect();
            let mut nodes = reported.to_nodes();
            nodes.take(assumed);
            bound = bounded(nodes.sets_that_fit(&set, i64::from(bound)));
        }
        bound
    }
}
