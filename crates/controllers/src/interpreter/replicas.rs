//! Replicas by kind.

use k8s_openapi::api::core::v1::PodSpec;
use serde::Deserialize;
use serde_json::Value;

use super::requirements::requirements;

/// What a workload wants.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Interpretation {
    /// The total number of replicas.
    pub replicas: i32,
    /// What each replica needs, as `spec.replicaRequirements` of a binding.
    pub requirements: Option<Value>,
    /// The priority class of the pods.
    pub priority_class_name: Option<String>,
}

/// A template that cannot be understood.
#[derive(Debug, thiserror::Error)]
pub enum InterpretError {
    /// A field does not have its type.
    #[error("the template does not have the shape of a {kind}: {source}")]
    Shape {
        /// The kind.
        kind: String,
        /// What does not fit.
        source: serde_json::Error,
    },
    /// A quantity cannot be read.
    #[error("{resource} of container {container:?} is no quantity: {text:?}")]
    Quantity {
        /// The container, or `overhead`.
        container: String,
        /// The resource.
        resource: String,
        /// The text.
        text: String,
    },
}

/// Where a kind says how many replicas it wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counting {
    /// `spec.replicas`.
    Replicas,
    /// `spec.parallelism`, but never more than `spec.completions`.
    Parallelism,
    /// One.
    Single,
}

fn counting(api_version: &str, kind: &str) -> Option<Counting> {
    match (api_version, kind) {
        ("apps/v1", "Deployment" | "ReplicaSet" | "StatefulSet") => Some(Counting::Replicas),
        ("batch/v1", "Job") => Some(Counting::Parallelism),
        ("v1", "Pod") => Some(Counting::Single),
        _ => None,
    }
}

/// Whether templates of this kind are workloads with replicas.
pub fn is_interpreted(api_version: &str, kind: &str) -> bool {
    counting(api_version, kind).is_some()
}

/// Reads replicas and requirements from a template; nothing for kinds that have none.
///
/// # Errors
/// When the template does not have the shape of its kind.
pub fn interpret(
    api_version: &str,
    kind: &str,
    template: &Value,
) -> Result<Option<Interpretation>, InterpretError> {
    let Some(counting) = counting(api_version, kind) else {
        return Ok(None);
    };
    let spec = template.get("spec").unwrap_or(&Value::Null);
    let shape = |source| InterpretError::Shape {
        kind: kind.to_owned(),
        source,
    };
    let number = |field: &str| -> Result<Option<i32>, InterpretError> {
        match spec.get(field) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => i32::deserialize(value).map(Some).map_err(shape),
        }
    };
    let (replicas, pod) = match counting {
        Counting::Replicas => (number("replicas")?.unwrap_or(0), pod_template(spec)),
        Counting::Parallelism => {
            let parallelism = number("parallelism")?.unwrap_or(0);
            let completions = number("completions")?.unwrap_or(parallelism);
            (parallelism.min(completions), pod_template(spec))
        }
        Counting::Single => (1, spec),
    };
    let typed = match pod {
        Value::Null => PodSpec::default(),
        pod => PodSpec::deserialize(pod).map_err(shape)?,
    };
    Ok(Some(Interpretation {
        replicas,
        requirements: requirements(pod, &typed)?,
        priority_class_name: typed.priority_class_name,
    }))
}

fn pod_template(spec: &Value) -> &Value {
    spec.get("template")
        .and_then(|template| template.get("spec"))
        .unwrap_or(&Value::Null)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn replicas(api_version: &str, kind: &str, spec: Value) -> Option<i32> {
        let template = json!({ "spec": spec });
        interpret(api_version, kind, &template)
            .unwrap()
            .map(|wanted| wanted.replicas)
    }

    #[test]
    fn replicas_come_from_the_field_of_the_kind() {
        for (api_version, kind, spec, expected) in [
            ("apps/v1", "Deployment", json!({"replicas": 3}), Some(3)),
            ("apps/v1", "Deployment", json!({}), Some(0)),
            ("apps/v1", "ReplicaSet", json!({"replicas": 2}), Some(2)),
            ("apps/v1", "StatefulSet", json!({"replicas": 5}), Some(5)),
            ("batch/v1", "Job", json!({"parallelism": 4}), Some(4)),
            (
                "batch/v1",
                "Job",
                json!({"parallelism": 4, "completions": 2}),
                Some(2),
            ),
            (
                "batch/v1",
                "Job",
                json!({"parallelism": 2, "completions": 4}),
                Some(2),
            ),
            ("v1", "Pod", json!({}), Some(1)),
            ("apps/v1", "DaemonSet", json!({"replicas": 3}), None),
            ("batch/v1", "CronJob", json!({}), None),
            ("example.io/v1", "Deployment", json!({"replicas": 3}), None),
        ] {
            assert_eq!(
                replicas(api_version, kind, spec.clone()),
                expected,
                "{kind} {spec}"
            );
        }
    }

    #[test]
    fn a_field_of_the_wrong_type_is_an_error() {
        let template = json!({"spec": {"replicas": "three"}});
        let error = interpret("apps/v1", "Deployment", &template).unwrap_err();
        assert!(error.to_string().contains("Deployment"), "{error}");
    }
}
