//! Rules for the kinds of Flux: releases, kustomizations and sources.

use berth_api::dependency::DependentObjectReference;
use berth_apimachinery::json_fields::text_at;
use serde_json::{Value, json};

use super::pods::named;
use super::reports::{conditions_of, with_generations};
use super::{Aggregation, Fields, Kind, retain_suspend};

const SOURCES: &str = "source.toolkit.fluxcd.io/v1beta2";

pub(super) static KINDS: [Kind; 7] = [
    Kind {
        reflect: Some(|release, status| with_generations(release, status, &RELEASE)),
        aggregate: Some(|members| Some(aggregate_release(members))),
        health: Some(|release| Ok(is_ready(release, &["ReconciliationSucceeded"]))),
        dependencies: Some(|release| Ok(release_dependencies(release))),
        ..suspendable("helm.toolkit.fluxcd.io/v2beta1", "HelmRelease")
    },
    Kind {
        reflect: Some(|object, status| with_generations(object, status, &KUSTOMIZATION)),
        aggregate: Some(|members| {
            let mut status = with_conditions(members);
            if members.items.is_empty() {
                set_all(&mut status, &REVISIONS, &json!(""));
            } else {
                set_last(&mut status, members, &REVISIONS, None);
            }
            Some(status)
        }),
        health: Some(|object| Ok(is_ready(object, &["ReconciliationSucceeded"]))),
        dependencies: Some(|object| {
            let fields = ["decryption/secretRef", "kubeConfig/secretRef"];
            Ok(secrets_and_account(object, &fields))
        }),
        ..suspendable("kustomize.toolkit.fluxcd.io/v1", "Kustomization")
    },
    Kind {
        reflect: Some(|object, status| with_generations(object, status, &GIT_REPOSITORY)),
        aggregate: Some(|members| Some(source(members, &[]))),
        health: Some(|object| Ok(is_ready(object, &["Succeeded"]))),
        dependencies: Some(|object| Ok(secrets(object, &["secretRef", "verify/secretRef"]))),
        ..suspendable("source.toolkit.fluxcd.io/v1", "GitRepository")
    },
    Kind {
        reflect: Some(|object, status| with_generations(object, status, &BUCKET)),
        aggregate: Some(|members| Some(source(members, &["url"]))),
        health: Some(|object| Ok(is_ready(object, &["Succeeded"]))),
        dependencies: Some(|object| Ok(secrets(object, &["secretRef"]))),
        ..suspendable(SOURCES, "Bucket")
    },
    Kind {
        reflect: Some(|object, status| with_generations(object, status, &HELM_CHART)),
        aggregate: Some(|members| Some(source(members, &HELM_CHART[2..]))),
        health: Some(|object| Ok(is_ready(object, &["Succeeded", "ChartPullSucceeded"]))),
        dependencies: Some(|object| Ok(secrets(object, &["verify/secretRef"]))),
        ..suspendable(SOURCES, "HelmChart")
    },
    Kind {
        reflect: Some(|object, status| with_generations(object, status, &HELM_REPOSITORY)),
        aggregate: Some(|members| Some(source(members, &["url"]))),
        health: Some(|object| Ok(is_ready(object, &["Succeeded"]))),
        dependencies: Some(|object| Ok(secrets(object, &["secretRef"]))),
        ..suspendable(SOURCES, "HelmRepository")
    },
    Kind {
        reflect: Some(|object, status| with_generations(object, status, &OCI_REPOSITORY)),
        aggregate: Some(|members| Some(source(members, &["url"]))),
        health: Some(|object| Ok(is_ready(object, &["Succeeded"]))),
        dependencies: Some(|object| {
            let fields = ["secretRef", "verify/secretRef", "certSecretRef"];
            Ok(secrets_and_account(object, &fields))
        }),
        ..suspendable(SOURCES, "OCIRepository")
    },
];

const fn suspendable(api_version: &'static str, kind: &'static str) -> Kind {
    Kind {
        retain: Some(retain_suspend),
        ..Kind::new(api_version, kind)
    }
}

