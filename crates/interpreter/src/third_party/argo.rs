//! Rules for the kinds of Argo: Workflow and Rollout.

use berth_api::dependency::DependentObjectReference;
use berth_apimachinery::json_fields::{generation, number, text_at};
use serde_json::{Value, json};

use super::pods::{
    dependencies, interpretation, named, of_template, replicas_at, template_dependencies,
};
use super::reports::with_generations;
use super::{Aggregation, Fields, Kind, Result, retain_suspend, set_in_spec};

pub(super) static KINDS: [Kind; 2] = [
    Kind {
        replicas: Some(|rollout| {
            let replicas = replicas_at(rollout, "/spec/replicas", Some(1))?;
            if rollout.pointer("/spec/template").is_none() {
                // The pods belong to the Deployment in `spec.workloadRef`.
                return interpretation(replicas, &Value::Null);
            }
            of_template(rollout, replicas)
        }),
        revise: Some(|rollout, replicas| set_in_spec(rollout, "replicas", replicas)),
        reflect: Some(|rollout, status| with_generations(rollout, status, &ROLLOUT)),
        aggregate: Some(|members| Some(aggregate_rollout(members))),
        health: Some(|rollout| {
            // A paused rollout waits for its next step, and its pods serve requests.
            let is_healthy = matches!(text_at(rollout, "/status/phase"), "Healthy" | "Paused");
            Ok(is_healthy && is_observed(rollout))
        }),
        dependencies: Some(template_dependencies),
        ..Kind::new("argoproj.io/v1alpha1", "Rollout")
    },
    Kind {
        replicas: Some(|workflow| {
            let replicas = replicas_at(workflow, "/spec/parallelism", Some(1))?;
            let mut pod = json!({"containers": []});
            for field in ["affinity", "nodeSelector", "tolerations"] {
                pod[field] = workflow["spec"][field].clone();
            }
            interpretation(replicas, &json!({ "spec": pod }))
        }),
        revise: Some(|workflow, replicas| set_in_spec(workflow, "parallelism", replicas)),
        retain: Some(|desired, observed| {
            retain_suspend(desired, observed);
            if let Some(status) = observed.get("status") {
                desired["status"] = status.clone();
            }
        }),
        health: Some(|workflow| {
            let phase = text_at(workflow, "/status/phase");
            Ok(!matches!(phase, "" | "Error" | "Failed"))
        }),
        dependencies: Some(workflow_dependencies),
        ..Kind::new("argoproj.io/v1alpha1", "Workflow")
    },
];

const ROLLOUT: [&str; 7] = [
    "replicas",
    "updatedReplicas",
    "readyReplicas",
    "availableReplicas",
    "observedGeneration",
    "phase",
    "message",
];
/// Phases of a Rollout, the worst first.
const PHASES: [&str; 4] = ["Degraded", "Progressing", "Paused", "Healthy"];

/// Reports whether the controller has observed the current generation. The controller writes the observed generation as
/// text.
fn is_observed(rollout: &Value) -> bool {
    text_at(rollout, "/status/observedGeneration") == generation(rollout).to_string()
}

/// Sums the counters. Copies the phase and message of the member with the worst phase.
fn aggregate_rollout(members: Aggregation<'_>) -> Fields {
    let mut status = members.old();
    for counter in &ROLLOUT[..4] {
        status.insert((*counter).to_owned(), json!(members.sum(counter)));
    }
    let rank = |report: &&Value| {
        let phase = text_at(report, "/phase");
        PHASES.iter().position(|other| *other == phase)
    };
    let worst = members
        .statuses()
        .min_by_key(|report| rank(report).unwrap_or(1));
    for field in ["phase", "message"] {
        let value = worst.and_then(|report| report.get(field)).cloned();
        status.insert(field.to_owned(), value.unwrap_or(Value::Null));
    }
    let current = generation(members.template);
    let is_current = |report: &Value| {
        report.get("resourceTemplateGeneration") == Some(&json!(current))
            && text_at(report, "/observedGeneration").parse() == Ok(number(report, "generation"))
    };
    if members
        .items
        .iter()
        .all(|item| item.status.as_ref().is_some_and(is_current))
    {
        status.insert("observedGeneration".to_owned(), json!(current.to_string()));
    }
    status
}

fn workflow_dependencies(workflow: &Value) -> Result<Vec<DependentObjectReference>> {
    let mut pod = json!({"containers": []});
    for field in ["volumes", "imagePullSecrets", "serviceAccountName"] {
        pod[field] = workflow["spec"][field].clone();
    }
    let mut all = dependencies(workflow, [&json!({ "spec": pod })])?;
    let executor = workflow.pointer("/spec/executor/serviceAccountName");
    all.extend(named(workflow, "ServiceAccount", [executor]));
    let claims = workflow.pointer("/spec/volumeClaimTemplates");
    let claims = claims.and_then(Value::as_array).into_iter().flatten();
    let claims = claims.map(|claim| claim.pointer("/metadata/name"));
    all.extend(named(workflow, "PersistentVolumeClaim", claims));
    Ok(all)
}
