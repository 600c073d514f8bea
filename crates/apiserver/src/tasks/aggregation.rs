//! ClusterRoles with an aggregation rule hold the rules of all ClusterRoles that its selectors select.

use std::sync::Arc;

use serde_json::Value;

use super::queue::Work;
use super::{internal, resource_of};
use crate::selector::compiled;
use crate::shared::Shared;
use crate::store::{Key, Stored, TableName};
use crate::verbs::{Write, modify};

pub(super) const CLUSTER_ROLES: &str = "clusterroles.rbac.authorization.k8s.io";

/// Roles that aggregate may be part of others that do; deeper nesting than this does not settle.
const DEPTH: usize = 8;

/// The rules of the selected roles, each once, in the order of the roles' names.
fn sum(name: &str, aggregation: &Value, all: &[(Arc<Stored>, Value)]) -> Vec<Value> {
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

/// Brings every aggregated role up to date.
pub(crate) async fn sum_up(shared: &Arc<Shared>) {
    let Some(resource) = resource_of(shared, &TableName::from(CLUSTER_ROLES)) else {
        return;
    };
    for _ in 0..DEPTH {
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
            let rules = sum(name, aggregation, &all);
            let held = role["rules"].as_array().map_or(&[][..], Vec::as_slice);
            if held == rules || stored.deleting {
                continue;
            }
            settled = false;
            let call = internal(shared, &resource, "", name);
            let key = Key::new("", name);
            let result = modify(&call, &key, Write::Plain, |old| {
                let mut new = old.clone();
                new["rules"] = Value::Array(rules.clone());
                Ok(new)
            });
            if let Err(error) = result.await {
                shared.failed(Work::Aggregation);
                tracing::debug!(role = %name, %error, "aggregated role was not brought up to date");
                settled = true;
            }
        }
        if settled {
            return;
        }
    }
}
