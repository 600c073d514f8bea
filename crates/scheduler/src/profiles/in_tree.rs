//! Registration of the in-tree plugins.

use std::sync::Arc;

use berth_api::feature_gates::EngineGates;
use berth_engine::{
    ApiEnablement, AssignReplicas, ClusterAffinity, ClusterEviction, ClusterLocality, GATED,
    SelectClusters, SpreadConstraint, TaintToleration, WorkloadAffinity, WorkloadAntiAffinity,
};

use crate::config::Options;
use crate::default_preemption::DefaultPreemption;
use crate::expression::{self, Expression};
use crate::framework::registry::{Enablement, Registry, RegistryError};
use crate::framework::{Args, Handle, Plugin};
use crate::gang::Coscheduling;
use crate::queue_sort::{GroupQueueSort, PrioritySort};

impl Registry {
    /// Returns the in-tree plugins in Karmada's order. A plugin of a feature gate is included if the gate is on.
    pub fn in_tree(gates: EngineGates) -> Self {
        let mut registry = Self::new();
        registry.add_plain(
            Enablement::Default,
            ApiEnablement::NAME,
            |plugin, handle| plugin.filter(Arc::new(ApiEnablement::new(handle.gates()))),
        );
        registry.add_plain(Enablement::Default, TaintToleration::NAME, |plugin, _| {
            plugin.placement_filter(Arc::new(TaintToleration))
        });
        registry.add_plain(Enablement::Default, ClusterAffinity::NAME, |plugin, _| {
            plugin.placement_filter(Arc::new(ClusterAffinity))
        });
        registry.add_plain(Enablement::Default, SpreadConstraint::NAME, |plugin, _| {
            plugin.placement_filter(Arc::new(SpreadConstraint))
        });
        registry.add_plain(Enablement::Default, ClusterEviction::NAME, |plugin, _| {
            plugin.filter(Arc::new(ClusterEviction))
        });
        if gates.workload_affinity {
            registry.add_plain(Enablement::Default, WorkloadAffinity::NAME, |plugin, _| {
                plugin.filter(Arc::new(WorkloadAffinity))
            });
            registry.add_plain(
                Enablement::Default,
                WorkloadAntiAffinity::NAME,
                |plugin, _| plugin.filter(Arc::new(WorkloadAntiAffinity)),
            );
        }
        registry.add_plain(Enablement::Default, ClusterLocality::NAME, |plugin, _| {
            plugin.score(Arc::new(ClusterLocality))
        });
        registry.add_plain(Enablement::Base, PrioritySort::NAME, |plugin, _| {
            plugin.queue_sort(Arc::new(PrioritySort))
        });
        registry.add_plain(Enablement::Base, SelectClusters::NAME, |plugin, handle| {
            plugin.select(Arc::new(SelectClusters::new(handle.gates())))
        });
        registry.add_plain(Enablement::Base, AssignReplicas::NAME, |plugin, handle| {
            plugin.assign(Arc::new(AssignReplicas::new(handle.gates())))
        });
        registry.add_plain(
            Enablement::Optional,
            DefaultPreemption::NAME,
            |plugin, _| {
                plugin
                    .post_filter(Arc::new(DefaultPreemption))
                    .assumes_capacity()
            },
        );
        registry.put(
            Enablement::Optional,
            GroupQueueSort::NAME.into(),
            Arc::new(GroupQueueSort::plugin),
        );
        registry.put(
            Enablement::Optional,
            Coscheduling::NAME.into(),
            Arc::new(Coscheduling::plugin),
        );
        registry.put(
            Enablement::Optional,
            Expression::NAME.into(),
            Arc::new(expression::plugin),
        );
        registry
    }

    /// Registers a plugin that takes no arguments.
    fn add_plain(
        &mut self,
        enablement: Enablement,
        name: &'static str,
        make: fn(Plugin, &Handle) -> Plugin,
    ) {
        self.put(
            enablement,
            name.into(),
            Arc::new(move |args: &Args, handle: &Handle| {
                args.expect_none()?;
                Ok(make(Plugin::new(name), handle))
            }),
        );
    }
}

impl Options {
    /// Returns all available plugins: the in-tree plugins that the options keep, and the out-of-tree plugins.
    ///
    /// # Errors
    /// When an out-of-tree plugin has the name of an in-tree plugin, or when the options remove an unknown plugin.
    pub fn all_plugins(&self) -> Result<Registry, RegistryError> {
        let mut all = Registry::in_tree(self.gates);
        for name in &self.unregistered {
            // A plugin whose gate is off is not registered. The options may nevertheless remove it.
            if all.contains(name) || !GATED.contains(&name.as_str()) {
                all.unregister(name)?;
            }
        }
        all.merge(self.registry.clone())?;
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_in_tree_plugin_is_registered_once() {
        let gates = EngineGates {
            workload_affinity: true,
            ..EngineGates::default()
        };
        let registry = Registry::in_tree(gates);
        let mut names: Vec<&str> = registry.names().collect();
        names.sort_unstable();
        let mut expected: Vec<&str> = berth_engine::IN_TREE
            .into_iter()
            .chain(berth_engine::GATED)
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
        let plain = Registry::in_tree(EngineGates::default());
        assert!(!plain.contains(WorkloadAffinity::NAME));
    }

    #[test]
    fn only_existing_plugins_can_be_removed() {
        let without = |name: &str| Options {
            unregistered: vec![name.to_owned()],
            ..Options::embedded()
        };
        let all = without("ClusterAffinity").all_plugins().unwrap();
        assert!(!all.contains("ClusterAffinity"));
        // The options may remove a plugin whose gate is off.
        assert!(without("WorkloadAffinity").all_plugins().is_ok());
        let error = without("Typo").all_plugins().unwrap_err().to_string();
        assert!(
            error.starts_with("no plugin is named \"Typo\"; known plugins: APIEnablement, "),
            "{error}"
        );
    }
}
