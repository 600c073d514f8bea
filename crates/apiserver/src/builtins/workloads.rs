//! Defaults of workloads.

use serde_json::{Value, json};

use super::{items, pod, set, storage};

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
    set(&mut value["spec"], "replicas", json!(1));
    template(&mut value["spec"]);
}

pub(super) fn pod_template(value: &mut Value) {
    template(value);
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
    set(spec, "serviceName", json!(""));
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
    if let Some(ordinals) = spec.get_mut("ordinals").filter(|o| o.is_object()) {
        set(ordinals, "start", json!(0));
    }
    if spec.get("volumeClaimTemplates").is_some() {
        for claim in items(spec, "volumeClaimTemplates") {
            set(claim, "apiVersion", json!("v1"));
            set(claim, "kind", json!("PersistentVolumeClaim"));
            storage::claim_spec(&mut claim["spec"]);
            set(claim, "status", json!({"phase": "Pending"}));
        }
    }
    template(spec);
}

/// The annotation with the generation of a daemon set's template, for older clients.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// Increments the template generation if the template changed.
pub(super) fn update_template_generation(value: &mut Value, old: &Value) {
    let before = old["metadata"]["annotations"][TEMPLATE_GENERATION].as_str();
    let Some(before) = before.and_then(|text| text.parse::<i64>().ok()) else {
        return;
    };
    let changed = old["spec"]["template"] != value["spec"]["template"];
    let now = before + i64::from(changed);
    value["metadata"]["annotations"][TEMPLATE_GENERATION] = json!(now.to_string());
}

pub(super) fn daemon_set(value: &mut Value) {
    set(&mut value["metadata"], "annotations", json!({}));
    set(
        &mut value["metadata"]["annotations"],
        TEMPLATE_GENERATION,
        json!("1"),
    );
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

/// Labels that identify the job of a pod, in both spellings.
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
    let limit = if spec.get("backoffLimitPerIndex").is_some() {
        i32::MAX
    } else {
        6
    };
    set(spec, "backoffLimit", json!(limit));
    set(spec, "completionMode", json!("NonIndexed"));
    set(spec, "suspend", json!(false));
    let policy = if spec.get("podFailurePolicy").is_some() {
        "Failed"
    } else {
        "TerminatingOrFailed"
    };
    set(spec, "podReplacementPolicy", json!(policy));
    if let Some(failures) = spec.get_mut("podFailurePolicy") {
        for rule in items(failures, "rules") {
            for condition in items(rule, "onPodConditions") {
                set(condition, "status", json!("True"));
            }
        }
    }
    template(spec);
}

pub(super) fn job(value: &mut Value) {
    let labels = value["spec"]["template"]["metadata"]["labels"].clone();
    copy_labels(value, &labels);
    job_spec(&mut value["spec"]);
    set(&mut value["spec"], "manualSelector", json!(false));
}

/// Sets the selector and the labels of a new job, unless its selector is manual.
pub(super) fn generate_job_selector(value: &mut Value) {
    let (uid, name) = (
        value["metadata"]["uid"].clone(),
        value["metadata"]["name"].clone(),
    );
    let spec = &mut value["spec"];
    if spec["manualSelector"] == true {
        return;
    }
    let meta = &mut spec["template"]["metadata"];
    set(meta, "labels", json!({}));
    let before = meta["labels"].clone();
    for (label, is_uid) in JOB_LABELS {
        set(
            &mut meta["labels"],
            label,
            if is_uid { uid.clone() } else { name.clone() },
        );
    }
    let labels = meta["labels"].clone();
    set(spec, "selector", json!({}));
    set(&mut spec["selector"], "matchLabels", json!({}));
    set(
        &mut spec["selector"]["matchLabels"],
        "batch.kubernetes.io/controller-uid",
        uid,
    );
    let meta = &mut value["metadata"];
    set(meta, "labels", json!({}));
    if meta["labels"] == before {
        meta["labels"] = labels;
    }
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
            // The job template gets the defaults of its pod template only.
            self::template(&mut template["spec"]);
        }
    }
}
