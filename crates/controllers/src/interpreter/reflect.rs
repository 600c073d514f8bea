//! What of a member's object is reported to the control plane.

use berth_api::well_known::TEMPLATE_GENERATION;
use serde_json::{Map, Value, json};

use super::counters::{Counters, number, put};
use super::revise::kind_of;

/// The status to report; nothing where there is none yet, or the kind has none to report.
pub fn reflect(object: &Value) -> Option<Value> {
    let (api_version, kind) = kind_of(object);
    let status = object.get("status")?;
    if let Some(counters) = Counters::of(api_version, kind) {
        let mut report = Map::new();
        if counters.generations {
            put(&mut report, "generation", generation(object));
            let template = template_generation(object);
            put(&mut report, "resourceTemplateGeneration", template);
            let observed = number(status, "observedGeneration");
            put(&mut report, "observedGeneration", observed);
        }
        counters.write(&mut report, |field| number(status, field));
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
            let fields = [
                "active",
                "succeeded",
                "failed",
                "conditions",
                "startTime",
                "completionTime",
            ];
            let present = fields.iter().filter_map(|field| {
                let value = status.get(field).filter(|value| !value.is_null())?;
                Some(((*field).to_owned(), value.clone()))
            });
            Some(Value::Object(present.collect()))
        }
        _ => status.is_object().then(|| status.clone()),
    }
}

/// Counts changes of the object in the member.
pub(super) fn generation(object: &Value) -> i64 {
    let generation = object.pointer("/metadata/generation");
    generation.and_then(Value::as_i64).unwrap_or(0)
}

/// The generation of the template that the object was made from, as its annotation says.
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
    fn kinds_report_what_is_aggregated_and_no_more() {
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
}
