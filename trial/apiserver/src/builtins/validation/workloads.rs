//! Validation of deployments, stateful sets, daemon sets, replica sets and replication controllers.

use serde_json::{Value, json};

use super::checks::{at_most_all, count_or_percent, selector};
use super::field::Field;
use super::rules::Check::{
    By, Forbidden, Immutable, NotNegative, OneOf, OptionalText, Present, Required,
};
use super::rules::{Rule, apply};
use super::{matches_template, persistent_volume_claim, pod};
use crate::text_rules;

/// The rules for pod templates whose pods a controller keeps running.
const TEMPLATE: &[Rule] = &[
    ("template", By(pod::template)),
    ("template.spec.restartPolicy", OneOf(&["Always"])),
    (
        "template.spec.activeDeadlineSeconds",
        Forbidden("not supported by controllers that keep their pods running"),
    ),
];

const DEPLOYMENT: &[Rule] = &[
    ("", By(selects)),
    ("revisionHistoryLimit progressDeadlineSeconds", NotNegative),
    ("selector", Present),
    ("selector", Immutable),
    ("strategy", By(strategy)),
    ("", By(deadline)),
];

const REPLICA_SET: &[Rule] = &[
    ("", By(selects)),
    ("selector", Present),
    ("selector", Immutable),
];

/// The rules for stateful sets. A negative `revisionHistoryLimit` is valid: such a stateful set keeps its whole
/// history.
const STATEFUL_SET: &[Rule] = &[
    ("", By(selects)),
    ("selector", Present),
    ("podManagementPolicy", By(management_policy)),
    ("updateStrategy", By(stateful_strategy)),
    (
        "persistentVolumeClaimRetentionPolicy.whenDeleted persistentVolumeClaimRetentionPolicy.whenScaled",
        OneOf(&["Retain", "Delete"]),
    ),
    ("ordinals.start", NotNegative),
    ("", By(claim_templates)),
    ("", By(only_free_fields_change)),
];

const DAEMON_SET: &[Rule] = &[
    ("", By(selects)),
    ("revisionHistoryLimit", NotNegative),
    ("selector", Immutable),
    ("updateStrategy", By(daemon_strategy)),
];

const REPLICATION_CONTROLLER: &[Rule] = &[
    ("minReadySeconds replicas", NotNegative),
    ("selector", Required),
    ("template", Present),
    ("", By(selects_labels)),
];

/// Checks a workload of the API group `apps`, or a replication controller.
pub(super) fn workload(plural: &str, object: &Field<'_>) {
    let spec = object.get("spec");
    if plural == "replicationcontrollers" {
        apply(REPLICATION_CONTROLLER, &spec);
        if spec.get("template").is_set() {
            apply(TEMPLATE, &spec);
        }
        return;
    }
    NotNegative.apply(&spec.get("replicas"));
    NotNegative.apply(&spec.get("minReadySeconds"));
    if plural == "statefulsets" {
        apply(TEMPLATE, &spec.with(&with_identity_of_pods(spec.value)));
    } else {
        apply(TEMPLATE, &spec);
    }
    apply(
        match plural {
            "deployments" => DEPLOYMENT,
            "statefulsets" => STATEFUL_SET,
            "daemonsets" => DAEMON_SET,
            _ => REPLICA_SET,
        },
        &spec,
    );
}

const MISMATCH: &str = "`selector` does not match template `labels`";

/// Checks that the selector is valid and matches the labels of the pod template.
fn selects(spec: &Field<'_>) {
    let (chosen, labels) = (spec.get("selector"), spec.get("template.metadata.labels"));
    let empty = |field: &str| chosen.get(field).is_empty();
    if !chosen.is_set() {
        return labels.invalid(MISMATCH);
    }
    if empty("matchLabels") && empty("matchExpressions") {
        return chosen.invalid("must not be empty");
    }
    let before = chosen.causes.borrow().len();
    selector(&chosen);
    if chosen.causes.borrow().len() > before {
        chosen.invalid("invalid label selector");
    } else if !matches_template(chosen.value, labels.value) {
        labels.invalid(MISMATCH);
    }
}

/// Checks that the selector of a replication controller matches the labels of its pod template. The selector is a map
/// of labels.
fn selects_labels(spec: &Field<'_>) {
    let labels = spec.get("template.metadata.labels");
    let mut wanted = spec.entries("selector");
    if spec.get("template").is_set() && wanted.any(|(key, value)| labels.value[key] != *value.value)
    {
        labels.invalid(MISMATCH);
    }
}

