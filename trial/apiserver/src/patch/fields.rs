//! Sets of fields in the format of `fieldsV1`, and the computation of these sets from values.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::schema::{ListType, Schema, Type};

/// A set of field paths, as a tree. A step of a path is `f:name`, `k:{"key":"value"}` or `v:value`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Fields {
    /// True if the path to this node is in the set.
    pub(crate) owned: bool,
    pub(crate) below: BTreeMap<String, Self>,
}

impl Fields {
    fn leaf() -> Self {
        Self {
            owned: true,
            below: BTreeMap::new(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        !self.owned && self.below.is_empty()
    }

    pub(crate) fn from_v1(value: &Value) -> Self {
        let Some(map) = value.as_object() else {
            return Self::default();
        };
        let below: BTreeMap<String, Self> = map
            .iter()
            .filter(|(k, _)| *k != ".")
            .map(|(k, v)| (k.clone(), Self::from_v1(v)))
            .collect();
        Self {
            owned: map.is_empty() || map.contains_key("."),
            below,
        }
    }

    /// Parses a set. Its root is never owned.
    pub(crate) fn parse(value: &Value) -> Self {
        Self {
            owned: false,
            ..Self::from_v1(value)
        }
    }

    pub(crate) fn to_v1(&self) -> Value {
        let mut map = Map::new();
        if self.owned && !self.below.is_empty() {
            map.insert(".".into(), json!({}));
        }
        map.extend(self.below.iter().map(|(k, v)| (k.clone(), v.to_v1())));
        Value::Object(map)
    }

    pub(crate) fn union(&mut self, other: &Self) {
        self.owned |= other.owned;
        for (step, fields) in &other.below {
            self.below.entry(step.clone()).or_default().union(fields);
        }
    }

    /// Removes the paths of `other` from this set.
    pub(crate) fn subtract(&mut self, other: &Self) {
        self.owned &= !other.owned;
        self.below.retain(|step, fields| {
            if let Some(removed) = other.below.get(step) {
                fields.subtract(removed);
            }
            !fields.is_empty()
        });
    }

    pub(crate) fn intersection(&self, other: &Self) -> Self {
        let below = self
            .below
            .iter()
            .filter_map(|(step, fields)| {
                let both = fields.intersection(other.below.get(step)?);
                (!both.is_empty()).then(|| (step.clone(), both))
            })
            .collect();
        Self {
            owned: self.owned && other.owned,
            below,
        }
    }

    pub(crate) fn at(&self, step: &str) -> Option<&Self> {
        self.below.get(step)
    }

    /// Returns all paths in readable form, for example `.spec.containers[name="a"].image`.
    pub(crate) fn paths(&self) -> Vec<String> {
        let mut out = Vec::new();
        self.collect(String::new(), &mut out);
        out
    }

    fn collect(&self, path: String, out: &mut Vec<String>) {
        for (step, fields) in &self.below {
            fields.collect(format!("{path}{}", shown(step)), out);
        }
        if self.owned {
            out.push(path);
        }
    }
}

/// Returns a step in readable form.
pub(crate) fn shown(step: &str) -> String {
    match step.split_at_checked(2) {
        Some(("f:", name)) => format!(".{name}"),
        Some(("k:", keys)) => {
            let keys: Map<String, Value> = serde_json::from_str(keys).unwrap_or_default();
            let keys: Vec<String> = keys.iter().map(|(k, v)| format!("{k}={v}")).collect();
            format!("[{}]", keys.join(","))
        }
        Some(("v:", value)) => format!("[={value}]"),
        _ => step.to_owned(),
    }
}

/// The parts of a value that different managers can own.
pub(crate) enum Shape<'a> {
    Leaf,
    /// The fields of an object.
    Object(&'a Map<String, Value>),
    /// The items of a list that merges by key.
    Keyed(&'a [Value], &'a [String]),
    /// The items of a set.
    Set(&'a [Value]),
}

/// Returns the parts of a value that different managers can own. Without a schema, the fields of an object are such
/// parts, and the items of a list are not.
pub(crate) fn shape<'a>(value: &'a Value, schema: Option<&'a Schema>) -> Shape<'a> {
    match (value, schema) {
        (Value::Object(map), Some(s)) if !s.map_atomic && !map.is_empty() => Shape::Object(map),
        (Value::Object(map), None) if !map.is_empty() => Shape::Object(map),
        (Value::Array(items), Some(s)) => match &s.list_type {
            ListType::Map(keys) if !items.is_empty() => Shape::Keyed(items, keys),
            ListType::Set if !items.is_empty() => Shape::Set(items),
            _ => Shape::Leaf,
        },
        _ => Shape::Leaf,
    }
}

/// Returns the schema of a field of an object.
pub(crate) fn field_schema<'a>(schema: Option<&'a Schema>, name: &str) -> Option<&'a Schema> {
    let schema = schema?;
    schema
        .field(name)
        .map(AsRef::as_ref)
        .filter(|s| !(s.kind == Type::Any && s.properties.is_empty()))
}

/// Returns the `k:` step of a list item. The step contains the default of an absent key.
pub(crate) fn item_step(item: &Value, keys: &[String], schema: Option<&Schema>) -> String {
    let mut map = Map::new();
    for key in keys {
        let default = || {
            schema
                .and_then(|s| s.field(key))
                .and_then(|s| s.default.clone())
        };
        let value = item.get(key).cloned().or_else(default);
        // `protocol` is the only key of a built-in list that has a default.
        let value = value.or_else(|| (key == "protocol").then(|| json!("TCP")));
        if let Some(value) = value {
            map.insert(key.clone(), value);
        }
    }
    format!("k:{}", Value::Object(map))
}

pub(crate) fn set_step(item: &Value) -> String {
    format!("v:{item}")
}

/// Reports whether two values are equal. Numbers are compared by value, so `1` equals `1.0`.
pub(crate) fn values_equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) if a.is_f64() != b.is_f64() => {
            a.as_f64() == b.as_f64()
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| values_equal(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            let same = |(name, a)| b.get(name).is_some_and(|b| values_equal(a, b));
            a.len() == b.len() && a.iter().all(same)
        }
        _ => a == b,
    }
}

