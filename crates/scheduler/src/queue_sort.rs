//! The in-tree QueueSort plugins. [`PrioritySort`] is the default queue order. [`GroupQueueSort`] orders the queue by a
//! label and by the QoS class of the pods.

use std::sync::Arc;

use berth_api::{Binding, BindingKey};
use serde::Deserialize;

use crate::framework::{
    Args, FactoryError, Follow, Gate, Handle, Plugin, PreEnqueue, QueueSort, Rank,
};
use crate::template::{Lookup, TemplateProperties, Templates};

/// The plugin PrioritySort, which orders bindings by the priority in their spec.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PrioritySort;

impl PrioritySort {
    /// Name of the plugin.
    pub(crate) const NAME: &'static str = "PrioritySort";
}

impl QueueSort for PrioritySort {
    fn rank(&self, binding: &Binding) -> Rank {
        Rank::of(binding.spec.priority().into())
    }
}

/// The label with the priority. Bindings with a greater number are scheduled first.
const GROUP_PRIORITY: &str = "groupPriority";

/// The plugin GroupQueueSort. It orders bindings by the label `groupPriority`, the greatest number first. Bindings with
/// equal numbers are ordered by the QoS class of their pods: Guaranteed, Burstable, BestEffort. Within a class, the
/// binding that became ready first is scheduled first.
#[derive(Debug)]
pub(crate) struct GroupQueueSort {
    templates: Templates,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
struct SortArgs {
    /// True if the plugin reads the labels and limits of templates.
    read_templates: bool,
}

impl Default for SortArgs {
    fn default() -> Self {
        Self {
            read_templates: true,
        }
    }
}

impl GroupQueueSort {
    /// Name of the plugin.
    pub(crate) const NAME: &'static str = "GroupQueueSort";

    pub(crate) fn plugin(args: &Args, handle: &Handle) -> Result<Plugin, FactoryError> {
        let args: SortArgs = args.parse()?;
        let sort = Arc::new(Self {
            templates: if args.read_templates {
                handle.templates()
            } else {
                Templates::disabled()
            },
        });
        Ok(Plugin::new(Self::NAME)
            .queue_sort(sort.clone())
            .pre_enqueue(sort.clone())
            .follow(sort))
    }

    fn template_properties(&self, binding: &Binding) -> TemplateProperties {
        match self.templates.of(binding) {
            Lookup::Known(properties) => properties,
            Lookup::Pending | Lookup::Absent | Lookup::Unreadable(_) => {
                TemplateProperties::default()
            }
        }
    }
}

impl QueueSort for GroupQueueSort {
    fn rank(&self, binding: &Binding) -> Rank {
        let template = self.template_properties(binding);
        let own = |name: &str| binding.metadata.labels.as_ref()?.get(name);
        let label = own(GROUP_PRIORITY).or_else(|| template.labels.get(GROUP_PRIORITY));
        let priority = label.and_then(|label| label.parse().ok()).unwrap_or(0);
        Rank([priority, template.qos as i64, 0])
    }
}

impl PreEnqueue for GroupQueueSort {
    /// Gates a binding until its template has been read, because the rank depends on the template.
    fn pre_enqueue(&self, binding: &Binding) -> Gate {
        match self.templates.of(binding) {
            Lookup::Pending => Gate::NotKnown,
            Lookup::Known(_) | Lookup::Absent | Lookup::Unreadable(_) => Gate::Open,
        }
    }
}

impl Follow for GroupQueueSort {
    fn present(&self, _: &Binding) {}

    fn refresh(&self) -> Vec<BindingKey> {
        self.templates.apply_updates()
    }

    fn gone(&self, key: &BindingKey) {
        self.templates.forget(key);
    }
}

#[cfg(test)]
mod tests {
    use berth_api::ResourceBinding;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_greater_label_is_first_and_an_invalid_label_is_ignored() {
        let sort = GroupQueueSort {
            templates: Templates::disabled(),
        };
        let rank = |label: Option<&str>| {
            let labels = label.map(|label| json!({ "groupPriority": label }));
            let binding: ResourceBinding = serde_json::from_value(json!({
                "metadata": { "name": "b", "namespace": "n", "labels": labels },
                "spec": { "resource": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "d" } },
            }))
            .unwrap();
            sort.rank(&binding.into())
        };
        assert!(rank(Some("10")) > rank(Some("9")));
        assert!(rank(Some("1")) > rank(None));
        assert!(rank(None) > rank(Some("-1")));
        assert_eq!(rank(Some("high")), rank(None));
    }
}
