//! Defaults of the kinds that run pods.

use serde_json::{Value, json};

use super::{pod, set};

fn template(spec: &mut Value) {
    if spec["template"].is_object() {
        if spec["template"]["metadata"].is_null() {
            spec["template"]["metadata"] = json!({});
        }
        pod::spec(&mut spec["template"]["spec"]);
    }
}

pub(super) fn deployment(value: &mut Value) {
    let spec = &mut value["spec"];
    set(spec, "replicas", json!(1));
    set(spec, "revisionHistoryLimit", json!(10));
    set(spec, "progressDeadlineSeconds", json!(600));
    set(spec, "strategy", json!({}));
    set(&mut spec["strategy"], "type", json!("RollingUpdate"));
    if spec["strategy"]["type"] == "RollingUpdate" {
        set(&mut spec["strategy"], "rollingUpdate", json!({}));
        set(
            &mut spec["strategy"]["rollingUpdate"],
            "maxUnavailable",
            json!("25%"),
        );
        set(
            &mut spec["strategy"]["rollingUpdate"],
            "maxSurge",
            json!("25%"),
        );
    }
    template(spec);
}

pub(super) fn replica_set(value: &mut Value) {
    let labels = value["spec"]["template"]["metadata"]["labels"].clone();
    set(&mut value["spec"], "replicas", json!(1));
    copy_labels(value, &labels);
    template(&mut value["spec"]);
}

pub(super) fn replication_controller(value: &mut Value) {
    let labels = value["spec"]["template"]["metadata"]["labels"].clone();
    set(&mut value["spec"], "replicas", json!(1));
    if labels.is_object() {
        set(&mut value["spec"], "selector", labels.clone());
    }
    copy_labels(value, &labels);
    template(&mut value["spec"]);
}

fn copy_labels(value: &mut Value, labels: &Value) {
    if labels.is_object() {
        set(&mut value["metadata"], "labels", labels.clone());
    }
}

pub(super) fn stateful_set(value: &mut Value) {
    let spec = &mut value["spec"];
    set(spec, "replicas", json!(1));
    set(spec, "revisionHistoryLimit", json!(10));
    set(spec, "podManagementPolicy", json!("OrderedReady"));
    set(spec, "updateStrategy", json!({}));
    set(&mut spec["updateStrategy"], "type", json!("RollingUpdate"));
    if spec["updateStrategy"]["type"] == "RollingUpdate" {
        set(&mut spec["updateStrategy"], "rollingUpdate", json!({}));
        set(
            &mut spec["updateStrategy"]["rollingUpdate"],
            "partition",
            json!(0),
        );
    }
    set(spec, "persistentVolumeClaimRetentionPolicy", json!({}));
    set(
        &mut spec["persistentVolumeClaimRetentionPolicy"],
        "whenDeleted",
        json!("Retain"),
    );
    set(
        &mut spec["persistentVolumeClaimRetentionPolicy"],
        "whenScaled",
        json!("Retain"),
    );
    if spec.get("volumeClaimTemplates").is_some() {
        for claim in spec["volumeClaimTemplates"]
            .as_array_mut()
            .into_iter()
            .flatten()
        {
            set(claim, "apiVersion", json!("v1"));
            set(claim, "kind", json!("PersistentVolumeClaim"));
            set(&mut claim["spec"], "volumeMode", json!("Filesystem"));
            set(claim, "status", json!({"phase": "Pending"}));
        }
    }
    template(spec);
}

pub(super) fn daemon_set(value: &mut Value) {
    let spec = &mut value["spec"];
    set(spec, "revisionHistoryLimit", json!(10));
    set(spec, "updateStrategy", json!({}));
    set(&mut spec["updateStrategy"], "type", json!("RollingUpdate"));
    if spec["updateStrategy"]["type"] == "RollingUpdate" {
        set(&mut spec["updateStrategy"], "rollingUpdate", json!({}));
        set(
            &mut spec["updateStrategy"]["rollingUpdate"],
            "maxSurge",
            json!(0),
        );
        set(
            &mut spec["updateStrategy"]["rollingUpdate"],
            "maxUnavailable",
            json!(1),
        );
    }
    template(spec);
}

/// Labels that tie pods to the job they belong to, new and old spelling.
const JOB_LABELS: [(&str, bool); 4] = [
    ("batch.kubernetes.io/controller-uid", true),
    ("batch.kubernetes.io/job-name", false),
    ("controller-uid", true),
    ("job-name", false),
];

fn job_spec(spec: &mut Value) {
    let both_absent = spec["completions"].is_null() && spec["parallelism"].is_null();
    if both_absent {
        spec["completions"] = json!(1);
    }
    if spec["parallelism"].is_null() {
        spec["parallelism"] = json!(1);
    }
    if spec["completions"].is_null()
        && let Some(object) = spec.as_object_mut()
    {
        object.remove("completions");
    }
    set(spec, "backoffLimit", json!(6));
    set(spec, "completionMode", json!("NonIndexed"));
    set(spec, "suspend", json!(false));
    let policy = if spec.get("podFailurePolicy").is_some() {
        "Failed"
    } else {
        "TerminatingOrFailed"
    };
    set(spec, "podReplacementPolicy", json!(policy));
    template(spec);
}

pub(super) fn job(value: &mut Value, creating: bool) {
    let labels = value["spec"]["template"]["metadata"]["labels"].clone();
    copy_labels(value, &labels);
    let (uid, name) = (
        value["metadata"]["uid"].clone(),
        value["metadata"]["name"].clone(),
    );
    job_spec(&mut value["spec"]);
    let spec = &mut value["spec"];
    if !creating || spec["manualSelector"] == true {
        return;
    }
    if spec["manualSelector"].is_null() {
        spec["manualSelector"] = json!(false);
        if let Some(object) = spec.as_object_mut() {
            object.remove("manualSelector");
        }
    }
    if !spec["template"]["metadata"]["labels"].is_object() {
        spec["template"]["metadata"]["labels"] = json!({});
    }
    for (label, is_uid) in JOB_LABELS {
        set(
            &mut spec["template"]["metadata"]["labels"],
            label,
            if is_uid { uid.clone() } else { name.clone() },
        );
    }
    set(spec, "selector", json!({}));
    set(&mut spec["selector"], "matchLabels", json!({}));
    set(
        &mut spec["selector"]["matchLabels"],
        "batch.kubernetes.io/controller-uid",
        uid,
    );
}

pub(super) fn cron_job(value: &mut Value) {
    let spec = &mut value["spec"];
    set(spec, "concurrencyPolicy", json!("Allow"));
    set(spec, "suspend", json!(false));
    set(spec, "successfulJobsHistoryLimit", json!(3));
    set(spec, "failedJobsHistoryLimit", json!(1));
    let template = &mut spec["jobTemplate"];
    if template.is_object() {
        set(template, "metadata", json!({}));
        if template["spec"].is_object() {
            // A template is not a job yet: only the pod template and the plain fields default.
            pod::spec(&mut template["spec"]["template"]["spec"]);
        }
    }
}
