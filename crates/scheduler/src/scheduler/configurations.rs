//! The configuration in use and the last replaced configurations. The module `profiles::config_map_watch` builds a new
//! configuration.

use std::collections::VecDeque;

use berth_api::feature_gates::EngineGates;
use berth_api::{Binding, BindingKey};
use tokio_util::sync::DropGuard;

use crate::extender::Extenders;
use crate::framework::EventKind;
use crate::profiles::Frameworks;

/// Maximum number of replaced configurations that are kept to explain earlier decisions.
const RETIRED: usize = 2;

/// The configuration of all further decisions, and the last replaced configurations.
pub(super) struct Configurations {
    /// The number of the configuration in use.
    pub(super) number: u64,
    pub(super) frameworks: Frameworks,
    /// Extenders of the configuration in use. Decisions ignore the answers of earlier extenders.
    pub(super) extenders: Option<Extenders>,
    /// Guard that ends the plugins' tasks when the frameworks are replaced.
    plugin_tasks: DropGuard,
    retired: VecDeque<Retired>,
    /// True if the feature gate MultiplePodTemplatesScheduling is on. It holds for all configurations.
    pub(super) multiple_pod_templates: bool,
    /// True if the feature gate NodePoolEstimate is on. It holds for all configurations.
    pub(super) node_pool_estimate: bool,
}

/// A replaced configuration.
struct Retired {
    number: u64,
    frameworks: Frameworks,
    extenders: Option<Extenders>,
}

impl Configurations {
    /// Starts with a first configuration.
    pub(super) fn new(
        gates: EngineGates,
        frameworks: Frameworks,
        extenders: Option<Extenders>,
        plugin_tasks: DropGuard,
    ) -> Self {
        Self {
            number: 0,
            frameworks,
            extenders,
            plugin_tasks,
            retired: VecDeque::new(),
            multiple_pod_templates: gates.multiple_pod_templates_scheduling,
            node_pool_estimate: gates.node_pool_estimate,
        }
    }

    /// Uses a new configuration, ends the tasks of the replaced plugins, and keeps the replaced profiles and extenders.
    pub(super) fn replace(
        &mut self,
        frameworks: Frameworks,
        extenders: Option<Extenders>,
        plugin_tasks: DropGuard,
    ) {
        self.retired.push_back(Retired {
            number: self.number,
            frameworks: std::mem::replace(&mut self.frameworks, frameworks),
            extenders: std::mem::replace(&mut self.extenders, extenders),
        });
        if self.retired.len() > RETIRED {
            self.retired.pop_front();
        }
        self.number += 1;
        drop(std::mem::replace(&mut self.plugin_tasks, plugin_tasks));
    }

    /// Returns the profiles and extenders of the configuration with this number, or `None` if it is no longer kept.
    pub(super) fn numbered(
        &mut self,
        number: u64,
    ) -> Option<(&mut Frameworks, Option<&Extenders>)> {
        if number == self.number {
            return Some((&mut self.frameworks, self.extenders.as_ref()));
        }
        let mut retired = self.retired.iter_mut();
        let retired = retired.find(|retired| retired.number == number)?;
        Some((&mut retired.frameworks, retired.extenders.as_ref()))
    }

    /// Reports whether a plugin has registered for events of this type.
    pub(super) fn is_registered(&self, kind: EventKind) -> bool {
        self.frameworks
            .iter()
            .any(|framework| framework.points.registered(kind))
    }

    /// Notifies Follow plugins of an added or changed binding.
    pub(super) fn notify_followers(&self, binding: &Binding) {
        for framework in self.frameworks.iter() {
            framework.points.follow(|follow| follow.present(binding));
        }
    }

    /// Notifies Follow plugins of a deleted binding.
    pub(super) fn notify_followers_of_deletion(&self, key: &BindingKey) {
        for framework in self.frameworks.iter() {
            framework.points.follow(|follow| follow.gone(key));
        }
    }
}
