//! Server-side apply. An apply merges a configuration into the live object and removes the fields that the manager no
//! longer applies. Unless the apply is forced, it fails if it conflicts with other managers.

use std::collections::{BTreeSet, HashMap};

use serde_json::{Map, Value};

use super::fields::{self, Fields, Shape, field_schema, item_step, set_step};
use super::managed::{self, Entry, Mode};
use super::{nulls, removed_fields};
use crate::error::{ApiError, Cause, Reason};
use crate::schema::Schema;

/// The fields that an apply may take from other managers.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Claim<'a> {
    /// No fields.
    Free,
    /// The fields that the applier set in this object before it switched to server-side apply.
    Own(&'a Value),
    /// All fields.
    Force,
}

/// Applies `config` for `writer`. `live` is `None` for a new object. `settle` normalizes the result as the kind of the
/// object requires.
pub(crate) fn apply(
    live: Option<&Value>,
    config: &Value,
    schema: &Schema,
    mut writer: Entry,
    claim: Claim<'_>,
    settle: impl Fn(&mut Value) -> Result<(), ApiError>,
) -> Result<Value, ApiError> {
    let wanted = managed::fields_of(config, schema);
    let mut entries = live.map(managed::parse).unwrap_or_default();
    let mut merged = live.cloned().unwrap_or_else(|| Value::Object(Map::new()));
    let previous = entries
        .iter()
        .find(|e| e.same_writer(&writer))
        .map(|e| e.fields.clone())
        .unwrap_or_default();
    if let Some(live) = live {
        resolve_conflicts(
            &managed::tracked(live),
            config,
            schema,
            &writer,
            &mut entries,
            claim,
        )?;
    }
    merge(&mut merged, config, Some(schema));
    let others = entries.iter().filter(|e| !e.same_writer(&writer));
    // Unlike `wanted`, this set also contains fields that no entry of `managedFields` contains, such as the name.
    let mut asked_for = fields::of(config, Some(schema));
    others.for_each(|entry| asked_for.union(&entry.fields));
    removed_fields::remove_dropped(&mut merged, &previous, &asked_for, schema);
    nulls::remove_nulls(&mut merged, config, Some(schema));
    // If no value changes, the entry of the applier keeps its time. Adding an empty value is a change.
    let agrees = live.is_some_and(|live| fields::values_equal(live, &merged));
    settle(&mut merged)?;
    if agrees {
        let before = entries.iter().find(|e| e.same_writer(&writer));
        writer.time = before.map(|e| e.time.clone()).unwrap_or_default();
    }
    writer.fields = wanted;
    match entries.iter_mut().find(|e| e.same_writer(&writer)) {
        Some(entry) => *entry = writer,
        None => entries.push(writer),
    }
    managed::store(&mut merged, &entries);
    Ok(merged)
}

/// The step of a list item that has no key.
const NO_KEYS: &str = "k:{}";

/// Returns the problem of the first list item in `config` with a duplicate or missing key.
pub(crate) fn duplicate(config: &Value, schema: &Schema) -> Option<String> {
    fn within(map: &Map<String, Value>, schema: Option<&Schema>, path: &str) -> Option<String> {
        map.iter().find_map(|(name, inner)| {
            find(inner, field_schema(schema, name), &format!("{path}.{name}"))
        })
    }
    fn find(value: &Value, schema: Option<&Schema>, path: &str) -> Option<String> {
        match fields::shape(value, schema) {
            Shape::Object(map) => within(map, schema, path),
            Shape::Keyed(items, keys) => {
                let of_item = schema.and_then(|s| s.items.as_deref());
                let mut seen = BTreeSet::new();
                items.iter().enumerate().find_map(|(at, item)| {
                    let step = item_step(item, keys, of_item);
                    // An absent key that the schema requires is treated as empty.
                    let has_none = |key: &String| !of_item.is_some_and(|of| of.required.contains(key));
                    if step == NO_KEYS && keys.iter().all(has_none) {
                        let keys: Vec<String> = keys.iter().map(|key| format!("{key:?}")).collect();
                        let keys = keys.join(" ");
                        return Some(format!(
                            "{path}: element {at}: associative list with keys has an element that omits all key \
                             fields [{keys}] (and doesn't have default values for any key fields)"
                        ));
                    }
                    let shown = fields::shown(&step);
                    if seen.insert(step) {
                        return find(item, of_item, &format!("{path}{shown}"));
                    }
                    Some(format!("{path}: duplicate entries for key {shown}"))
                })
            }
            Shape::Set(items) => {
                let mut seen = BTreeSet::new();
                let mut steps = items.iter().map(set_step);
                let twice = steps.find(|step| !seen.insert(step.clone()))?;
                let shown = fields::shown(&twice);
                Some(format!("{path}: duplicate entries for key {shown}"))
            }
            // An atomic value may contain lists with keys.
            Shape::Leaf => match value {
                Value::Object(map) => within(map, schema, path),
                Value::Array(items) => {
                    let of_item = schema.and_then(|s| s.items.as_deref());
                    let mut items = items.iter().enumerate();
                    items.find_map(|(at, item)| find(item, of_item, &format!("{path}[{at}]")))
                }
                _ => None,
            },
        }
    }
    find(config, Some(schema), "")
}

