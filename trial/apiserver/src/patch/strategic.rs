//! Strategic merge patch for built-in kinds. Lists merge by key, and directives (`$patch`, `$retainKeys`,
//! `$deleteFromPrimitiveList`, `$setElementOrder`) request other changes.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use crate::error::ApiError;
use crate::schema::{Schema, Strategy};

/// Applies a strategic merge patch to `target`.
pub(crate) fn patch(target: &mut Value, patch: &Value, schema: &Schema) -> Result<(), ApiError> {
    merge_object(target, patch, Some(schema))
}

fn merge_object(
    target: &mut Value,
    patch: &Value,
    schema: Option<&Schema>,
) -> Result<(), ApiError> {
    let Some(patch) = patch.as_object() else {
        *target = patch.clone();
        return Ok(());
    };
    match patch.get("$patch").and_then(Value::as_str) {
        Some("replace") => {
            *target = Value::Object(without_directives(patch));
            return Ok(());
        }
        Some("delete") => {
            *target = Value::Object(Map::new());
            return Ok(());
        }
        Some("merge") | None => {}
        Some(other) => {
            let message = format!("unknown patch type: {other}");
            return Err(ApiError::unknown(message));
        }
    }
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Some(object) = target.as_object_mut() else {
        return Ok(());
    };
    if let Some(keys) = patch.get("$retainKeys").and_then(Value::as_array) {
        let keys: HashSet<&str> = keys.iter().filter_map(Value::as_str).collect();
        object.retain(|name, _| keys.contains(name.as_str()));
    }
    for (name, value) in patch {
        if let Some(list) = name.strip_prefix("$deleteFromPrimitiveList/") {
            if let (Some(items), Some(gone)) = (
                object.get_mut(list).and_then(Value::as_array_mut),
                value.as_array(),
            ) {
                let gone: HashSet<String> = gone.iter().map(Value::to_string).collect();
                items.retain(|item| !gone.contains(&item.to_string()));
            }
            continue;
        }
        if name.starts_with('$') {
            continue;
        }
        if value.is_null() {
            object.remove(name);
            continue;
        }
        let inner = schema.and_then(|s| s.field(name)).map(AsRef::as_ref);
        let slot = object.entry(name.clone()).or_insert(Value::Null);
        let strategy = inner.and_then(|s| s.strategy.as_ref());
        match value {
            Value::Object(map) if strategy.is_some_and(|s| s.replaces) => {
                *slot = Value::Object(without_directives(map));
            }
            Value::Object(_) => merge_object(slot, value, inner)?,
            Value::Array(items) => merge_list(slot, items, inner)?,
            other => *slot = other.clone(),
        }
    }
    for (name, order) in patch {
        if let Some(list) = name.strip_prefix("$setElementOrder/") {
            let key = schema
                .and_then(|s| s.field(list))
                .and_then(|s| s.strategy.as_ref())
                .and_then(|s| s.merge_key.as_deref());
            if let (Some(items), Some(order)) = (
                object.get_mut(list).and_then(Value::as_array_mut),
                order.as_array(),
            ) {
                reorder(items, order, key);
            }
        }
    }
    Ok(())
}

fn without_directives(patch: &Map<String, Value>) -> Map<String, Value> {
    patch
        .iter()
        .filter(|(k, v)| !k.starts_with('$') && !v.is_null())
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect()
}

