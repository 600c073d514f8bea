//! Reading of the replicas and requirements of workload templates.

use k8s_openapi::api::core::v1::PodSpec;
use serde::Deserialize;
use serde_json::Value;

use super::requirements::requirements;
use super::workloads::{ReplicaField, Workload};
use crate::{InterpretError, Interpretation};

/// Reports whether a kind has replicas.
pub(crate) fn is_interpreted(api_version: &str, kind: &str) -> bool {
    Workload::of(api_version, kind).is_some_and(|workload| workload.replicas.is_some())
}

/// Returns the requirements of one replica from its pod template.
///
/// # Errors
/// When the template is malformed.
pub(crate) fn pod_requirements(template: &Value) -> Result<Option<Value>, InterpretError> {
    let pod = template.get("spec").unwrap_or(&Value::Null);
    requirements(pod, &typed_pod(pod, "PodTemplateSpec")?)
}

fn typed_pod(pod: &Value, kind: &str) -> Result<PodSpec, InterpretError> {
    match pod {
        Value::Null => Ok(PodSpec::default()),
        pod => serde_json::from_value(pod.clone()).map_err(|source| InterpretError::Shape {
            kind: kind.to_owned(),
            source,
        }),
    }
}

/// Reads the replicas and requirements of a template. Returns `None` for kinds without replicas.
///
/// # Errors
/// When the template is malformed.
pub(crate) fn interpret(
    api_version: &str,
    kind: &str,
    template: &Value,
) -> Result<Option<Interpretation>, InterpretError> {
    let Some(Workload {
        replicas: Some(field),
        pod_spec,
    }) = Workload::of(api_version, kind)
    else {
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
    let replicas = match field {
        ReplicaField::Replicas => number("replicas")?.unwrap_or(0),
        ReplicaField::Parallelism => {
            let parallelism = number("parallelism")?.unwrap_or(0);
            let completions = number("completions")?.unwrap_or(parallelism);
            parallelism.min(completions)
        }
        ReplicaField::Single => 1,
    };
    let pod = template.pointer(pod_spec).unwrap_or(&Value::Null);
    let typed = typed_pod(pod, kind)?;
    Ok(Some(Interpretation {
        replicas,
        requirements: requirements(pod, &typed)?,
        priority_class_name: typed.priority_class_name,
    }))
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
    fn each_kind_has_its_replica_field() {
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