/// Removes the fields that the apply would change from the entries of other managers. Fails if the claim does not cover
/// one of these fields.
fn resolve_conflicts(
    live: &Value,
    config: &Value,
    schema: &Schema,
    writer: &Entry,
    entries: &mut [Entry],
    claim: Claim<'_>,
) -> Result<(), ApiError> {
    let config = managed::tracked(config);
    let mut after = live.clone();
    merge(&mut after, &config, Some(schema));
    let mut changes = fields::difference(Some(live), Some(&after), Some(schema)).changed;
    changes.owned = false;
    let own = match claim {
        Claim::Own(object) => managed::fields_of(object, schema),
        Claim::Free | Claim::Force => Fields::default(),
    };
    let mut conflicts: Vec<(String, Vec<String>)> = Vec::new();
    for entry in entries.iter_mut().filter(|e| !e.same_writer(writer)) {
        let contested = entry.fields.intersection(&changes);
        let mut disputed = contested.clone();
        disputed.subtract(&own);
        if contested.is_empty() {
            continue;
        }
        if matches!(claim, Claim::Force) || disputed.is_empty() {
            entry.fields.subtract(&contested);
        } else {
            let via = if entry.subresource.is_empty() {
                String::new()
            } else {
                format!(" with subresource \"{}\"", entry.subresource)
            };
            // The message names an applier only by its manager, without the API version.
            let using = if entry.mode == Mode::Apply {
                String::new()
            } else {
                format!(" using {}", entry.api_version)
            };
            conflicts.push((
                format!("\"{}\"{via}{using}", entry.manager),
                disputed.paths(),
            ));
        }
    }
    if conflicts.is_empty() {
        return Ok(());
    }
    let count: usize = conflicts.iter().map(|(_, paths)| paths.len()).sum();
    let mut message = format!(
        "Apply failed with {count} conflict{}: ",
        if count == 1 { "" } else { "s" }
    );
    let mut causes = Vec::new();
    let parts: Vec<String> = conflicts
        .iter()
        .map(|(manager, paths)| {
            causes.extend(paths.iter().map(|path| Cause {
                field: path.clone(),
                reason: "FieldManagerConflict".into(),
                message: format!("conflict with {manager}"),
            }));
            match paths.as_slice() {
                [path] => format!("conflict with {manager}: {path}"),
                many => format!("conflicts with {manager}:\n- {}", many.join("\n- ")),
            }
        })
        .collect();
    message.push_str(&parts.join("\n"));
    let mut error = ApiError::new(Reason::Conflict, message);
    error.causes = causes;
    Err(error)
}

/// Merges the applied configuration `config` into `live`.
fn merge(live: &mut Value, config: &Value, schema: Option<&Schema>) {
    match fields::shape(config, schema) {
        Shape::Object(wanted) if live.is_object() => {
            if let Some(object) = live.as_object_mut() {
                for (name, value) in wanted {
                    match object.get_mut(name) {
                        Some(inner) => merge(inner, value, field_schema(schema, name)),
                        None => drop(object.insert(name.clone(), value.clone())),
                    }
                }
            }
        }
        Shape::Keyed(wanted, keys) if live.is_array() => {
            let of_item = schema.and_then(|s| s.items.as_deref());
            if let Some(items) = live.as_array_mut() {
                let mut positions = HashMap::new();
                for (at, item) in items.iter().enumerate() {
                    positions
                        .entry(item_step(item, keys, of_item))
                        .or_insert(at);
                }
                for value in wanted {
                    let at = *positions
                        .entry(item_step(value, keys, of_item))
                        .or_insert(items.len());
                    match items.get_mut(at) {
                        Some(item) => merge(item, value, of_item),
                        None => items.push(value.clone()),
                    }
                }
            }
        }
        Shape::Set(wanted) if live.is_array() => {
            if let Some(items) = live.as_array_mut() {
                let known: BTreeSet<String> = items.iter().map(set_step).collect();
                let is_new = |item: &&Value| !known.contains(&set_step(item));
                items.extend(wanted.iter().filter(is_new).cloned());
            }
        }
        // An empty object or list, or a null, does not change a value whose parts can have different managers.
        Shape::Leaf if (is_empty(config) || config.is_null()) && merges(live, schema) => {}
        _ => *live = config.clone(),
    }
}

