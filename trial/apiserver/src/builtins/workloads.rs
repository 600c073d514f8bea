//! Defaults of workloads and their pod templates.

use serde_json::{Value, json};

use super::{fill, fill_at, items, persistent_volume_claim, pod, set};

/// Sets the defaults of the pod template in a workload's spec.
pub(super) fn template(spec: &mut Value) {
    if spec["template"].is_object() {
        if spec["template"]["metadata"].is_null() {
            spec["template"]["metadata"] = json!({});
        }
        pod::spec(&mut spec["template"]["spec"]);
    }
}

/// Sets the default type `RollingUpdate` of a strategy. If the strategy has this type, also sets the fields of the
/// rolling update.
fn rolling_update(spec: &mut Value, strategy: &str, rolling: Value) {
    fill(spec, json!({strategy: {"type": "RollingUpdate"}}));
    if spec[strategy]["type"] == "RollingUpdate" {
        fill(spec, json!({strategy: {"rollingUpdate": rolling}}));
    }
}

pub(super) fn deployment(value: &mut Value) {
    let spec = &mut value["spec"];
    let defaults =
        json!({"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600});
    fill(spec, defaults);
    let rolling = json!({"maxUnavailable": "25%", "maxSurge": "25%"});
    rolling_update(spec, "strategy", rolling);
    template(spec);
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
    fill(
        spec,
        json!({
            "replicas": 1,
            "revisionHistoryLimit": 10,
            "podManagementPolicy": "OrderedReady",
            "serviceName": "",
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
        }),
    );
    rolling_update(spec, "updateStrategy", json!({"partition": 0}));
    fill_at(spec, "/ordinals", json!({"start": 0}));
    for claim in items(spec, "volumeClaimTemplates") {
        let defaults = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "status": {"phase": "Pending"}});
        for (field, default) in defaults.as_object().into_iter().flatten() {
            set(claim, field, default.clone());
        }
        persistent_volume_claim::claim_spec(&mut claim["spec"]);
    }
    template(spec);
}

/// The annotation with the generation of a daemon set's template, which older clients read.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// Increments the generation of the template in the annotation if the template changed.
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
    fill_at(
        value,
        "/metadata",
        json!({"annotations": {TEMPLATE_GENERATION: "1"}}),
    );
    let spec = &mut value["spec"];
    set(spec, "revisionHistoryLimit", json!(10));
    rolling_update(
        spec,
        "updateStrategy",
        json!({"maxSurge": 0, "maxUnavailable": 1}),
    );
    template(spec);
}

/// Labels that identify the job of a pod, with and without a domain prefix. The value is the job's uid if the flag is
/// true, or else the job's name.
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

/// Sets the selector and the labels of a new job, unless the job sets `manualSelector`.
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
    let own = json!({"batch.kubernetes.io/controller-uid": uid});
    fill(spec, json!({"selector": {"matchLabels": own}}));
    let meta = &mut value["metadata"];
    set(meta, "labels", json!({}));
    if meta["labels"] == before {
        meta["labels"] = labels;
    }
}

pub(super) fn cron_job(value: &mut Value) {
    let spec = &mut value["spec"];
    fill(
        spec,
        json!({
            "concurrencyPolicy": "Allow",
            "suspend": false,
            "successfulJobsHistoryLimit": 3,
            "failedJobsHistoryLimit": 1,
        }),
    );
    let template = &mut spec["jobTemplate"];
    if template.is_object() {
        set(template, "metadata", json!({}));
        if template["spec"].is_object() {
            // A job template gets only the defaults of its pod template, and none of the defaults of a job's spec.
            self::template(&mut template["spec"]);
        }
    }
}
