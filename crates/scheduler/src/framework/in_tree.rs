//! The in-tree plugins, registered as any other plugin is.

use std::sync::Arc;

use berth_core::{
    ApiEnablement, AssignReplicas, ClusterAffinity, ClusterEviction, ClusterLocality, Gates,
    SelectClusters, SpreadConstraint, TaintToleration, WorkloadAffinity, WorkloadAntiAffinity,
};

use super::args::Args;
use super::handle::Handle;
use super::plugin::Plugin;
use super::priority_sort::PrioritySort;
use super::registry::{Registry, Standing};
use crate::expression::{self, Expression};
use crate::gang::{Coscheduling, GroupQueueSort};
use crate::preemption::DefaultPreemption;

impl Registry {
    /// The in-tree plugins, in the order in which Karmada's run. Those behind a gate are there when it is on.
    pub fn in_tree(gates: Gates) -> Self {
        let mut registry = Self::new();
        registry.add_plain(Standing::Default, ApiEnablement::NAME, |plugin, _| {
            plugin.filter(Arc::new(ApiEnablement))
        });
        registry.add_plain(Standing::Default, TaintToleration::NAME, |plugin, _| {
            plugin.placement_filter(Arc::new(TaintToleration))
        });
        registry.add_plain(Standing::Default, ClusterAffinity::NAME, |plugin, _| {
            plugin.placement_filter(Arc::new(ClusterAffinity))
        });
        registry.add_plain(Standing::Default, SpreadConstraint::NAME, |plugin, _| {
            plugin.placement_filter(Arc::new(SpreadConstraint))
        });
        registry.add_plain(Standing::Default, ClusterEviction::NAME, |plugin, _| {
            plugin.filter(Arc::new(ClusterEviction))
        });
        if gates.workload_affinity {
            registry.add_plain(Standing::Default, WorkloadAffinity::NAME, |plugin, _| {
                plugin.filter(Arc::new(WorkloadAffinity))
            });
            registry.add_plain(
                Standing::Default,
                WorkloadAntiAffinity::NAME,
                |plugin, _| plugin.filter(Arc::new(WorkloadAntiAffinity)),
            );
        }
        registry.add_plain(Standing::Default, ClusterLocality::NAME, |plugin, _| {
            plugin.score(Arc::new(ClusterLocality))
        });
        registry.add_plain(Standing::Base, PrioritySort::NAME, |plugin, _| {
            plugin.queue_sort(Arc::new(PrioritySort))
        });
        registry.add_plain(Standing::Base, SelectClusters::NAME, |plugin, handle| {
            plugin.select(Arc::new(SelectClusters::new(handle.gates())))
        });
        registry.add_plain(Standing::Base, AssignReplicas::NAME, |plugin, _| {
            plugin.assign(Arc::new(AssignReplicas))
        });
        registry.add_plain(Standing::Optional, DefaultPreemption::NAME, |plugin, _| {
            plugin
                .post_filter(Arc::new(DefaultPreemption))
                .assumes_capacity()
        });
        registry.put(
            Standing::Optional,
            GroupQueueSort::NAME.into(),
            Arc::new(GroupQueueSort::plugin),
        );
        registry.put(
            Standing::Optional,
            Coscheduling::NAME.into(),
            Arc::new(Coscheduling::plugin),
        );
        registry.put(
            Standing::Optional,
            Expression::NAME.into(),
            Arc::new(expression::plugin),
        );
        registry
    }

    /// A plugin that takes no arguments.
    fn add_plain(
        &mut self,
        standing: Standing,
        name: &'static str,
        make: fn(Plugin, &Handle) -> Plugin,
    ) {
        self.put(
            standing,
            name.into(),
            Arc::new(move |args: &Args, handle: &Handle| {
                args.expect_none()?;
                Ok(make(Plugin::new(name), handle))
            }),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_in_tree_plugin_of_the_engine_is_registered_once() {
        let gates = Gates {
            workload_affinity: true,
            ..Gates::default()
        };
        let registry = Registry::in_tree(gates);
        let mut names: Vec<&str> = registry.names().collect();
        names.sort_unstable();
        let mut expected: Vec<&str> = berth_core::IN_TREE
            .into_iter()
            .chain(berth_core::GATED)
            .chain([
                PrioritySort::NAME,
                SelectClusters::NAME,
                AssignReplicas::NAME,
                DefaultPreemption::NAME,
                GroupQueueSort::NAME,
                Coscheduling::NAME,
                Expression::NAME,
            ])
            .collect();
        expected.sort_unstable();
        assert_eq!(names, expected);
        let plain = Registry::in_tree(Gates::default());
        assert!(!plain.contains(WorkloadAffinity::NAME));
    }
}
