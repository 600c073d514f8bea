//! Aggregated ClusterRoles. An aggregated ClusterRole contains the rules of all ClusterRoles that its selectors match.

use std::sync::Arc;

use serde_json::Value;

use super::resource_of;
use crate::selector::compiled;
use crate::shared::Shared;
use crate::shared::work_queue::Work;
use crate::store::{Key, Stored};
use crate::table_names::CLUSTER_ROLES;
use crate::verbs::{Call, WriteKind, modify};

/// Maximum number of levels of aggregated roles that aggregate other aggregated roles.
const MAX_DEPTH: usize = 8;

/// Returns the rules of the roles that an aggregation selects, without duplicates. The rules have the order of the
/// selectors, and for each selector the order of the role names.
fn aggregated_rules(name: &str, aggregation: &Value, all: &[(Arc<Stored>, Value)]) -> Vec<Value> {
    let mut rules: Vec<Value> = Vec::new();
    for selector in aggregation["clusterRoleSelectors"]
        .as_array()
        .into_iter()
        .flatten()
    {
        let Some(labels) = compiled(selector) else {
            continue;
        };
        for (stored, role) in all {
            if *stored.key.name == *name || !labels.matches(&stored.labels) {
                continue;
            }
            for rule in role["rules"].as_array().into_iter().flatten() {
                if !rules.contains(rule) {
                    rules.push(rule.clone());
                }
            }
        }
    }
    rules
}

/// Updates the rules of all aggregated ClusterRoles.
pub(crate) async fn update(shared: &Arc<Shared>) {
    let Some(resource) = resource_of(shared, CLUSTER_ROLES) else {
        return;
    };
    for _ in 0..MAX_DEPTH {
        let all: Vec<(Arc<Stored>, Value)> = shared
            .store
            .list(CLUSTER_ROLES, None)
            .items
            .into_iter()
            .map(|o| (o.clone(), o.value()))
            .collect();
        let mut settled = true;
        for (stored, role) in &all {
            let Some(aggregation) = role.get("aggregationRule").filter(|r| r.is_object()) else {
                continue;
            };
            let name = &stored.key.name;
            let rules = aggregated_rules(name, aggregation, &all);
            let current = role["rules"].as_array().map_or(&[][..], Vec::as_slice);
            if current == rules || stored.deleting {
                continue;
            }
            settled = false;
            let call = Call::internal(shared, &resource, "", name);
            let key = Key::new("", name);
            let result = modify(&call, &key, WriteKind::Plain, |old| {
                let mut new = old.clone();
                new["rules"] = Value::Array(rules.clone());
                Ok(new)
            });
            if let Err(error) = result.await {
                shared.retry_later(Work::Aggregation);
                tracing::debug!(role = %name, %error, "cannot update an aggregated role");
                settled = true;
            }
        }
        if settled {
            return;
        }
    }
}
