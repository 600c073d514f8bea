//! Merge rules of the lists and objects of built-in kinds. The OpenAPI types of k8s-openapi do not contain these rules.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::{Value, json};

use super::{ListType, Schema, Strategy};

/// The merge rules by definition and field. `merge_keys.txt` describes its own format.
static RULES: LazyLock<HashMap<(&str, &str), Vec<&str>>> = LazyLock::new(|| {
    include_str!("merge_keys.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| {
            let mut words = line.split(' ');
            Some(((words.next()?, words.next()?), words.collect()))
        })
        .collect()
});

/// Returns the merge rule of a field as extensions of its OpenAPI schema.
pub(super) fn extensions(definition: &str, property: &str) -> Vec<(&'static str, Value)> {
    let mut schema = Schema::default();
    annotate(definition, property, &mut schema);
    let mut all = Vec::new();
    match schema.list_type {
        ListType::Atomic => {}
        ListType::Set => all.push(("x-kubernetes-list-type", json!("set"))),
        ListType::Map(keys) => {
            all.push(("x-kubernetes-list-type", json!("map")));
            all.push(("x-kubernetes-list-map-keys", json!(keys)));
        }
    }
    if schema.map_atomic {
        all.push(("x-kubernetes-map-type", json!("atomic")));
    }
    if let Some(strategy) = schema.strategy {
        let words = match (strategy.retain_keys, &strategy.merge_key) {
            _ if strategy.replaces => "replace",
            (true, None) => "retainKeys",
            (true, Some(_)) => "merge,retainKeys",
            (false, _) => "merge",
        };
        all.push(("x-kubernetes-patch-strategy", json!(words)));
        if let Some(key) = strategy.merge_key {
            all.push(("x-kubernetes-patch-merge-key", json!(key)));
        }
    }
    all
}

/// Adds the merge rule of a property to the schema of the property. If `property` is empty, adds the rule of the
/// definition to the schema of the definition.
pub(super) fn annotate(definition: &str, property: &str, schema: &mut Schema) {
    let short = definition.rsplit('.').next().unwrap_or(definition);
    let versioned = definition.strip_prefix("io.k8s.api.").unwrap_or(definition);
    let property = if property.is_empty() { "." } else { property };
    let rule = RULES
        .get(&(short, property))
        .or_else(|| RULES.get(&(versioned, property)));
    let Some((rule, keys)) = rule.and_then(|rule| rule.split_first()) else {
        return;
    };
    let strategy = Strategy {
        merge_key: keys.first().map(|key| (*key).to_owned()),
        ..Strategy::default()
    };
    let by_key = || ListType::Map(keys.iter().map(|key| (*key).to_owned()).collect());
    match *rule {
        "merge" => (schema.strategy, schema.list_type) = (Some(strategy), by_key()),
        "merge-retain" => {
            schema.strategy = Some(Strategy {
                retain_keys: true,
                ..strategy
            });
            schema.list_type = by_key();
        }
        "merge-patch" => schema.strategy = Some(strategy),
        "merge-apply" => schema.list_type = by_key(),
        "set" => (schema.strategy, schema.list_type) = (Some(strategy), ListType::Set),
        "set-apply" => schema.list_type = ListType::Set,
        "atomic" => schema.map_atomic = true,
        "retain" => {
            schema.strategy = Some(Strategy {
                retain_keys: true,
                ..strategy
            });
        }
        "replace" => {
            schema.strategy = Some(Strategy {
                replaces: true,
                ..strategy
            });
        }
        _ => {}
    }
}
