//! What Go says of an object of a built-in kind that cannot be decoded into its types: clients print it, and people
//! search for it. The types are those of the OpenAPI definitions; it must not know what is done with the object.

mod scalar;

use serde_json::{Map, Value};

use super::builtin::definitions;
use super::compile::reference;
use super::quantity;
use scalar::{base64_problem, time_problem};

/// Fields that Go finds in a struct within the struct: of which type, under which name, which fields.
const EMBEDDED: &[(&str, &str, &[&str])] = &[
    (
        "Probe",
        "ProbeHandler",
        &["exec", "httpGet", "tcpSocket", "grpc"],
    ),
    ("IngressRule", "IngressRuleValue", &["http"]),
    ("ConfigMapVolumeSource", "LocalObjectReference", &["name"]),
    ("ConfigMapKeySelector", "LocalObjectReference", &["name"]),
    ("SecretKeySelector", "LocalObjectReference", &["name"]),
    ("ConfigMapEnvSource", "LocalObjectReference", &["name"]),
    ("SecretEnvSource", "LocalObjectReference", &["name"]),
    ("ConfigMapProjection", "LocalObjectReference", &["name"]),
    ("SecretProjection", "LocalObjectReference", &["name"]),
];
/// Fields whose strings have a type of their own in Go.
const NAMED_STRINGS: &[(&str, &str, &str)] = &[
    ("ObjectMeta", "uid", "types.UID"),
    ("OwnerReference", "uid", "types.UID"),
    ("Secret", "type", "v1.SecretType"),
    ("PodSpec", "restartPolicy", "v1.RestartPolicy"),
    ("PodSpec", "dnsPolicy", "v1.DNSPolicy"),
    ("Container", "imagePullPolicy", "v1.PullPolicy"),
    ("ContainerPort", "protocol", "v1.Protocol"),
    ("ServicePort", "protocol", "v1.Protocol"),
    ("ServiceSpec", "type", "v1.ServiceType"),
    ("ServiceSpec", "sessionAffinity", "v1.ServiceAffinity"),
    ("Toleration", "operator", "v1.TolerationOperator"),
    ("Toleration", "effect", "v1.TaintEffect"),
    ("Taint", "effect", "v1.TaintEffect"),
    ("DeploymentStrategy", "type", "v1.DeploymentStrategyType"),
    ("NamespaceSpec", "finalizers", "v1.FinalizerName"),
    ("HTTPIngressPath", "pathType", "v1.PathType"),
    ("HTTPGetAction", "scheme", "v1.URIScheme"),
    ("CronJobSpec", "concurrencyPolicy", "v1.ConcurrencyPolicy"),
    (
        "PersistentVolumeClaimSpec",
        "accessModes",
        "v1.PersistentVolumeAccessMode",
    ),
];
const BAD_QUANTITY: &str = "quantities must match the regular expression \
                            '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

/// What Go says of an object of this definition; none if it can be decoded.
pub(crate) fn problem(definition: &str, object: &Value) -> Option<String> {
    let object = object.as_object()?;
    let mut at = At {
        owner: short(definition),
        path: Vec::new(),
    };
    at.fields(definition, object)
}

/// `PodSpec` of `io.k8s.api.core.v1.PodSpec`.
fn short(definition: &str) -> &str {
    definition.rsplit('.').next().unwrap_or(definition)
}

/// Where the decoder is.
struct At<'a> {
    /// The struct whose field is decoded.
    owner: &'a str,
    /// The fields that lead there, without places in lists.
    path: Vec<&'a str>,
}

impl<'a> At<'a> {
    fn fields(&mut self, definition: &'a str, object: &'a Map<String, Value>) -> Option<String> {
        let properties = definitions().get(definition)?["properties"].as_object()?;
        let owner = std::mem::replace(&mut self.owner, short(definition));
        let found = object.iter().find_map(|(name, value)| {
            let (name, schema) = properties.get_key_value(name)?;
            let depth = self.path.len();
            self.path.extend(embedded(self.owner, name));
            self.path.push(name);
            let found = self.value(schema, value);
            self.path.truncate(depth);
            found
        });
        self.owner = owner;
        found
    }