/// Reports whether a value is an empty list whose items could have different managers.
fn is_list_without_items(value: &Value, schema: Option<&Schema>) -> bool {
    let granular = schema.is_some_and(|s| !matches!(s.list_type, ListType::Atomic));
    granular && value.as_array().is_some_and(Vec::is_empty)
}

/// Returns the set of the fields that `value` sets.
pub(crate) fn of(value: &Value, schema: Option<&Schema>) -> Fields {
    let mut fields = Fields::default();
    match shape(value, schema) {
        Shape::Leaf => fields.owned = true,
        Shape::Object(map) => {
            for (name, inner) in map {
                let of_field = field_schema(schema, name);
                if is_list_without_items(inner, of_field) {
                    continue;
                }
                let mut below = of(inner, of_field);
                // The manager that names an entry of a map also owns the entry itself.
                below.owned |= !schema.is_some_and(|s| s.properties.contains_key(name));
                if !below.is_empty() {
                    fields.below.insert(format!("f:{name}"), below);
                }
            }
        }
        Shape::Keyed(items, keys) => {
            let of_item = schema.and_then(|s| s.items.as_deref());
            for item in items {
                let mut below = of(item, of_item);
                below.owned = true;
                fields.below.insert(item_step(item, keys, of_item), below);
            }
        }
        Shape::Set(items) => {
            for item in items {
                fields.below.insert(set_step(item), Fields::leaf());
            }
        }
    }
    fields
}

/// Returns the fields of an added or removed value, including its objects and lists themselves.
fn all_fields(value: &Value, schema: Option<&Schema>) -> Fields {
    fn own(fields: &mut Fields) {
        fields.owned = true;
        fields.below.values_mut().for_each(own);
    }
    let mut fields = of(value, schema);
    own(&mut fields);
    fields
}

