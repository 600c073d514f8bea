//! What Go says of an object of a built-in kind that cannot be decoded into its types: clients print it, and people
//! search for it. The types are those of the OpenAPI definitions; it must not know what is done with the object.

mod named;
mod scalar;
mod types;

use serde_json::{Map, Value};

use super::quantity;
use scalar::{base64_problem, time_problem};
use types::{Field, GoType, Struct, Types, types};

const BAD_QUANTITY: &str = "quantities must match the regular expression \
                            '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

/// What Go says of an object of this definition; none if it can be decoded.
pub(crate) fn problem(definition: &str, object: &Value) -> Option<String> {
    let root = types().find(definition)?;
    let mut at = At {
        types: types(),
        owner: root.name,
        path: Vec::new(),
    };
    at.fields(root, object.as_object()?)
}

/// Where the decoder is.
struct At {
    types: &'static Types,
    /// The struct whose field is decoded.
    owner: &'static str,
    /// The fields that lead there, without places in lists.
    path: Vec<&'static str>,
}

impl At {
    fn fields(&mut self, of: &'static Struct, object: &Map<String, Value>) -> Option<String> {
        let owner = std::mem::replace(&mut self.owner, of.name);
        let found = object.iter().find_map(|(name, value)| {
            let (name, field) = of.fields.get_key_value(name.as_str())?;
            self.field(name, field, value)
        });
        self.owner = owner;
        found
    }

    fn field(
        &mut self,
        name: &'static str,
        field: &'static Field,
        value: &Value,
    ) -> Option<String> {
        let depth = self.path.len();
        self.path.extend(field.within);
        self.path.push(name);
        let found = self.value(&field.kind, value);
        self.path.truncate(depth);
        found
    }

    fn value(&mut self, kind: &'static GoType, value: &Value) -> Option<String> {
        match (kind, value) {
            (_, Value::Null)
            | (GoType::Any, _)
            | (GoType::Text(_) | GoType::IntOrString, Value::String(_))
            | (GoType::Bool, Value::Bool(_))
            | (GoType::Float | GoType::Quantity, Value::Number(_)) => None,
            (GoType::Bytes, Value::String(text)) => base64_problem(text),
            (GoType::Int32 | GoType::IntOrString, Value::Number(number)) => {
                let small = number.as_i64().is_some_and(|n| i32::try_from(n).is_ok());
                (!small).then(|| self.said(&format!("number {number}"), "int32"))
            }
            (GoType::Int64, Value::Number(number)) => {
                let good = number.is_i64();
                (!good).then(|| self.said(&format!("number {number}"), "int64"))
            }
            (GoType::Quantity, _) => {
                let good = value.as_str().and_then(quantity::canonical).is_some();
                (!good).then(|| BAD_QUANTITY.to_owned())
            }
            (GoType::Time { micro }, Value::String(text)) => time_problem(text, *micro),
            (GoType::List(inner, _), Value::Array(items)) => {
                items.iter().find_map(|item| self.value(inner, item))
            }
            (GoType::Map(inner, _), Value::Object(entries)) => {
                entries.values().find_map(|entry| self.value(inner, entry))
            }
            (GoType::Struct(place), Value::Object(object)) => {
                let of = self.types.at(*place);
                self.fields(of, object)
            }
            (GoType::IntOrString, _) => Some(self.wrong(value, "int32")),
            (GoType::Time { .. }, _) => Some(self.wrong(value, "string")),
            (other, _) => Some(self.wrong(value, &self.types.name_of(other))),
        }
    }

    fn wrong(&self, value: &Value, go: &str) -> String {
        let found = match value {
            Value::Null => "null",
            Value::Bool(_) => "bool",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        self.said(found, go)
    }

    fn said(&self, found: &str, go: &str) -> String {
        let (owner, path) = (self.owner, self.path.join("."));
        format!("json: cannot unmarshal {found} into Go struct field {owner}.{path} of type {go}")
    }
}
