//! Validation of deployments, stateful sets, daemon sets, replica sets and replication controllers.

use serde_json::Value;

use super::field::Field;
use super::{claim, matches_template, pod, selector, template};
use crate::error::Cause;
use crate::names;

const NUMBERS: &[&str] = &["replicas", "minReadySeconds", "revisionHistoryLimit"];

/// Checks a workload of the apps group.
pub(super) fn workload(plural: &str, value: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let spec = Field::new(&value["spec"], "spec");
    // A stateful set with a negative limit keeps its whole history.
    let kept = |number: &&&str| plural != "statefulsets" || **number != "revisionHistoryLimit";
    for number in NUMBERS.iter().filter(kept) {
        spec.field(number).not_negative(causes);
    }
    selects(plural, &spec, old, causes);
    template(spec.field("template").value, "spec.template", causes);
    let pods = spec.field("template").field("spec");
    pods.field("restartPolicy").one_of(&["Always"], causes);
    let controller = match plural {
        "statefulsets" => "StatefulSet",
        "daemonsets" => "DaemonSet",
        _ => "ReplicaSet",
    };
    pod::of_controller(&pods, controller, causes);
    match plural {
        "deployments" => deployment(&spec, causes),
        "statefulsets" => stateful_set(&spec, old, causes),
        "daemonsets" => daemon_set(&spec, causes),
        _ => {}
    }
}

fn selects(plural: &str, spec: &Field<'_>, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let chosen = spec.field("selector");
    let labels = spec.field("template").field("metadata").field("labels");
    let is_empty = |field: &str| match &chosen.value[field] {
        Value::Object(map) => map.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => true,
    };
    let before = causes.len();
    if chosen.is_set() {
        selector::labels(&chosen, causes);
        if is_empty("matchLabels") && is_empty("matchExpressions") {
            let kind = plural.trim_end_matches('s');
            let detail = format!("empty selector is invalid for {kind}");
            chosen.invalid(&detail, causes);
        }
    } else if plural != "daemonsets" {
        chosen.required("", causes);
    }
    let well_formed = causes.len() == before;
    if well_formed || !chosen.is_set() {
        if !matches_template(chosen.value, labels.value) || !chosen.is_set() {
            let detail = "`selector` does not match template `labels`";
            labels.invalid(detail, causes);
        }
    } else if !(is_empty("matchLabels") && is_empty("matchExpressions")) {
        chosen.invalid("invalid label selector", causes);
    }
    let frozen = plural != "statefulsets";
    if old.is_some_and(|old| frozen && old["spec"]["selector"] != *chosen.value) {
        chosen.invalid("field is immutable", causes);
    }
}

/// Checks a replication controller, whose selector is a map of labels.
pub(super) fn replication_controller(value: &Value, causes: &mut Vec<Cause>) {
    let spec = Field::new(&value["spec"], "spec");
    spec.field("minReadySeconds").not_negative(causes);
    let chosen = spec.field("selector");
    let wanted = chosen.value.as_object().filter(|labels| !labels.is_empty());
    if wanted.is_none() {
        chosen.required("", causes);
    }
    spec.field("replicas").not_negative(causes);
    let pod_template = spec.field("template");
    if !pod_template.is_set() {
        pod_template.required("", causes);
        return;
    }
    let labels = pod_template.field("metadata").field("labels");
    if wanted.is_some_and(|wanted| wanted.iter().any(|(k, v)| labels.value[k] != *v)) {
        labels.invalid("`selector` does not match template `labels`", causes);
    }
    template(pod_template.value, "spec.template", causes);
    let pods = pod_template.field("spec");
    pods.field("restartPolicy").one_of(&["Always"], causes);
    pod::of_controller(&pods, "ReplicationController", causes);
}

