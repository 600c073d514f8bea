//! Typed decoding of built-in kinds: refuses values with a wrong type, and removes empty fields as Go's `omitempty`
//! does. The OpenAPI definitions declare the types.

mod empty;
mod types;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use berth_apimachinery::quantity::Quantity;
use serde_json::{Map, Value};

use crate::go_text::type_name;
use types::{Field, FieldType, Struct};

/// The Go type of the schemas in CustomResourceDefinitions. Its compiled schema is open, so this module removes its
/// empty lists and maps.
const SCHEMA: &str = "JSONSchemaProps";

/// Removes the fields of an object that its Go type would omit. Returns an error message for the first value with a
/// wrong type.
pub(crate) fn decode(definition: &str, object: &mut Value) -> Option<String> {
    let root = types::find(definition)?;
    let mut decoder = Decoder { path: Vec::new() };
    decoder.fields(root, object.as_object_mut()?)
}

struct Decoder {
    /// The names of the fields that lead to the current value, without list indexes.
    path: Vec<&'static str>,
}

impl Decoder {
    fn fields(&mut self, of: &'static Struct, object: &mut Map<String, Value>) -> Option<String> {
        let mut empties = of.name == SCHEMA;
        let found = object.iter_mut().find_map(|(name, value)| {
            let (name, field) = of.fields.get_key_value(name.as_str())?;
            empties |= field.omit_empty && is_empty(value);
            self.path.push(name);
            let found = self.value(&field.kind, value);
            self.path.pop();
            found
        });
        if empties {
            object.retain(|name, value| {
                let field = of.fields.get(name.as_str());
                let is_omitted = |field: &Field| {
                    field.omit_empty && is_empty(value)
                        || of.name == SCHEMA && is_none(field, value)
                };
                !field.is_some_and(is_omitted)
            });
        }
        found
    }

    fn value(&mut self, kind: &'static FieldType, value: &mut Value) -> Option<String> {
        let fits = match (kind, &mut *value) {
            (FieldType::List(inner), Value::Array(items)) => {
                return items.iter_mut().find_map(|item| self.value(inner, item));
            }
            (FieldType::Map(inner), Value::Object(entries)) => {
                return entries
                    .values_mut()
                    .find_map(|entry| self.value(inner, entry));
            }
            (FieldType::Struct(name), value) => match (types::find(name), value) {
                (Some(of), Value::Object(object)) => return self.fields(of, object),
                (of, value) => of.is_none() || value.is_null(),
            },
            (_, Value::Null)
            | (FieldType::Any, _)
            | (FieldType::Text | FieldType::IntOrString, Value::String(_))
            | (FieldType::Bool, Value::Bool(_))
            | (FieldType::Float | FieldType::Quantity, Value::Number(_)) => true,
            (FieldType::Bytes, Value::String(text)) => is_base64(text),
            (FieldType::Int32 | FieldType::IntOrString, Value::Number(number)) => {
                number.as_i64().is_some_and(|n| i32::try_from(n).is_ok())
            }
            (FieldType::Int64, Value::Number(number)) => number.is_i64(),
            (FieldType::Quantity, Value::String(text)) => Quantity::parse(text).is_ok(),
            (FieldType::Time { micro }, Value::String(text)) => is_time(text, *micro),
            _ => false,
        };
        if fits {
            return None;
        }
        let found = match value {
            Value::String(_) | Value::Number(_) => value.to_string(),
            _ => type_name(value).to_owned(),
        };
        let (path, expected) = (self.path.join("."), kind.name());
        Some(format!(
            "json: cannot unmarshal {found} into {path} of type {expected}"
        ))
    }
}

fn is_base64(text: &str) -> bool {
    if text.contains(['\r', '\n']) {
        STANDARD.decode(text.replace(['\r', '\n'], "")).is_ok()
    } else {
        STANDARD.decode(text).is_ok()
    }
}