    fn value(&mut self, schema: &'a Value, value: &'a Value) -> Option<String> {
        if value.is_null() {
            return None;
        }
        if let Some(definition) = reference(schema) {
            return self.defined(definition, value);
        }
        match schema["type"].as_str()? {
            "string" if schema["format"] == "byte" => match value.as_str() {
                Some(text) => base64_problem(text),
                None => Some(self.wrong(value, "[]uint8")),
            },
            "string" if value.is_string() => None,
            "boolean" if value.is_boolean() => None,
            "integer" => self.integer(value, go_integer(schema)),
            "number" if value.is_number() => None,
            "array" => match value.as_array() {
                Some(items) => items
                    .iter()
                    .find_map(|item| self.value(&schema["items"], item)),
                None => Some(self.wrong(value, &self.go_type(schema))),
            },
            "object" => {
                let inner = schema.get("additionalProperties")?;
                match value.as_object() {
                    Some(map) => map.values().find_map(|entry| self.value(inner, entry)),
                    None => Some(self.wrong(value, &self.go_type(schema))),
                }
            }
            "string" | "boolean" | "number" => Some(self.wrong(value, &self.go_type(schema))),
            _ => None,
        }
    }

    /// A value of a type that has a name.
    fn defined(&mut self, definition: &'a str, value: &'a Value) -> Option<String> {
        let name = short(definition);
        match (name, value) {
            ("Quantity", Value::Number(_)) | ("IntOrString", Value::String(_)) => None,
            ("Quantity", _) => {
                let good = value.as_str().and_then(quantity::canonical).is_some();
                (!good).then(|| BAD_QUANTITY.to_owned())
            }
            ("IntOrString", _) => self.integer(value, "int32"),
            ("Time" | "MicroTime", Value::String(text)) => time_problem(text, name == "MicroTime"),
            ("Time" | "MicroTime", _) => Some(self.wrong(value, "string")),
            _ => {
                // Types without fields take anything.
                let known = definitions().get(definition)?;
                known["properties"].as_object().filter(|p| !p.is_empty())?;
                match value {
                    Value::Object(object) => self.fields(definition, object),
                    _ => Some(self.wrong(value, &format!("v1.{name}"))),
                }
            }
        }
    }

    fn integer(&self, value: &Value, go: &str) -> Option<String> {
        let Value::Number(number) = value else {
            return Some(self.wrong(value, go));
        };
        let good = match go {
            "int32" => value.as_i64().is_some_and(|n| i32::try_from(n).is_ok()),
            _ => value.is_i64(),
        };
        (!good).then(|| self.said(&format!("number {number}"), go))
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

    /// What a schema is called in Go.
    fn go_type(&self, schema: &Value) -> String {
        if let Some(definition) = reference(schema) {
            return match short(definition) {
                "Quantity" => "resource.Quantity".to_owned(),
                name => format!("v1.{name}"),
            };
        }
        match schema["type"].as_str().unwrap_or_default() {
            "string" if schema["format"] == "byte" => "[]uint8".to_owned(),
            "string" => {
                let field = self.path.last().copied().unwrap_or_default();
                let own = NAMED_STRINGS
                    .iter()
                    .find(|(owner, name, _)| *owner == self.owner && *name == field);
                own.map_or("string", |(_, _, own)| own).to_owned()
            }
            "boolean" => "bool".to_owned(),
            "integer" => go_integer(schema).to_owned(),
            "number" => "float64".to_owned(),
            "array" => format!("[]{}", self.go_type(&schema["items"])),
            _ => match self.go_type(&schema["additionalProperties"]).as_str() {
                "resource.Quantity" => "v1.ResourceList".to_owned(),
                inner => format!("map[string]{inner}"),
            },
        }
    }
}

fn go_integer(schema: &Value) -> &str {
    schema["format"].as_str().unwrap_or("int64")
}

/// The struct within a struct that has a field.
fn embedded(owner: &str, field: &str) -> Option<&'static str> {
    if owner == "Volume" && field != "name" {
        return Some("VolumeSource");
    }
    let found = EMBEDDED
        .iter()
        .find(|(o, _, fields)| *o == owner && fields.contains(&field));
    found.map(|(_, name, _)| *name)
}