/// The difference between two values.
#[derive(Debug, Default)]
pub(crate) struct Difference {
    /// Fields that are set or changed in the new value.
    pub(crate) changed: Fields,
    /// Fields that only the old value has.
    pub(crate) removed: Fields,
}

impl Difference {
    fn nest(&mut self, step: String, inner: Self) {
        if !inner.changed.is_empty() {
            self.changed.below.insert(step.clone(), inner.changed);
        }
        if !inner.removed.is_empty() {
            self.removed.below.insert(step, inner.removed);
        }
    }
}

fn one_sided(old: Option<&Value>, new: Option<&Value>, schema: Option<&Schema>) -> Difference {
    Difference {
        changed: new.map(|v| all_fields(v, schema)).unwrap_or_default(),
        removed: old.map(|v| all_fields(v, schema)).unwrap_or_default(),
    }
}

pub(crate) fn difference(
    old: Option<&Value>,
    new: Option<&Value>,
    schema: Option<&Schema>,
) -> Difference {
    let (Some(a), Some(b)) = (old, new) else {
        return one_sided(old, new, schema);
    };
    if values_equal(a, b) {
        return Difference::default();
    }
    let mut out = Difference::default();
    let nothing = Map::new();
    let (a_shape, b_shape) = match (shape(a, schema), shape(b, schema)) {
        // An empty object equals an object without fields if its fields can have different managers. A null equals an
        // empty list with keys.
        (Shape::Leaf, Shape::Object(b)) if a.is_object() => {
            (Shape::Object(&nothing), Shape::Object(b))
        }
        (Shape::Object(a), Shape::Leaf) if b.is_object() => {
            (Shape::Object(a), Shape::Object(&nothing))
        }
        (Shape::Leaf, Shape::Keyed(b, keys)) if a.is_null() => {
            (Shape::Keyed(&[], keys), Shape::Keyed(b, keys))
        }
        other => other,
    };
    match (a_shape, b_shape) {
        (Shape::Object(a), Shape::Object(b)) => {
            for (name, old) in a {
                out.nest(
                    format!("f:{name}"),
                    difference(Some(old), b.get(name), field_schema(schema, name)),
                );
            }
            for (name, new) in b.iter().filter(|(n, _)| !a.contains_key(*n)) {
                out.nest(
                    format!("f:{name}"),
                    difference(None, Some(new), field_schema(schema, name)),
                );
            }
        }
        (Shape::Keyed(a, keys), Shape::Keyed(b, _)) => {
            let of_item = schema.and_then(|s| s.items.as_deref());
            let index = |items: &[Value]| -> BTreeMap<String, Value> {
                items
                    .iter()
                    .map(|i| (item_step(i, keys, of_item), i.clone()))
                    .collect()
            };
            let (a, b) = (index(a), index(b));
            for (step, old) in &a {
                let mut inner = difference(Some(old), b.get(step), of_item);
                inner.removed.owned |= !b.contains_key(step);
                out.nest(step.clone(), inner);
            }
            for (step, new) in b.iter().filter(|(s, _)| !a.contains_key(*s)) {
                let mut inner = difference(None, Some(new), of_item);
                inner.changed.owned = true;
                out.nest(step.clone(), inner);
            }
        }
        (Shape::Set(a), Shape::Set(b)) => {
            let steps = |items: &[Value]| items.iter().map(set_step).collect::<BTreeSet<_>>();
            let (a, b) = (steps(a), steps(b));
            let leaves = |steps: &mut dyn Iterator<Item = &String>| {
                steps.map(|step| (step.clone(), Fields::leaf())).collect()
            };
            out.changed.below = leaves(&mut b.difference(&a));
            out.removed.below = leaves(&mut a.difference(&b));
        }
        (Shape::Leaf, Shape::Leaf) => out.changed.owned = true,
        _ => {
            out = one_sided(Some(a), Some(b), schema);
            let changed = out.changed.clone();
            out.removed.subtract(&changed);
        }
    }
    out
}