const RELEASE: [&str; 10] = [
    "conditions",
    "observedGeneration",
    "lastAttemptedRevision",
    "lastAppliedRevision",
    "lastAttemptedValuesChecksum",
    "helmChart",
    "lastReleaseRevision",
    "failures",
    "upgradeFailures",
    "installFailures",
];
const REVISIONS: [&str; 2] = ["lastAppliedRevision", "lastAttemptedRevision"];
const KUSTOMIZATION: [&str; 4] = [
    "conditions",
    "observedGeneration",
    "lastAppliedRevision",
    "lastAttemptedRevision",
];
const GIT_REPOSITORY: [&str; 5] = [
    "conditions",
    "artifact",
    "observedGeneration",
    "observedIgnore",
    "observedRecurseSubmodules",
];
const BUCKET: [&str; 5] = [
    "conditions",
    "artifact",
    "observedIgnore",
    "observedGeneration",
    "url",
];
/// The reported fields of a HelmChart. As in Karmada, the observed generation is absent.
const HELM_CHART: [&str; 5] = [
    "conditions",
    "artifact",
    "observedChartName",
    "observedSourceArtifactRevision",
    "url",
];
const HELM_REPOSITORY: [&str; 4] = ["conditions", "artifact", "observedGeneration", "url"];
const OCI_REPOSITORY: [&str; 6] = [
    "conditions",
    "artifact",
    "url",
    "observedGeneration",
    "observedIgnore",
    "observedLayerSelector",
];

/// Reports whether the condition `Ready` is true for one of these reasons.
fn is_ready(object: &Value, reasons: &[&str]) -> bool {
    let status = object.get("status").unwrap_or(&Value::Null);
    conditions_of(status).any(|condition| {
        text_at(condition, "/type") == "Ready"
            && text_at(condition, "/status") == "True"
            && reasons.contains(&text_at(condition, "/reason"))
    })
}

/// Returns the old status with the merged conditions and the observed generation.
fn with_conditions(members: Aggregation<'_>) -> Fields {
    let mut status = members.old();
    members.set_observed_generation(&mut status);
    status.insert("conditions".to_owned(), members.merged_conditions());
    status
}

fn set_all(status: &mut Fields, fields: &[&str], value: &Value) {
    for field in fields {
        status.insert((*field).to_owned(), value.clone());
    }
}

/// Sets each field to the value of the last member that reports the field. If no member reports a field, sets it to the
/// default. Without a default, the old value remains.
fn set_last(
    status: &mut Fields,
    members: Aggregation<'_>,
    fields: &[&str],
    default: Option<Value>,
) {
    for field in fields {
        if let Some(value) = members.last(field).or(default.as_ref()) {
            status.insert((*field).to_owned(), value.clone());
        }
    }
}

/// Aggregates the status of a source. The artifact and the other fields come from the last member that reports them.
fn source(members: Aggregation<'_>, texts: &[&str]) -> Fields {
    let mut status = with_conditions(members);
    set_last(&mut status, members, &["artifact"], Some(Value::Null));
    set_last(&mut status, members, texts, Some(json!("")));
    status
}

fn aggregate_release(members: Aggregation<'_>) -> Fields {
    let mut status = with_conditions(members);
    let (texts, failures) = (&RELEASE[2..7], &RELEASE[7..]);
    if members.items.is_empty() {
        set_all(&mut status, texts, &json!(""));
        set_all(&mut status, failures, &json!(0));
        return status;
    }
    set_last(&mut status, members, texts, None);
    for counter in failures {
        // As in Karmada, the counter is written only if the old status has the counter.
        if let Some(slot) = status.get_mut(*counter) {
            *slot = json!(members.sum(counter));
        }
    }
    status
}

/// Returns references to the Secrets in the given fields of the spec.
fn secrets(object: &Value, fields: &[&str]) -> Vec<DependentObjectReference> {
    let names = fields
        .iter()
        .map(|field| object.pointer(&format!("/spec/{field}/name")));
    named(object, "Secret", names)
}

/// Returns references to the Secrets in the given fields of the spec, and to the ServiceAccount.
fn secrets_and_account(object: &Value, fields: &[&str]) -> Vec<DependentObjectReference> {
    let mut all = secrets(object, fields);
    let account = object.pointer("/spec/serviceAccountName");
    all.extend(named(object, "ServiceAccount", [account]));
    all
}

fn release_dependencies(release: &Value) -> Vec<DependentObjectReference> {
    let fields = ["chart/spec/verify/secretRef", "kubeConfig/secretRef"];
    let mut all = secrets_and_account(release, &fields);
    let values = release
        .pointer("/spec/valuesFrom")
        .and_then(Value::as_array);
    for kind in ["Secret", "ConfigMap"] {
        let values = values.into_iter().flatten();
        let values = values.filter(|value| text_at(value, "/kind") == kind);
        all.extend(named(release, kind, values.map(|value| value.get("name"))));
    }
    all
}
