//! The plugin GroupQueueSort, a queue order for gangs.

use std::sync::Arc;

use serde::Deserialize;

use crate::binding::{Binding, BindingKey};
use crate::framework::{
    Args, FactoryError, Follow, Gate, Handle, Plugin, PreEnqueue, QueueSort, Rank,
};
use crate::template::{Facts, Lookup, Templates};

/// The label with the priority. Bindings with a greater number are scheduled first.
const GROUP_PRIORITY: &str = "groupPriority";

/// The plugin GroupQueueSort. It orders bindings by the label `groupPriority`, the greatest number first. Bindings with
/// equal numbers are ordered by the QoS class of their pods: Guaranteed, Burstable, BestEffort. Within a class, the
/// oldest binding is first.
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
                Templates::unread()
            },
        });
        Ok(Plugin::new(Self::NAME)
            .queue_sort(sort.clone())
            .pre_enqueue(sort.clone())
            .follow(sort))
    }

    fn facts(&self, binding: &Binding) -> Facts {
        match self.templates.of(binding) {
            Lookup::Known(facts) => facts,
            Lookup::Pending | Lookup::Absent | Lookup::Unreadable(_) => Facts::default(),
        }
    }
}

impl QueueSort for GroupQueueSort {
    fn rank(&self, binding: &Binding) -> Rank {
        let facts = self.facts(binding);
        let own = |name: &str| binding.metadata.labels.as_ref()?.get(name);
        let label = own(GROUP_PRIORITY).or_else(|| facts.labels.get(GROUP_PRIORITY));
        let priority = label.and_then(|label| label.parse().ok()).unwrap_or(0);
        Rank([priority, facts.qos as i64, 0])
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
        self.templates.publish()
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
            templates: Templates::unread(),
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
