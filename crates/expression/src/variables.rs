//! The variables `cluster` and `binding` of expressions, and the types of their fields.
//!
//! The fields come from the schemas of the CRDs, so that a misspelt field is an error when the configuration is loaded.

use std::sync::LazyLock;

use berth_api::binding::BindingSpec;
use berth_api::cluster::{ClusterSpec, ClusterStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

/// The variable for the cluster that is filtered or scored.
pub(crate) const CLUSTER: &str = "cluster";
/// The variable for the binding that is scheduled.
pub(crate) const BINDING: &str = "binding";

/// The field of `cluster` with the scores of the cluster by name.
pub(crate) const SCORES: &str = "scores";
/// The field of a score with its age.
pub(crate) const AGE: &str = "ageSeconds";

/// The type of a value, as far as it is known before the evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Bool,
    Number,
    Text,
    List,
    Map,
    Unknown,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bool => "a bool",
            Self::Number => "a number",
            Self::Text => "a string",
            Self::List => "a list",
            Self::Map => "an object",
            Self::Unknown => "a value",
        }
    }
}

static CLUSTERS: LazyLock<Value> = LazyLock::new(|| {
    object(&json!({
        "apiVersion": { "type": "string" },
        "kind": { "type": "string" },
        "metadata": schema::<ObjectMeta>(),
        "spec": schema::<ClusterSpec>(),
        "status": schema::<ClusterStatus>(),
        // The valid scores of ClusterScores, which are not part of the Cluster object.
        SCORES: {
            "type": "object",
            "additionalProperties": object(&json!({
                "value": { "type": "number" },
                AGE: { "type": "integer" },
            })),
        },
    }))
});

static BINDINGS: LazyLock<Value> = LazyLock::new(|| {
    object(&json!({
        "metadata": schema::<ObjectMeta>(),
        "spec": schema::<BindingSpec>(),
    }))
});

fn object(properties: &Value) -> Value {
    json!({ "type": "object", "properties": properties })
}

fn schema<T: schemars::JsonSchema>() -> Value {
    let settings = SchemaSettings::default().with(|settings| settings.inline_subschemas = true);
    settings
        .into_generator()
        .into_root_schema_for::<T>()
        .to_value()
}

/// Returns the type of the field at a path of a variable.
///
/// # Errors
/// The first unknown name in the path, with the known fields at its position.
pub(crate) fn kind_of(variable: &str, path: &[&str]) -> Result<Kind, (String, Vec<String>)> {
    let mut at = match variable {
        CLUSTER => &*CLUSTERS,
        BINDING => &*BINDINGS,
        _ => return Ok(Kind::Unknown),
    };
    for name in path {
        let properties = at.get("properties").and_then(Value::as_object);
        let next = properties
            .and_then(|properties| properties.get(*name))
            .or_else(|| at.get("additionalProperties"));
        at = match (next, properties) {
            (Some(next), _) if next.is_object() => next,
            (None, Some(properties)) => {
                let known = properties.keys().cloned().collect();
                return Err(((*name).to_owned(), known));
            }
            _ => return Ok(Kind::Unknown),
        };
    }
    Ok(kind(at))
}

fn kind(schema: &Value) -> Kind {
    let named = match schema.get("type") {
        Some(Value::String(name)) => name.as_str(),
        // Optional fields have types such as `["string", "null"]`.
        Some(Value::Array(names)) => match names.as_slice() {
            [Value::String(name), Value::String(null)] if null == "null" => name.as_str(),
            _ => "",
        },
        _ => "",
    };
    match named {
        "boolean" => Kind::Bool,
        "integer" | "number" => Kind::Number,
        "string" => Kind::Text,
        "array" => Kind::List,
        "object" => Kind::Map,
        _ => Kind::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_come_from_the_schemas() {
        for (variable, path, kind) in [
            (CLUSTER, vec!["metadata", "labels", "a/b"], Kind::Text),
            (CLUSTER, vec!["metadata", "labels"], Kind::Map),
            (CLUSTER, vec!["spec", "region"], Kind::Text),
            (CLUSTER, vec!["status", "conditions"], Kind::List),
            (CLUSTER, vec!["scores", "carbon"], Kind::Map),
            (CLUSTER, vec!["scores", "carbon", "value"], Kind::Number),
            (BINDING, vec!["spec", "replicas"], Kind::Number),
            (BINDING, vec!["spec", "resource", "kind"], Kind::Text),
        ] {
            assert_eq!(kind_of(variable, &path), Ok(kind), "{variable} {path:?}");
        }
        let (name, known) = kind_of(CLUSTER, &["metdata", "labels"]).unwrap_err();
        assert_eq!(name, "metdata");
        assert_eq!(
            known,
            ["apiVersion", "kind", "metadata", "scores", "spec", "status"].map(str::to_owned)
        );
        let (name, known) = kind_of(CLUSTER, &["scores", "carbon", "age"]).unwrap_err();
        assert_eq!(
            (&*name, known.join(" ")),
            ("age", "ageSeconds value".into())
        );
        assert!(kind_of(BINDING, &["status"]).is_err());
        assert!(kind_of(BINDING, &["spec", "replica"]).is_err());
    }
}