fn is_empty(value: &Value) -> bool {
    value.as_object().is_some_and(Map::is_empty) || value.as_array().is_some_and(Vec::is_empty)
}

/// Reports whether parts of `live` can have different managers.
fn merges(live: &Value, schema: Option<&Schema>) -> bool {
    !is_empty(live) && !matches!(fields::shape(live, schema), Shape::Leaf)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::builtin;
    use serde_json::json;

    fn writer(name: &str) -> Entry {
        Entry {
            manager: name.into(),
            mode: Mode::Apply,
            api_version: "apps/v1".into(),
            subresource: String::new(),
            time: "t".into(),
            fields: Fields::default(),
        }
    }

    fn applied(
        live: Option<&Value>,
        manager: &str,
        config: &Value,
        force: bool,
    ) -> Result<Value, ApiError> {
        let claim = if force { Claim::Force } else { Claim::Free };
        apply(
            live,
            config,
            &builtin::compiled("io.k8s.api.apps.v1.Deployment"),
            writer(manager),
            claim,
            |_| Ok(()),
        )
    }

    #[test]
    fn fields_that_the_applier_set_before_do_not_conflict() {
        let mine = json!({"spec": {"replicas": 1, "paused": true}});
        let live = applied(None, "before", &mine, false).unwrap();
        let schema = builtin::compiled("io.k8s.api.apps.v1.Deployment");
        let claim = |config: &Value, own: &Value| {
            let claim = Claim::Own(own);
            apply(Some(&live), config, &schema, writer("now"), claim, |_| {
                Ok(())
            })
        };
        let config = json!({"spec": {"replicas": 2, "paused": false}});
        let live = claim(&config, &mine).unwrap();
        assert_eq!(live["spec"], config["spec"]);
        let refused = claim(&config, &json!({"spec": {"replicas": 1}})).unwrap_err();
        let conflict = "Apply failed with 1 conflict: conflict with \"before\": .spec.paused";
        assert_eq!(refused.message, conflict);
    }

    #[test]
    fn apply_merges_lists_reports_conflicts_and_removes_dropped_fields() {
        let first = json!({"metadata": {"labels": {"a": "1", "b": "1"}}, "spec": {"replicas": 1,
            "template": {"spec": {"containers": [{"name": "x", "image": "i"}]}}}});
        let live = applied(None, "one", &first, false).unwrap();
        let two = json!({"metadata": {"labels": {"c": "1"}}, "spec": {
            "template": {"spec": {"containers": [{"name": "y", "image": "j"}]}}}});
        let live = applied(Some(&live), "two", &two, false).unwrap();
        assert_eq!(
            live["spec"]["template"]["spec"]["containers"]
                .as_array()
                .unwrap()
                .len(),
            2
        );
        let conflict =
            applied(Some(&live), "two", &json!({"spec": {"replicas": 2}}), false).unwrap_err();
        assert_eq!(
            conflict.message,
            "Apply failed with 1 conflict: conflict with \"one\": .spec.replicas"
        );
        let live = applied(
            Some(&live),
            "one",
            &json!({"metadata": {"labels": {"a": "1"}}}),
            false,
        )
        .unwrap();
        assert_eq!(live["metadata"]["labels"], json!({"a": "1", "c": "1"}));
        assert!(live["spec"].get("replicas").is_none());
        let names = &live["spec"]["template"]["spec"]["containers"];
        assert_eq!(names.as_array().unwrap().len(), 1);
        assert_eq!(names[0]["name"], "y");
    }

    #[test]
    fn force_takes_ownership() {
        let live = applied(None, "one", &json!({"spec": {"replicas": 1}}), false).unwrap();
        let live = applied(Some(&live), "two", &json!({"spec": {"replicas": 2}}), true).unwrap();
        assert_eq!(live["spec"]["replicas"], 2);
        let managers = live["metadata"]["managedFields"].as_array().unwrap();
        assert_eq!(managers.len(), 1);
        assert_eq!(managers[0]["manager"], "two");
    }
}
