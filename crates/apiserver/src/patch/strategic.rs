//! Strategic merge patch, for built-in kinds: lists merge by key where the kind says so, and directives
//! (`$patch`, `$retainKeys`, `$deleteFromPrimitiveList`, `$setElementOrder`) steer the rest.

use serde_json::{Map, Value};

use crate::error::ApiError;
use crate::go_text::printed;
use crate::schema::{Schema, Strategy};

/// Patches `target`.
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
            let shown = printed(&Value::Object(patch.clone()));
            let why = format!("unknown patch type: {other} in map: {shown}");
            return Err(ApiError::unknown(why));
        }
    }
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Some(object) = target.as_object_mut() else {
        return Ok(());
    };
    if let Some(keys) = patch.get("$retainKeys").and_then(Value::as_array) {
        object.retain(|name, _| keys.iter().any(|k| k == name));
    }
    for (name, value) in patch {
        if let Some(list) = name.strip_prefix("$deleteFromPrimitiveList/") {
            if let (Some(items), Some(gone)) = (
                object.get_mut(list).and_then(Value::as_array_mut),
                value.as_array(),
            ) {
                items.retain(|i| !gone.contains(i));
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
        let new: Vec<Value> = patch
            .iter()
            .filter(|p| !items.contains(p))
            .cloned()
            .collect();
        let live = items.clone();
        items.extend(new);
        interleave(items, &live, patch, Value::clone);
        return Ok(());
    };
    let live = items.clone();
    let of_item = schema.and_then(|s| s.items.as_deref());
    for item in patch {
        // Where there was no list there is nothing to tell it from.
        if new_list && item.get(key).is_none() && item.is_object() && directive(item).is_none() {
            items.push(item.clone());
            continue;
        }
        let Some(identity) = item.get(key) else {
            let why = format!(
                "map: {} does not contain declared merge key: {key}",
                printed(item)
            );
            return Err(ApiError::unknown(why));
        };
        if directive(item).as_deref() == Some("delete") {
            items.retain(|i| i.get(key) != Some(identity));
            continue;
        }
        if let Some(existing) = items.iter_mut().find(|i| i.get(key) == Some(identity)) {
            merge_object(existing, item, of_item)?;
        } else {
            let mut fresh = Value::Object(Map::new());
            merge_object(&mut fresh, item, of_item)?;
            items.push(fresh);
        }
    }
    interleave(items, &live, patch, |item| {
        item.get(key).cloned().unwrap_or_default()
    });
    Ok(())
}

/// Puts the items of a merged list in order: those of the patch as the patch has them, the others as they were, and
/// one of the others before one of the patch only where it was before it already. New items come first, therefore.
fn interleave(
    merged: &mut Vec<Value>,
    live: &[Value],
    patch: &[Value],
    identity: impl Fn(&Value) -> Value,
) {
    let place = |list: &[Value], item: &Value| {
        let wanted = identity(item);
        list.iter().position(|other| identity(other) == wanted)
    };
    let (mut of_patch, others): (Vec<Value>, Vec<Value>) = merged
        .drain(..)
        .partition(|item| place(patch, item).is_some());
    of_patch.sort_by_key(|item| place(patch, item));
    let mut of_patch = of_patch.into_iter().peekable();
    for other in others {
        let was = place(live, &other);
        let stays_behind =
            |item: &Value| place(live, item).is_none_or(|at| was.is_none_or(|was| at <= was));
        while let Some(item) = of_patch.next_if(stays_behind) {
            merged.push(item);
        }
        merged.push(other);
    }
    merged.extend(of_patch);
}

/// Sorts the items the order names; others keep their place behind those they followed.
fn reorder(items: &mut [Value], order: &[Value], key: Option<&str>) {
    let identity =
        |v: &Value| key.map_or_else(|| v.clone(), |k| v.get(k).cloned().unwrap_or_default());
    let wanted: Vec<Value> = order.iter().map(identity).collect();
    let mut last = 0;
    let mut ranked: Vec<(usize, Value)> = items
        .iter()
        .map(|item| {
            let id = identity(item);
            if let Some(at) = wanted.iter().position(|w| *w == id) {
                last = at;
            }
            (
                wanted.iter().position(|w| *w == id).unwrap_or(last),
                item.clone(),
            )
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

    fn go(mut target: Value, change: &Value) -> Value {
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
        let got = go(
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
    fn new_items_come_before_those_that_the_patch_does_not_name() {
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
                go(named(live), &named(patch)),
                named(merged),
                "{live:?} {patch:?}"
            );
        }
    }

    #[test]
    fn directives_steer() {
        let start = deployment(&json!([{"name": "a", "image": "1", "args": ["x"]}]));
        let got = go(
            start.clone(),
            &json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}),
        );
        assert_eq!(got["spec"]["strategy"], json!({"type": "Recreate"}));
        let got = go(
            start,
            &json!({"spec": {"template": {"spec": {"containers": [{"$patch": "replace"}, {"name": "z"}]}}}}),
        );
        assert_eq!(
            got["spec"]["template"]["spec"]["containers"],
            json!([{"name": "z"}])
        );
        let got = go(
            json!({"metadata": {"finalizers": ["a", "b"]}}),
            &json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"], "finalizers": ["c"]}}),
        );
        assert_eq!(got["metadata"]["finalizers"], json!(["c", "b"]));
    }
}
