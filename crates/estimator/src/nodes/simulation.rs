//! A simulated placement of pods on a copy of the free resources of the nodes: first fit, in the order of node names.

use std::collections::HashMap;
use std::sync::Arc;

use berth_api::node_requirements::NodeRequirements;

use super::columns::Slot;
use super::{Nodes, PODS};
use crate::devices::Devices;
use crate::pod_template::PodTemplate;

/// The free resources of all nodes. Placed pods reduce them.
#[derive(Debug)]
pub(crate) struct Simulation {
    /// The free amounts by resource and node.
    free: Vec<Vec<i64>>,
    /// The free numbers of pods by node.
    pods: Vec<i64>,
}

/// Equal pods to place, prepared for a [`Simulation`].
#[derive(Clone, Debug)]
pub(crate) struct Demand {
    /// The requested amounts with the index of the resource in the simulation. Amounts are positive.
    requests: Vec<(usize, i64)>,
    /// The nodes that satisfy the claim, in ascending order. Demands with equal claims share them.
    nodes: Arc<[usize]>,
    /// Index in `nodes` of the first node on which a pod may still fit. Free resources never grow.
    first: usize,
    /// The number of pods.
    replicas: i64,
}

impl Nodes {
    /// Copies the free resources and devices that pods of these templates need. Returns a demand for each template and
    /// number of pods. The resources of pods with a priority lower than `preemptible_below` count as free.
    pub(crate) fn simulation(
        &self,
        templates: &[(&PodTemplate, i64)],
        devices: &Devices,
        preemptible_below: Option<i32>,
    ) -> (Simulation, Vec<Demand>) {
        let mut resources: Vec<&str> = templates
            .iter()
            .flat_map(|(template, _)| template.requests.keys().map(String::as_str))
            .collect();
        resources.sort_unstable();
        resources.dedup();
        let preemptible = preemptible_below.map(|below| self.usage_below(below));
        let column = |resource: &str| {
            let displaced = preemptible.as_ref().and_then(|usage| usage.get(resource));
            self.free(resource, displaced, devices)
        };
        let mut nodes_of: HashMap<&NodeRequirements, Arc<[usize]>> = HashMap::new();
        let demands = templates.iter().map(|(template, replicas)| {
            let claim = &template.claim;
            let nodes = nodes_of
                .entry(claim)
                .or_insert_with(|| self.nodes_of(claim));
            let requests = template.requests.iter().filter_map(|(resource, amount)| {
                let index = resources.binary_search(&resource.as_str()).ok()?;
                Some((index, *amount))
            });
            Demand {
                requests: requests.collect(),
                nodes: Arc::clone(nodes),
                first: 0,
                replicas: *replicas,
            }
        });
        let demands = demands.collect();
        let simulation = Simulation {
            free: resources.iter().map(|resource| column(resource)).collect(),
            pods: column(PODS),
        };
        (simulation, demands)
    }

    /// Returns the free amounts of a resource by node, without the displaced amounts.
    fn free(
        &self,
        resource: &str,
        displaced: Option<&HashMap<Slot, i64>>,
        devices: &Devices,
    ) -> Vec<i64> {
        let column = self.resources.get(resource);
        let announced = |slot: &Slot| {
            let displaced = displaced.and_then(|amounts| amounts.get(slot));
            let displaced = displaced.copied().unwrap_or_default();
            column.map_or(0, |column| column.free_without(*slot, displaced))
        };
        let Some(devices) = devices.free(resource) else {
            return self.slots.values().map(announced).collect();
        };
        let nodes = self.slots.iter().map(|(node, slot)| {
            if column.is_some_and(|column| column.has_allocatable(*slot)) {
                return announced(slot);
            }
            // The requests of pods do not reduce devices: the claims of these pods contain the devices.
            devices.get(node.as_str()).copied().unwrap_or_default()
        });
        nodes.collect()
    }

    /// Returns the resources that pods with a lower priority use, by resource and slot.
    fn usage_below(&self, priority: i32) -> HashMap<&str, HashMap<Slot, i64>> {
        let mut usage = HashMap::<&str, HashMap<Slot, i64>>::new();
        for pod in self.pods.iter().filter(|pod| pod.priority < priority) {
            let Some(slot) = self.slots.get(&*pod.node) else {
                continue;
            };
            let requests = pod.requests.iter().map(|(name, amount)| (&**name, *amount));
            for (resource, amount) in requests.chain([(PODS, 1)]) {
                let sum = usage.entry(resource).or_default().entry(*slot).or_default();
                *sum = sum.saturating_add(amount);
            }
        }
        usage
    }

    /// Returns the nodes that satisfy a claim, by their position in the order of names.
    fn nodes_of(&self, claim: &NodeRequirements) -> Arc<[usize]> {
        let selection = self.select(claim);
        let nodes = self.slots.values().enumerate();
        let selected = nodes.filter(|(_, slot)| selection[**slot]);
        selected.map(|(node, _)| node).collect()
    }
}

impl Simulation {
    /// Returns the number of pods of a demand that fit on all nodes together.
    pub(crate) fn max_pods(&self, demand: &Demand) -> i64 {
        let nodes = demand.nodes.iter();
        nodes.fold(0, |sum: i64, node| {
            sum.saturating_add(self.fits(demand, *node))
        })
    }

    /// Places complete sets of pods until no further set fits or there are `most` sets. A set contains the pods of all
    /// demands. Returns the number of sets. The pods of an incomplete set stay placed.
    pub(crate) fn place_sets(&mut self, demands: &mut [Demand], most: i32) -> i32 {
        if demands.iter().all(|demand| demand.replicas <= 0) {
            return most;
        }
        let mut sets = 0;
        while sets < most && demands.iter_mut().all(|demand| self.place(demand)) {
            sets += 1;
        }
        sets
    }

    /// Places the pods of a demand. Reports whether all of them fit.
    fn place(&mut self, demand: &mut Demand) -> bool {
        let mut needed = demand.replicas.max(0);
        let mut index = demand.first;
        while needed > 0 && index < demand.nodes.len() {
            let node = demand.nodes[index];
            let placed = self.fits(demand, node).min(needed);
            self.pods[node] -= placed;
            for (resource, amount) in &demand.requests {
                self.free[*resource][node] -= amount * placed;
            }
            needed -= placed;
            if needed > 0 {
                index += 1;
            }
        }
        demand.first = index;
        needed == 0
    }

    /// Returns the number of pods of a demand that fit on a node.
    fn fits(&self, demand: &Demand, node: usize) -> i64 {
        let requests = demand.requests.iter();
        requests.fold(self.pods[node], |fits, (resource, amount)| {
            fits.min(self.free[*resource][node] / amount)
        })
    }
}