fn deployment(spec: &Field<'_>, causes: &mut Vec<Cause>) {
    let strategy = spec.field("strategy");
    let rolling = strategy.field("rollingUpdate");
    match strategy.field("type").text() {
        "Recreate" => {
            if rolling.is_set() {
                let detail = "may not be specified when strategy `type` is 'Recreate'";
                rolling.forbidden(detail, causes);
            }
        }
        "RollingUpdate" => {
            let (out, more) = (rolling.field("maxUnavailable"), rolling.field("maxSurge"));
            out.count_or_percent(causes);
            more.count_or_percent(causes);
            if is_zero(&out) && is_zero(&more) {
                out.invalid("may not be 0 when `maxSurge` is 0", causes);
            }
            out.at_most_all(causes);
        }
        _ => {
            strategy.not_supported(&["Recreate", "RollingUpdate"], causes);
        }
    }
    let (deadline, ready) = (
        spec.field("progressDeadlineSeconds"),
        spec.field("minReadySeconds"),
    );
    deadline.not_negative(causes);
    if deadline
        .number()
        .is_some_and(|s| s <= ready.number().unwrap_or(0))
    {
        deadline.invalid("must be greater than minReadySeconds", causes);
    }
}

fn is_zero(share: &Field<'_>) -> bool {
    *share.value == 0 || share.value == "0%"
}

/// Fields of a stateful set that may change.
const FREE: [&str; 7] = [
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
];

/// Reports whether any other field differs. An empty name equals an absent one.
fn differs(spec: &Value, before: &Value) -> bool {
    let rest = |spec: &Value| {
        let mut rest = spec.clone();
        if let Some(fields) = rest.as_object_mut() {
            fields.retain(|name, value| !FREE.contains(&name.as_str()) && *value != "");
        }
        rest
    };
    rest(spec) != rest(before)
}

fn stateful_set(spec: &Field<'_>, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let policy = spec.field("podManagementPolicy");
    if policy.is_set() && !matches!(policy.text(), "OrderedReady" | "Parallel") {
        policy.invalid("must be 'OrderedReady' or 'Parallel'", causes);
    }
    let strategy = spec.field("updateStrategy");
    let rolling = strategy.field("rollingUpdate");
    match strategy.field("type").text() {
        "RollingUpdate" => rolling.field("partition").not_negative(causes),
        "OnDelete" => {
            if rolling.is_set() {
                let detail = "only allowed for updateStrategy 'RollingUpdate'";
                rolling.invalid(detail, causes);
            }
        }
        _ => {
            let detail = "must be 'RollingUpdate' or 'OnDelete'";
            strategy.invalid(detail, causes);
        }
    }
    let retention = spec.field("persistentVolumeClaimRetentionPolicy");
    for field in ["whenDeleted", "whenScaled"] {
        retention.field(field).one_of(&["Retain", "Delete"], causes);
    }
    spec.field("ordinals").field("start").not_negative(causes);
    if old.is_none() {
        spec.field("serviceName").optional(names::dns_label, causes);
    }
    for template in spec.items("volumeClaimTemplates") {
        claim::spec(&template.field("spec"), causes);
        // Each template becomes a volume of the pods.
        let name = &template.value["metadata"]["name"];
        let volumes = spec.field("template").field("spec").field("volumes");
        let volume = Field::new(name, format!("{}[0].name", volumes.path));
        volume.optional(names::dns_label, causes);
    }
    if old.is_some_and(|old| differs(spec.value, &old["spec"])) {
        let detail = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
                   'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and \
                   'minReadySeconds' are forbidden";
        spec.forbidden(detail, causes);
    }
}

fn daemon_set(spec: &Field<'_>, causes: &mut Vec<Cause>) {
    let strategy = spec.field("updateStrategy");
    match strategy.field("type").text() {
        "OnDelete" => {}
        "RollingUpdate" => {
            let rolling = strategy.field("rollingUpdate");
            let (out, more) = (rolling.field("maxUnavailable"), rolling.field("maxSurge"));
            for share in [&out, &more] {
                share.count_or_percent(causes);
                share.at_most_all(causes);
            }
            if is_zero(&out) && is_zero(&more) {
                out.required("cannot be 0 when maxSurge is 0", causes);
            } else if !is_zero(&out) && more.is_set() && !is_zero(&more) {
                more.invalid("may not be set when maxUnavailable is non-zero", causes);
            }
        }
        _ => {
            strategy.not_supported(&["RollingUpdate", "OnDelete"], causes);
        }
    }
}