/// Reports whether a text is an RFC 3339 time. With `micro`, the time needs six fractional digits.
fn is_time(text: &str, micro: bool) -> bool {
    let fraction = text.split_once('.').map_or(0, |(_, rest)| {
        rest.bytes().take_while(u8::is_ascii_digit).count()
    });
    let shape: Vec<u8> = text
        .bytes()
        .take(19)
        .map(|b| if b.is_ascii_digit() { b'0' } else { b })
        .collect();
    let zone = text.ends_with('Z')
        || text
            .get(text.len().saturating_sub(3)..)
            .is_some_and(|end| end.starts_with(':'));
    shape == b"0000-00-00T00:00:00"
        && zone
        && (!micro || fraction == 6)
        && text.parse::<jiff::Timestamp>().is_ok()
}

/// Reports whether a value is `false`, zero or an empty text.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

/// Reports whether the value of a schema keyword has the same meaning as an absent keyword.
fn is_none(field: &Field, value: &Value) -> bool {
    match (value, &field.kind) {
        (Value::Null, _) => true,
        (Value::Array(items), FieldType::List(..)) => items.is_empty(),
        (Value::Object(entries), FieldType::Map(..)) => entries.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn empty_fields_are_dropped_unless_they_differ_from_absent_fields() {
        let container = json!({"name": "", "image": "", "imagePullPolicy": "", "stdin": false,
            "ports": [{"containerPort": 0, "hostPort": 0}], "securityContext": {"privileged": false}});
        let mut pod = json!({"spec": {"restartPolicy": "", "runtimeClassName": "", "hostNetwork": false,
            "terminationGracePeriodSeconds": 0, "containers": [container]}});
        assert_eq!(decode("io.k8s.api.core.v1.Pod", &mut pod), None);
        let container = json!({"name": "", "ports": [{"containerPort": 0}], "securityContext": {"privileged": false}});
        let expected = json!({"spec": {"runtimeClassName": "", "terminationGracePeriodSeconds": 0,
            "containers": [container]}});
        assert_eq!(pod, expected);
    }

    #[test]
    fn schema_bounds_of_zero_are_kept() {
        let bounds = json!({"type": "integer", "minimum": 0, "maximum": 0, "maxLength": 0, "nullable": false,
            "x-kubernetes-preserve-unknown-fields": false});
        let definition = |bounds: &Value| {
            json!({"spec": {"versions": [{"name": "v1", "served": false, "storage": true,
                "schema": {"openAPIV3Schema": {"properties": {"a": bounds}}}}]}})
        };
        let mut sent = definition(&bounds);
        let kind =
            "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition";
        assert_eq!(decode(kind, &mut sent), None);
        let mut kept = bounds;
        kept.as_object_mut().unwrap().remove("nullable");
        assert_eq!(sent, definition(&kept));
    }

    #[test]
    fn bytes_and_times_are_checked() {
        for good in ["", "YQ==", "YWI=", "YWJj", "YWJj\nYQ=="] {
            assert!(is_base64(good), "{good}");
        }
        for bad in ["%%", "not base64!", "YQ", "YWJjYQ", "YQ==x"] {
            assert!(!is_base64(bad), "{bad}");
        }
        for (good, micro) in [
            ("2024-01-01T00:00:00Z", false),
            ("2024-01-01T00:00:00.5Z", false),
            ("2024-01-01T00:00:00+02:00", false),
            ("2024-01-01T00:00:00.000000Z", true),
        ] {
            assert!(is_time(good, micro), "{good}");
        }
        for bad in [
            "x",
            "2024",
            "2024-01-01",
            "2024-01-01T00:00:00",
            "2024-02-31T00:00:00Z",
            "2024-01-01T00:00:00é",
        ] {
            assert!(!is_time(bad, false), "{bad}");
        }
        assert!(!is_time("2024-01-01T00:00:00Z", true));
    }
}
