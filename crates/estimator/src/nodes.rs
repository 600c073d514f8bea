//! The nodes of the cluster with their free resources, updated with each event about a node or a pod.
//!
//! The table has a column for each label and each resource, so that an estimate over thousands of nodes reads integers
//! only. An event about a pod changes as many integers as the pod has requests.

mod columns;
mod pods;
mod simulation;

use std::collections::{BTreeMap, HashMap};

use berth_api::node_requirements::{AffinityTerm, NodeRequirements, NodeTaint};
use berth_api::node_resources::{in_units, is_counted};
use berth_api::pod_requests::amounts;
use k8s_openapi::api::core::v1::{Node, Pod};

use self::columns::{ResourceColumn, Slot, ValueColumn};
use self::pods::{Pods, ScheduledPod};
pub(crate) use self::simulation::{Demand, Simulation};

/// The resource that limits the number of pods of a node.
const PODS: &str = "pods";

/// The nodes of a cluster, and the pods on them.
#[derive(Debug, Default)]
pub struct Nodes {
    /// The slots of the nodes by name. The order of names is the order of the simulation.
    slots: BTreeMap<String, Slot>,
    /// The slots of nodes that do not exist, but on which pods run. Pods can be listed before their nodes.
    without_node: HashMap<String, Slot>,
    free_slots: Vec<Slot>,
    /// The number of pods by slot.
    pod_counts: Vec<usize>,
    labels: HashMap<String, ValueColumn<String>>,
    taints: ValueColumn<Vec<NodeTaint>>,
    resources: HashMap<String, ResourceColumn>,
    pods: Pods,
}

impl Nodes {
    /// Returns the number of nodes.
    pub fn count(&self) -> usize {
        self.slots.len()
    }

    /// Adds or updates a node.
    pub fn apply_node(&mut self, node: &Node) {
        let Some(name) = node.metadata.name.as_deref() else {
            return;
        };
        let slot = self.slot(name);
        self.without_node.remove(name);
        self.slots.insert(name.to_owned(), slot);
        let no_labels = BTreeMap::new();
        let labels = node.metadata.labels.as_ref().unwrap_or(&no_labels);
        for (key, column) in &mut self.labels {
            let value = labels.get(key);
            if column.get(slot) != value {
                column.set(slot, value.cloned());
            }
        }
        for (key, value) in labels {
            if !self.labels.contains_key(key) {
                let column = self.labels.entry(key.clone()).or_default();
                column.set(slot, Some(value.clone()));
            }
        }
        self.labels.retain(|_, column| !column.is_empty());
        self.taints.set(slot, Some(NodeTaint::of(node)));
        let status = node.status.as_ref();
        let allocatable = amounts(status.and_then(|status| status.allocatable.as_ref()));
        for (resource, column) in &mut self.resources {
            if !allocatable.contains_key(resource) {
                column.set_allocatable(slot, 0);
            }
        }
        for (resource, quantity) in allocatable {
            if is_counted(&resource) {
                let amount = in_units(&resource, quantity);
                let column = self.resources.entry(resource).or_default();
                column.set_allocatable(slot, amount);
            }
        }
    }

    /// Removes a node. Its pods are kept until they are removed.
    pub fn remove_node(&mut self, name: &str) {
        let Some(slot) = self.slots.remove(name) else {
            return;
        };
        for column in self.labels.values_mut() {
            column.set(slot, None);
        }
        self.labels.retain(|_, column| !column.is_empty());
        self.taints.set(slot, None);
        for column in self.resources.values_mut() {
            column.set_allocatable(slot, 0);
        }
        if self.pod_counts[slot] == 0 {
            self.release(slot);
        } else {
            self.without_node.insert(name.to_owned(), slot);
        }
    }

    /// Removes the nodes that do not satisfy the condition.
    pub fn retain_nodes(&mut self, is_kept: impl Fn(&str) -> bool) {
        let names = self.slots.keys().filter(|name| !is_kept(name));
        for name in names.cloned().collect::<Vec<_>>() {
            self.remove_node(&name);
        }
    }

