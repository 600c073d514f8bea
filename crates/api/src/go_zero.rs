//! Omission of zero values from JSON, as in Go's encoder.
//!
//! Go's encoder omits an `omitempty` field if its value is zero: `""`, `false`, 0, a nil pointer, or an empty list or
//! map. It always writes structs and fields without this tag. The types of this crate follow the tags of Karmada's Go
//! types. If the Go type of a field is a pointer, the field is skipped by `Option::is_none`. Other `Option` fields are
//! skipped by `is_go_zero`.

use k8s_openapi::api::core::v1::{NodeSelector, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// A type with a zero value in Go.
pub(crate) trait GoZero {
    /// Reports whether the value is zero.
    fn is_zero(&self) -> bool;
}

impl GoZero for String {
    fn is_zero(&self) -> bool {
        self.is_empty()
    }
}

impl GoZero for bool {
    fn is_zero(&self) -> bool {
        !self
    }
}

impl GoZero for i32 {
    fn is_zero(&self) -> bool {
        *self == 0
    }
}

impl GoZero for i64 {
    fn is_zero(&self) -> bool {
        *self == 0
    }
}

impl<T> GoZero for Vec<T> {
    fn is_zero(&self) -> bool {
        self.is_empty()
    }
}

/// Reports whether Go omits an `omitempty` field with this value. The function is for fields whose Go type is not a
/// pointer.
#[expect(clippy::ref_option, reason = "serde requires this signature")]
pub(crate) fn is_go_zero<T: GoZero>(value: &Option<T>) -> bool {
    value.as_ref().is_none_or(T::is_zero)
}

/// Sets a value to `None` if Go omits the value.
fn omit<T: GoZero>(value: &mut Option<T>) {
    if is_go_zero(value) {
        *value = None;
    }
}

/// Deserializes taints. Empty values become `None`, because the Kubernetes type would serialize an empty value.
pub(crate) fn taints<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Taint>, D::Error> {
    let mut taints = Vec::<Taint>::deserialize(deserializer)?;
    for taint in &mut taints {
        omit(&mut taint.value);
    }
    Ok(taints)
}

/// Deserializes conditions. Drops zero values, as [`taints`] does.
pub(crate) fn conditions<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<Condition>, D::Error> {
    let mut conditions = Vec::<Condition>::deserialize(deserializer)?;
    for condition in &mut conditions {
        omit(&mut condition.observed_generation);
    }
    Ok(conditions)
}

/// Deserializes a node selector. Drops zero values, as [`taints`] does.
pub(crate) fn node_selector<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<NodeSelector>, D::Error> {
    let mut selector = Option::<NodeSelector>::deserialize(deserializer)?;
    let terms = selector.iter_mut().flat_map(|s| &mut s.node_selector_terms);
    for term in terms {
        for list in [&mut term.match_expressions, &mut term.match_fields] {
            for requirement in list.iter_mut().flatten() {
                omit(&mut requirement.values);
            }
            omit(list);
        }
    }
    Ok(selector)
}

/// Removes each empty value of `raw` that `typed` does not contain. `typed` is the JSON of the same object after a
/// conversion to its Rust type. All other values stay, including non-empty values of unknown fields.
pub(crate) fn remove(raw: &mut Value, typed: &Value) {
    match (raw, typed) {
        (Value::Object(raw), Value::Object(typed)) => {
            raw.retain(|key, value| typed.contains_key(key) || !is_empty(value));
            for (key, value) in raw.iter_mut() {
                if let Some(typed) = typed.get(key) {
                    remove(value, typed);
                }
            }
        }
        (Value::Array(raw), Value::Array(typed)) if raw.len() == typed.len() => {
            for (value, typed) in raw.iter_mut().zip(typed) {
                remove(value, typed);
            }
        }
        _ => {}
    }
}

/// Reports whether Go's encoder omits the value from an `omitempty` field.
pub fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
    }
}

#[cfg(test)]
mod tests;
