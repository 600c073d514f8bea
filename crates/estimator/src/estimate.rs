//! Answers to requests, from the state of the cluster.

use berth_estimator_protocol::kubernetes_types::DecodeError;
use berth_estimator_protocol::wire::pb;

use crate::devices::Devices;
use crate::nodes::{Demand, Nodes, Simulation};
use crate::pod_template::{AssumedWorkload, Component, PodTemplate};
use crate::priority::PriorityClasses;
use crate::quota::Quotas;
use crate::unschedulable::Workloads;

/// The rules that feature gates and flags switch on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// ResourceQuotas limit the estimates (gate ResourceQuotaEstimate).
    pub quotas: bool,
    /// Assumed workloads of requests reduce the estimates (gate SchedulingOvercommitProtection).
    pub assumed_workloads: bool,
    /// The resources of pods that the priority class of a request may displace count as free.
    pub preemptible_pods: bool,
}

/// A part of an estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plugin {
    /// The limit by the resources of nodes.
    NodeResources,
    /// The limit by ResourceQuotas.
    Quotas,
}

/// Runs the parts of estimates, so that the caller can measure their times. The state itself has no clock.
pub trait PluginRunner {
    /// Returns the result of a part.
    fn run<T>(&mut self, plugin: Plugin, part: impl FnOnce() -> T) -> T;
}

/// A runner that measures nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unmeasured;

impl PluginRunner for Unmeasured {
    fn run<T>(&mut self, _: Plugin, part: impl FnOnce() -> T) -> T {
        part()
    }
}

/// The state of a cluster, updated with each event about an object.
#[derive(Debug, Default)]
pub struct ClusterState {
    /// Nodes and the pods on them.
    pub nodes: Nodes,
    /// Devices of the nodes.
    pub devices: Devices,
    /// Deployments and their unschedulable pods.
    pub workloads: Workloads,
    /// ResourceQuotas.
    pub quotas: Quotas,
    /// Priority classes.
    pub priority_classes: PriorityClasses,
}

impl ClusterState {
    /// Returns the number of replicas that fit into the cluster. The runner runs the parts of the estimate.
    ///
    /// # Errors
    /// When the request contains malformed bytes.
    pub fn max_replicas(
        &self,
        request: &pb::MaxAvailableReplicasRequest,
        rules: Rules,
        runner: &mut impl PluginRunner,
    ) -> Result<i32, DecodeError> {
        if self.nodes.count() == 0 {
            return Ok(0);
        }
        let requirements = request.replica_requirements.as_ref();
        let template = requirements.map(PodTemplate::decode).transpose()?;
        let assumed = assumed(&request.assumed_workloads, rules)?;
        let without_requirements = PodTemplate::default();
        let wanted = template.as_ref().unwrap_or(&without_requirements);
        let on_nodes: i64 = runner.run(Plugin::NodeResources, || {
            let (simulation, demands) = self.after_assumed(&assumed, &[(wanted, 1)], rules);
            let pods = demands.iter().map(|demand| simulation.max_pods(demand));
            pods.sum()
        });
        let on_nodes = i32::try_from(on_nodes).unwrap_or(i32::MAX);
        let namespace = requirements.map_or("", |it| it.namespace.as_str());
        let by_quotas = runner.run(Plugin::Quotas, || {
            let limited = template.as_ref().filter(|_| rules.quotas);
            limited.and_then(|template| self.quotas.max_replicas(namespace, template, &assumed))
        });
        Ok(on_nodes.min(by_quotas.unwrap_or(i32::MAX)))
    }

    /// Returns the number of complete sets of components that fit into the cluster. The runner runs the parts of the
    /// estimate.
    ///
    /// # Errors
    /// When the request contains malformed bytes.
    pub fn max_component_sets(
        &self,
        request: &pb::MaxAvailableComponentSetsRequest,
        rules: Rules,
        runner: &mut impl PluginRunner,
    ) -> Result<i32, DecodeError> {
        if self.nodes.count() == 0 {
            return Ok(0);
        }
        let components = Component::decode_all(&request.components)?;
        if components.is_empty() {
            return Ok(i32::MAX);
        }
        let assumed = assumed(&request.assumed_workloads, rules)?;
        let by_quotas = runner.run(Plugin::Quotas, || {
            let quotas = rules.quotas.then_some(&self.quotas);
            quotas.and_then(|quotas| quotas.max_sets(&request.namespace, &components, &assumed))
        });
        let most = by_quotas.unwrap_or(i32::MAX);
        let without_requirements = PodTemplate::default();
        let wanted: Vec<_> = templates(&components, &without_requirements).collect();
        Ok(runner.run(Plugin::NodeResources, || {
            let (mut simulation, mut demands) = self.after_assumed(&assumed, &wanted, rules);
            simulation.place_sets(&mut demands, most)
        }))
    }

    /// Places one set of each assumed workload. Returns the resources that are left, and the demands of `wanted`.
    fn after_assumed(
        &self,
        assumed: &[AssumedWorkload],
        wanted: &[(&PodTemplate, i64)],
        rules: Rules,
    ) -> (Simulation, Vec<Demand>) {
        let without_requirements = PodTemplate::default();
        let all = assumed
            .iter()
            .flat_map(|workload| templates(&workload.components, &without_requirements))
            .chain(wanted.iter().copied());
        let preemptible_below = rules.preemptible_pods.then(|| {
            let templates = wanted.iter().map(|(template, _)| template);
            let classes = &self.priority_classes;
            let priorities =
                templates.map(|template| classes.preempting_priority(&template.priority_class));
            // `None`, which displaces no pods, is the minimum.
            priorities.min().flatten()
        });
        let (mut simulation, mut demands) = self.nodes.simulation(
            &all.collect::<Vec<_>>(),
            &self.devices,
            preemptible_below.flatten(),
        );
        let mut rest = demands.as_mut_slice();
        for workload in assumed {
            let (set, following) = rest.split_at_mut(workload.components.len());
            // A workload that does not fit is probably running already, so that its pods are counted on their nodes.
            simulation.place_sets(set, 1);
            rest = following;
        }
        let of_wanted = demands.split_off(demands.len() - wanted.len());
        (simulation, of_wanted)
    }
}

/// Returns the template and the number of pods of each component.
fn templates<'a>(
    components: &'a [Component],
    without_requirements: &'a PodTemplate,
) -> impl Iterator<Item = (&'a PodTemplate, i64)> {
    components.iter().map(move |component| {
        let template = component.template.as_ref().unwrap_or(without_requirements);
        (template, component.replicas)
    })
}

fn assumed(
    workloads: &[pb::AssumedWorkload],
    rules: Rules,
) -> Result<Vec<AssumedWorkload>, DecodeError> {
    if rules.assumed_workloads {
        AssumedWorkload::decode_all(workloads)
    } else {
        Ok(Vec::new())
    }
}

#[cfg(test)]
mod tests;