fn strategy(strategy: &Field<'_>) {
    let rolling = strategy.get("rollingUpdate");
    match strategy.text_of("type") {
        "Recreate" => Forbidden("may not be set when `type` is 'Recreate'").apply(&rolling),
        "RollingUpdate" => {
            let (out, more) = (rolling.get("maxUnavailable"), rolling.get("maxSurge"));
            count_or_percent(&out);
            count_or_percent(&more);
            if is_zero(&out) && is_zero(&more) {
                out.invalid("may not be 0 when `maxSurge` is 0");
            }
            at_most_all(&out);
        }
        _ => strategy.not_supported(&["Recreate", "RollingUpdate"]),
    }
}

fn deadline(spec: &Field<'_>) {
    let deadline = spec.get("progressDeadlineSeconds");
    let ready = spec.get("minReadySeconds").number().unwrap_or(0);
    if deadline.number().is_some_and(|seconds| seconds <= ready) {
        deadline.invalid("must be greater than minReadySeconds");
    }
}

fn is_zero(share: &Field<'_>) -> bool {
    *share.value == 0 || share.value == "0%"
}

fn management_policy(policy: &Field<'_>) {
    if policy.is_set() && !matches!(policy.text(), "OrderedReady" | "Parallel") {
        policy.invalid("must be 'OrderedReady' or 'Parallel'");
    }
}

fn stateful_strategy(strategy: &Field<'_>) {
    let rolling = strategy.get("rollingUpdate");
    match strategy.text_of("type") {
        "RollingUpdate" => NotNegative.apply(&rolling.get("partition")),
        "OnDelete" if rolling.is_set() => {
            rolling.invalid("only allowed for updateStrategy 'RollingUpdate'");
        }
        "OnDelete" => {}
        _ => strategy.invalid("must be 'RollingUpdate' or 'OnDelete'"),
    }
}

/// Returns the spec of a stateful set with a pod template as the controller uses it: the controller sets the host name
/// and the subdomain of each pod, and each claim template becomes a volume, in place of a volume with the same name.
fn with_identity_of_pods(spec: &Value) -> Value {
    let mut template = spec["template"].clone();
    if let Some(pod) = template.get_mut("spec").and_then(Value::as_object_mut) {
        pod.remove("hostname");
        pod.remove("subdomain");
        let claims = spec["volumeClaimTemplates"].as_array();
        for claim in claims.into_iter().flatten() {
            let name = claim["metadata"]["name"].as_str().unwrap_or_default();
            let volume = json!({"name": name, "persistentVolumeClaim": {"claimName": name}});
            let volumes = pod.entry("volumes").or_insert(Value::Null);
            if volumes.is_null() {
                *volumes = json!([]);
            }
            let Some(volumes) = volumes.as_array_mut() else {
                break;
            };
            match volumes.iter_mut().find(|known| known["name"] == name) {
                Some(same) => *same = volume,
                None => volumes.push(volume),
            }
        }
    }
    json!({"template": template})
}

/// Checks the fields that an update cannot change. An update may keep invalid values of these fields.
fn claim_templates(spec: &Field<'_>) {
    if spec.old.is_none() {
        OptionalText(text_rules::dns_label).apply(&spec.get("serviceName"));
        for template in spec.items("volumeClaimTemplates") {
            persistent_volume_claim::spec(&template.get("spec"));
        }
    }
}

/// Fields of a stateful set's spec that an update may change.
const FREE: [&str; 7] = [
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
];

fn only_free_fields_change(spec: &Field<'_>) {
    // A field with an empty text, such as `serviceName`, equals an absent field.
    let rest = |spec: &Value| {
        let mut rest = spec.clone();
        if let Some(fields) = rest.as_object_mut() {
            fields.retain(|name, value| !FREE.contains(&name.as_str()) && *value != "");
        }
        rest
    };
    if spec.old.is_some_and(|old| rest(old) != rest(spec.value)) {
        spec.forbidden(&format!(
            "only these fields may change: {}",
            FREE.join(", ")
        ));
    }
}

fn daemon_strategy(strategy: &Field<'_>) {
    match strategy.text_of("type") {
        "OnDelete" => {}
        "RollingUpdate" => {
            let rolling = strategy.get("rollingUpdate");
            let (out, more) = (rolling.get("maxUnavailable"), rolling.get("maxSurge"));
            for share in [&out, &more] {
                count_or_percent(share);
                at_most_all(share);
            }
            if is_zero(&out) && is_zero(&more) {
                out.required("cannot be 0 when maxSurge is 0");
            } else if !is_zero(&out) && more.is_set() && !is_zero(&more) {
                more.invalid("may not be set when maxUnavailable is non-zero");
            }
        }
        _ => strategy.not_supported(&["RollingUpdate", "OnDelete"]),
    }
}
