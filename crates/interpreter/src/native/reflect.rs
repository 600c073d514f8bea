//! Reflection: the part of an object's status that a member reports to the control plane.

use berth_api::well_known::TEMPLATE_GENERATION;
use berth_apimachinery::json_fields::{generation, kind_of, number};
use berth_apimachinery::json_size::json_size;
use serde_json::{Map, Value, json};

use super::counters::{Counters, counter, put};

/// Maximum size of a reported status, in bytes of JSON. With this limit, Works and bindings fit into a request to the
/// control plane, for any status that a member returns.
pub(crate) const MAX_REPORT_BYTES: usize = 256 * 1024;

/// Returns the status that a member reports for an object. Returns `None` if the status is absent, too large, or not
/// reported for the kind.
pub(crate) fn reflect(object: &Value) -> Option<Value> {
    report(object).filter(|report| json_size(report) <= MAX_REPORT_BYTES)
}

fn report(object: &Value) -> Option<Value> {
    let (api_version, kind) = kind_of(object);
    let status = object.get("status")?;
    if let Some(counters) = Counters::of(api_version, kind) {
        let mut report = Map::new();
        if counters.has_generation {
            put(&mut report, "generation", generation(object));
            let template = template_generation(object);
            put(&mut report, "resourceTemplateGeneration", template);
            let observed = number(status, "observedGeneration").max(0);
            put(&mut report, "observedGeneration", observed);
        }
        counters.write(&mut report, |field| counter(status, field));
        if let Some(pods) = status.get("disruptedPods") {
            report.insert("disruptedPods".to_owned(), pods.clone());
        }
        return (!report.is_empty()).then_some(Value::Object(report));
    }
    match (api_version, kind) {
        ("v1", "Service") => {
            (object.pointer("/spec/type") == Some(&json!("LoadBalancer"))).then(|| {
                let ingress = status.get("loadBalancer").cloned();
                json!({ "loadBalancer": ingress.unwrap_or_else(|| json!({})) })
            })
        }
        ("batch/v1", "Job") => {
            let mut report = Map::new();
            for field in ["active", "succeeded", "failed"] {
                if status.get(field).is_some_and(Value::is_number) {
                    report.insert(field.to_owned(), json!(counter(status, field)));
                }
            }
            for field in ["conditions", "startTime", "completionTime"] {
                if let Some(value) = status.get(field).filter(|value| !value.is_null()) {
                    report.insert(field.to_owned(), value.clone());
                }
            }
            Some(Value::Object(report))
        }
        _ => status.is_object().then(|| status.clone()),
    }
}

/// Returns the generation of the template from which the object was rendered. An annotation of the object contains this
/// generation.
fn template_generation(object: &Value) -> i64 {
    let annotations = object.pointer("/metadata/annotations");
    annotations
        .and_then(|annotations| annotations.get(TEMPLATE_GENERATION)?.as_str())
        .and_then(|text| text.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_reports_the_status_fields_of_its_rule() {
        let metadata = json!({"generation": 4, "annotations": {(TEMPLATE_GENERATION): "7"}});
        for (api_version, kind, spec, status, expected) in [
            (
                "apps/v1",
                "Deployment",
                json!({}),
                json!({"replicas": 2, "readyReplicas": 0, "observedGeneration": 4, "conditions": [1]}),
                json!({"generation": 4, "resourceTemplateGeneration": 7, "observedGeneration": 4, "replicas": 2}),
            ),
            (
                "apps/v1",
                "StatefulSet",
                json!({}),
                json!({"replicas": 0}),
                json!({"generation": 4, "resourceTemplateGeneration": 7, "replicas": 0, "availableReplicas": 0}),
            ),
            (
                "v1",
                "Service",
                json!({"type": "ClusterIP"}),
                json!({"loadBalancer": {}}),
                Value::Null,
            ),
            (
                "v1",
                "Service",
                json!({"type": "LoadBalancer"}),
                json!({"loadBalancer": {"ingress": [1]}, "conditions": []}),
                json!({"loadBalancer": {"ingress": [1]}}),
            ),
            (
                "batch/v1",
                "Job",
                json!({}),
                json!({"active": 1, "ready": 1}),
                json!({"active": 1}),
            ),
            (
                "x/v1",
                "Thing",
                json!({}),
                json!({"any": "thing"}),
                json!({"any": "thing"}),
            ),
        ] {
            let object = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata,
                "spec": spec, "status": status});
            assert_eq!(reflect(&object).unwrap_or_default(), expected, "{kind}");
        }
        assert_eq!(
            reflect(&json!({"apiVersion": "apps/v1", "kind": "Deployment"})),
            None
        );
    }

    #[test]
    fn reports_are_bounded_for_any_status() {
        let reported = |api_version: &str, kind: &str, status: Value| {
            reflect(&json!({"apiVersion": api_version, "kind": kind, "status": status}))
        };
        assert_eq!(
            reported(
                "apps/v1",
                "Deployment",
                json!({"replicas": i64::MAX, "readyReplicas": -1, "updatedReplicas": "many",
                    "availableReplicas": 1e300, "observedGeneration": i64::MIN})
            ),
            Some(json!({"replicas": i32::MAX}))
        );
        assert_eq!(
            reported(
                "batch/v1",
                "Job",
                json!({"active": -1, "failed": "x", "succeeded": i64::MAX})
            ),
            Some(json!({"active": 0, "succeeded": i32::MAX}))
        );
        let filled = |size: usize| reported("x/v1", "Thing", json!({"text": "x".repeat(size)}));
        assert!(filled(MAX_REPORT_BYTES - 16).is_some());
        assert!(filled(MAX_REPORT_BYTES).is_none());
    }
}