    /// Adds or updates a pod. A pod that has ended, or that has no node yet, uses no resources.
    pub fn apply_pod(&mut self, pod: &Pod) {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        match ScheduledPod::of(pod) {
            Some(pod) if self.pods.get(namespace, name) == Some(&pod) => {}
            Some(pod) => {
                self.remove_pod(namespace, name);
                self.add_pod(namespace, name, pod);
            }
            None => self.remove_pod(namespace, name),
        }
    }

    /// Removes a pod.
    pub fn remove_pod(&mut self, namespace: &str, name: &str) {
        let Some(pod) = self.pods.remove(namespace, name) else {
            return;
        };
        let slot = self.slot(&pod.node);
        self.pod_counts[slot] -= 1;
        self.column(PODS).add_requested(slot, -1);
        for (resource, amount) in pod.requests.iter() {
            self.column(resource).add_requested(slot, -amount);
        }
        if self.pod_counts[slot] == 0 && self.without_node.remove(&*pod.node).is_some() {
            self.release(slot);
        }
    }

    /// Removes the pods that do not satisfy the condition about namespace and name.
    pub fn retain_pods(&mut self, is_kept: impl Fn(&str, &str) -> bool) {
        for (namespace, name) in self.pods.keys_without(is_kept) {
            self.remove_pod(&namespace, &name);
        }
    }

    fn add_pod(&mut self, namespace: &str, name: &str, pod: ScheduledPod) {
        let slot = self.slot(&pod.node);
        if !self.slots.contains_key(&*pod.node) {
            self.without_node.insert(pod.node.to_string(), slot);
        }
        self.pod_counts[slot] += 1;
        self.column(PODS).add_requested(slot, 1);
        for (resource, amount) in pod.requests.iter() {
            self.column(resource).add_requested(slot, *amount);
        }
        self.pods.insert(namespace, name, pod);
    }

    fn column(&mut self, resource: &str) -> &mut ResourceColumn {
        if !self.resources.contains_key(resource) {
            self.resources
                .insert(resource.to_owned(), ResourceColumn::default());
        }
        self.resources.entry(resource.to_owned()).or_default()
    }

    /// Returns the slot of a node, or a free slot if the node has none.
    fn slot(&mut self, node: &str) -> Slot {
        let known = self.slots.get(node).or_else(|| self.without_node.get(node));
        if let Some(slot) = known {
            return *slot;
        }
        self.free_slots.pop().unwrap_or_else(|| {
            self.pod_counts.push(0);
            self.pod_counts.len() - 1
        })
    }

    fn release(&mut self, slot: Slot) {
        for column in self.resources.values_mut() {
            column.clear(slot);
        }
        self.free_slots.push(slot);
    }

    /// Returns the slots whose nodes satisfy a claim.
    fn select(&self, claim: &NodeRequirements) -> Vec<bool> {
        let mut selection = vec![true; self.pod_counts.len()];
        self.taints.restrict(&mut selection, |taints| {
            taints.is_some_and(|taints| claim.tolerate(taints))
        });
        for (key, value) in &claim.selector {
            match self.labels.get(key) {
                Some(column) => column.restrict(&mut selection, |label| label == Some(value)),
                None => selection.fill(false),
            }
        }
        if let Some(terms) = &claim.affinity {
            let mut any = vec![false; selection.len()];
            for term in terms {
                let mut selected = selection.clone();
                self.restrict_to_term(&mut selected, term);
                any.iter_mut()
                    .zip(selected)
                    .for_each(|(any, it)| *any |= it);
            }
            selection = any;
        }
        selection
    }

    fn restrict_to_term(&self, selection: &mut [bool], term: &AffinityTerm) {
        for requirement in &term.labels {
            let condition = |label: Option<&String>| {
                let label = label.map(String::as_str);
                requirement.relation().matches(label)
            };
            match self.labels.get(requirement.key()) {
                Some(column) => column.restrict(selection, condition),
                None if condition(None) => {}
                None => selection.fill(false),
            }
        }
        for requirement in &term.fields {
            for (name, slot) in &self.slots {
                selection[*slot] &= requirement.matches(name);
            }
        }
    }
}