fn merge_list(slot: &mut Value, patch: &[Value], schema: Option<&Schema>) -> Result<(), ApiError> {
    let directive = |item: &Value| {
        item.get("$patch")
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    let replaced = patch.iter().any(|i| {
        directive(i).as_deref() == Some("replace") && i.as_object().is_some_and(|o| o.len() == 1)
    });
    let strategy = schema.and_then(|s| s.strategy.as_ref());
    let (Some(strategy), false) = (strategy, replaced) else {
        let plain = patch.iter().filter(|i| directive(i).is_none()).cloned();
        *slot = Value::Array(plain.collect());
        return Ok(());
    };
    let new_list = !slot.is_array();
    if new_list {
        *slot = Value::Array(Vec::new());
    }
    let Some(items) = slot.as_array_mut() else {
        return Ok(());
    };
    let Strategy {
        merge_key: Some(key),
        ..
    } = strategy
    else {
        let known: HashSet<String> = items.iter().map(Value::to_string).collect();
        let is_new = |item: &&Value| !known.contains(&item.to_string());
        let new: Vec<Value> = patch.iter().filter(is_new).cloned().collect();
        let live = items.clone();
        items.extend(new);
        interleave(items, &live, patch, Value::to_string);
        return Ok(());
    };
    let live = items.clone();
    let of_item = schema.and_then(|s| s.items.as_deref());
    let identity = |item: &Value| item.get(key).unwrap_or(&Value::Null).to_string();
    // `positions` is an index of the items by identity, so that a long list is not searched for each item.
    let mut merged: Vec<Option<Value>> = std::mem::take(items).into_iter().map(Some).collect();
    let mut positions: HashMap<String, Vec<usize>> = HashMap::new();
    for (at, item) in live.iter().enumerate() {
        if item.get(key).is_some() {
            positions.entry(identity(item)).or_default().push(at);
        }
    }
    for item in patch {
        // An item of a new list may lack the merge key.
        if new_list && item.get(key).is_none() && item.is_object() && directive(item).is_none() {
            merged.push(Some(item.clone()));
            continue;
        }
        if item.get(key).is_none() {
            let message = format!("map: {item} does not contain declared merge key: {key}");
            return Err(ApiError::unknown(message));
        }
        let found = positions.entry(identity(item)).or_default();
        if directive(item).as_deref() == Some("delete") {
            for at in found.drain(..) {
                merged[at] = None;
            }
        } else if let Some(existing) = found.first().and_then(|at| merged[*at].as_mut()) {
            merge_object(existing, item, of_item)?;
        } else {
            let mut fresh = Value::Object(Map::new());
            merge_object(&mut fresh, item, of_item)?;
            found.push(merged.len());
            merged.push(Some(fresh));
        }
    }
    items.extend(merged.into_iter().flatten());
    interleave(items, &live, patch, identity);
    Ok(())
}

/// Orders the items of a merged list. The items in the patch get the order of the patch, and all other items keep their
/// order. A new item comes before the items that are not in the patch.
fn interleave(
    merged: &mut Vec<Value>,
    live: &[Value],
    patch: &[Value],
    identity: impl Fn(&Value) -> String,
) {
    let positions = |list: &[Value]| {
        let mut positions = HashMap::new();
        for (at, item) in list.iter().enumerate() {
            positions.entry(identity(item)).or_insert(at);
        }
        positions
    };
    let (in_patch, in_live) = (positions(patch), positions(live));
    let (mut of_patch, others): (Vec<_>, Vec<_>) = merged
        .drain(..)
        .map(|item| (identity(&item), item))
        .partition(|(identity, _)| in_patch.contains_key(identity));
    of_patch.sort_by_key(|(identity, _)| in_patch.get(identity));
    let mut of_patch = of_patch.into_iter().peekable();
    for (identity, other) in others {
        let was = in_live.get(&identity);
        let stays_behind = |(item, _): &(String, Value)| {
            let at = in_live.get(item);
            at.is_none_or(|at| was.is_none_or(|was| at <= was))
        };
        while let Some((_, item)) = of_patch.next_if(stays_behind) {
            merged.push(item);
        }
        merged.push(other);
    }
    merged.extend(of_patch.map(|(_, item)| item));
}

/// Sorts the items in the order of `$setElementOrder`. An item without a position in this order stays behind its
/// predecessor.
fn reorder(items: &mut [Value], order: &[Value], key: Option<&str>) {
    let identity = |v: &Value| {
        let part = key.map_or(Some(v), |key| v.get(key));
        part.unwrap_or(&Value::Null).to_string()
    };
    let mut wanted = HashMap::new();
    for (at, item) in order.iter().enumerate() {
        wanted.entry(identity(item)).or_insert(at);
    }
    let mut last = 0;
    let mut ranked: Vec<(usize, Value)> = items
        .iter()
        .map(|item| {
            last = wanted.get(&identity(item)).copied().unwrap_or(last);
            (last, item.clone())
        })
        .collect();
    ranked.sort_by_key(|(rank, _)| *rank);
    for (slot, (_, item)) in items.iter_mut().zip(ranked) {
        *slot = item;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::builtin;
    use serde_json::json;

    fn patched(mut target: Value, change: &Value) -> Value {
        patch(
            &mut target,
            change,
            &builtin::compiled("io.k8s.api.apps.v1.Deployment"),
        )
        .unwrap();
        target
    }

    fn deployment(containers: &Value) -> Value {
        json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}},
            "template": {"spec": {"containers": containers}}}})
    }

    #[test]
    fn containers_merge_by_name() {
        let start = deployment(&json!([{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]));
        let got = patched(
            start,
            &deployment(
                &json!([{"name": "b", "image": "2"}, {"name": "c", "image": "3"}, {"name": "a", "$patch": "delete"}]),
            ),
        );
        assert_eq!(
            got["spec"]["template"]["spec"]["containers"],
            json!([{"name": "b", "image": "2"}, {"name": "c", "image": "3"}])
        );
    }

    #[test]
    fn new_items_come_before_items_that_the_patch_does_not_name() {
        let named = |names: &[&str]| {
            let items: Vec<Value> = names.iter().map(|name| json!({ "name": name })).collect();
            deployment(&json!(items))
        };
        for (live, patch, merged) in [
            (
                ["a", "b"].as_slice(),
                ["c"].as_slice(),
                ["c", "a", "b"].as_slice(),
            ),
            (&["a", "b"], &["b", "c"], &["a", "b", "c"]),
            (&["a", "b", "c"], &["c", "a"], &["b", "c", "a"]),
            (&["a"], &["a"], &["a"]),
        ] {
            assert_eq!(
                patched(named(live), &named(patch)),
                named(merged),
                "{live:?} {patch:?}"
            );
        }
    }

    #[test]
    fn the_merge_of_long_lists_does_not_compare_all_pairs_of_items() {
        let named = |from: usize| {
            let names = from..from + 20_000;
            let items: Vec<Value> = names.map(|at| json!({"name": at.to_string()})).collect();
            deployment(&json!(items))
        };
        let began = std::time::Instant::now();
        let merged = patched(named(0), &named(10_000));
        let found = &merged["spec"]["template"]["spec"]["containers"];
        assert_eq!(found.as_array().unwrap().len(), 30_000);
        let long: Vec<Value> = (0..20_000).map(|at| json!(at.to_string())).collect();
        let finalizers =
            json!({"metadata": {"finalizers": long, "$setElementOrder/finalizers": long}});
        let merged = patched(finalizers.clone(), &finalizers);
        assert_eq!(merged["metadata"]["finalizers"], json!(long));
        // A comparison of each item with all other items would take minutes.
        assert!(began.elapsed().as_secs() < 20, "{:?}", began.elapsed());
    }

    #[test]
    fn patch_directives_are_applied() {
        let start = deployment(&json!([{"name": "a", "image": "1", "args": ["x"]}]));
        let got = patched(
            start.clone(),
            &json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}),
        );
        assert_eq!(got["spec"]["strategy"], json!({"type": "Recreate"}));
        let got = patched(
            start,
            &json!({"spec": {"template": {"spec": {"containers": [{"$patch": "replace"}, {"name": "z"}]}}}}),
        );
        assert_eq!(
            got["spec"]["template"]["spec"]["containers"],
            json!([{"name": "z"}])
        );
        let got = patched(
            json!({"metadata": {"finalizers": ["a", "b"]}}),
            &json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"], "finalizers": ["c"]}}),
        );
        assert_eq!(got["metadata"]["finalizers"], json!(["c", "b"]));
    }
}
