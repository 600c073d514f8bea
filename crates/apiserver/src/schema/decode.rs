//! What Go says of an object of a built-in kind that cannot be decoded into its types: clients print it, and people
//! search for it. The types are those of the OpenAPI definitions; it must not know what is done with the object.

mod empty;
mod named;
mod scalar;
mod types;

use berth_apimachinery::quantity::Quantity;
use serde_json::{Map, Value};

use crate::go_text::type_name;
use scalar::{base64_problem, time_problem};
use types::{Field, GoType, Struct, Types, types};

/// The struct whose parts no schema describes, as it is one.
const SCHEMA: &str = "JSONSchemaProps";

const BAD_QUANTITY: &str = "quantities must match the regular expression \
                            '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

/// Takes from an object of this definition what is empty and to Go not there; says what is wrong if it cannot be decoded.
pub(crate) fn problem(definition: &str, object: &mut Value) -> Option<String> {
    let root = types().find(definition)?;
    let mut at = At {
        types: types(),
        owner: root.name,
        path: Vec::new(),
    };
    at.fields(root, object.as_object_mut()?)
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
    fn fields(&mut self, of: &'static Struct, object: &mut Map<String, Value>) -> Option<String> {
        let owner = std::mem::replace(&mut self.owner, of.name);
        let mut empties = of.name == SCHEMA;
        let found = object.iter_mut().find_map(|(name, value)| {
            let (name, field) = of.fields.get_key_value(name.as_str())?;
            empties |= field.omit_empty && is_empty(value);
            self.field(name, field, value)
        });
        self.owner = owner;
        if empties {
            object.retain(|name, value| {
                let field = of.fields.get(name.as_str());
                let gone = |field: &Field| {
                    field.omit_empty && is_empty(value)
                        || of.name == SCHEMA && is_none(field, value)
                };
                !field.is_some_and(gone)
            });
        }
        found
    }

    fn field(
        &mut self,
        name: &'static str,
        field: &'static Field,
        value: &mut Value,
    ) -> Option<String> {
        let depth = self.path.len();
        self.path.extend(field.within);
        self.path.push(name);
        let found = self.value(&field.kind, value);
        self.path.truncate(depth);
        found
    }

    fn value(&mut self, kind: &'static GoType, value: &mut Value) -> Option<String> {
        match (kind, &mut *value) {
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
                let good = value
                    .as_str()
                    .is_some_and(|text| Quantity::parse(text).is_ok());
                (!good).then(|| BAD_QUANTITY.to_owned())
            }
            (GoType::Time { micro }, Value::String(text)) => time_problem(text, *micro),
            (GoType::List(inner, _), Value::Array(items)) => {
                items.iter_mut().find_map(|item| self.value(inner, item))
            }
            (GoType::Map(inner, _), Value::Object(entries)) => entries
                .values_mut()
                .find_map(|entry| self.value(inner, entry)),
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
        self.said(type_name(value), go)
    }

    fn said(&self, found: &str, go: &str) -> String {
        let (owner, path) = (self.owner, self.path.join("."));
        format!("json: cannot unmarshal {found} into Go struct field {owner}.{path} of type {go}")
    }
}

/// Whether Go has this value where nothing is said.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

/// Whether this says no more of a schema than nothing.
fn is_none(field: &Field, value: &Value) -> bool {
    match (value, &field.kind) {
        (Value::Null, _) => true,
        (Value::Array(items), GoType::List(..)) => items.is_empty(),
        (Value::Object(entries), GoType::Map(..)) => entries.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_empty_goes_unless_go_can_tell_it_from_nothing() {
        let container = json!({"name": "", "image": "", "imagePullPolicy": "", "stdin": false,
            "ports": [{"containerPort": 0, "hostPort": 0}], "securityContext": {"privileged": false}});
        let mut pod = json!({"spec": {"restartPolicy": "", "runtimeClassName": "", "hostNetwork": false,
            "terminationGracePeriodSeconds": 0, "containers": [container]}});
        assert_eq!(problem("io.k8s.api.core.v1.Pod", &mut pod), None);
        let container = json!({"name": "", "ports": [{"containerPort": 0}], "securityContext": {"privileged": false}});
        let expected = json!({"spec": {"runtimeClassName": "", "terminationGracePeriodSeconds": 0,
            "containers": [container]}});
        assert_eq!(pod, expected);
    }

    #[test]
    fn bounds_of_nothing_are_bounds() {
        let bounds = json!({"type": "integer", "minimum": 0, "maximum": 0, "maxLength": 0, "nullable": false,
            "x-kubernetes-preserve-unknown-fields": false});
        let definition = |bounds: &Value| {
            json!({"spec": {"versions": [{"name": "v1", "served": false, "storage": true,
                "schema": {"openAPIV3Schema": {"properties": {"a": bounds}}}}]}})
        };
        let mut sent = definition(&bounds);
        let kind =
            "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition";
        assert_eq!(problem(kind, &mut sent), None);
        let mut kept = bounds;
        kept.as_object_mut().unwrap().remove("nullable");
        assert_eq!(sent, definition(&kept));
    }
}
