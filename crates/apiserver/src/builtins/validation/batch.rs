//! Validation of jobs and cron jobs.

use serde_json::{Value, json};

use super::field::Field;
use super::{matches_template, not_negative, one_of, schedule, template};
use crate::error::Cause;

/// Numbers of a job that cannot be negative.
const NUMBERS: &[&str] = &[
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
];

fn job_spec(spec: &Value, path: &str, causes: &mut Vec<Cause>) {
    not_negative(spec, path, NUMBERS, causes);
    one_of(
        &spec["completionMode"],
        &format!("{path}.completionMode"),
        &["NonIndexed", "Indexed"],
        causes,
    );
    indexes(spec, path, causes);
    let replacement = format!("{path}.podReplacementPolicy");
    let policies = ["Failed", "TerminatingOrFailed"];
    one_of(
        &spec["podReplacementPolicy"],
        &replacement,
        &policies,
        causes,
    );
    failures(spec, path, causes);
    template(&spec["template"], &format!("{path}.template"), causes);
    let restart = &spec["template"]["spec"]["restartPolicy"];
    let field = format!("{path}.template.spec.restartPolicy");
    if restart == "Always" || restart.is_null() {
        let detail = "valid values: \"OnFailure\", \"Never\"";
        causes.push(Cause::required(field, detail));
    } else {
        one_of(restart, &field, &["OnFailure", "Never"], causes);
    }
}

/// The label by which a job selects its pods, and all labels that identify the job.
const OWN: &str = "batch.kubernetes.io/controller-uid";
const LABELS: [(&str, &str); 4] = [
    ("controller-uid", "uid"),
    ("job-name", "name"),
    (OWN, "uid"),
    ("batch.kubernetes.io/job-name", "name"),
];

/// Checks that a job has the generated selector, unless it sets `manualSelector`.
fn selects(job: &Value, creating: bool, causes: &mut Vec<Cause>) {
    let spec = Field::new(&job["spec"], "spec");
    let selector = spec.field("selector");
    let labels = spec.field("template").field("metadata").field("labels");
    if !creating || spec.value["manualSelector"] == true {
        if !selector.is_set() {
            selector.required("", causes);
        }
    } else {
        for (label, field) in LABELS {
            let wanted = &job["metadata"][field];
            if labels.value[label] != *wanted {
                let detail = format!("must be '{}'", wanted.as_str().unwrap_or_default());
                let label = Field::new(labels.value, format!("{}[{label}]", labels.path));
                label.invalid(&detail, causes);
            }
        }
        if *selector.value != json!({"matchLabels": {OWN: job["metadata"]["uid"]}}) {
            selector.invalid("`selector` not auto-generated", causes);
        }
    }
    if !selector.is_set() || !matches_template(selector.value, labels.value) {
        let detail = "`selector` does not match template `labels`";
        labels.invalid(detail, causes);
    }
}

/// Maximum parallelism of an indexed job.
const MOST_INDEXED: i64 = 100_000;

/// Checks the fields of indexed jobs.
fn indexes(spec: &Value, path: &str, causes: &mut Vec<Cause>) {
    let most = &spec["maxFailedIndexes"];
    if !most.is_null() && spec["backoffLimitPerIndex"].is_null() {
        let field = format!("{path}.backoffLimitPerIndex");
        causes.push(Cause::required(field, "when maxFailedIndexes is specified"));
    }
    if spec["completionMode"] == "Indexed" {
        if spec["completions"].is_null() {
            let detail = "when completion mode is Indexed";
            causes.push(Cause::required(format!("{path}.completions"), detail));
        }
        let parallel = spec["parallelism"].as_i64();
        if let Some(parallel) = parallel.filter(|parallel| *parallel > MOST_INDEXED) {
            let detail = format!(
                "must be less than or equal to {MOST_INDEXED} when completion mode is Indexed"
            );
            causes.push(Cause::invalid(
                format!("{path}.parallelism"),
                &json!(parallel),
                &detail,
            ));
        }
        if let (Some(most), Some(all)) = (most.as_i64(), spec["completions"].as_i64())
            && most > all
        {
            let detail = "must be less than or equal to completions";
            causes.push(Cause::invalid(
                format!("{path}.maxFailedIndexes"),
                &json!(most),
                detail,
            ));
        }
        return;
    }
    let detail = "requires indexed completion mode";
    for field in ["backoffLimitPerIndex", "maxFailedIndexes"] {
        if !spec[field].is_null() {
            causes.push(Cause::invalid(
                format!("{path}.{field}"),
                &spec[field],
                detail,
            ));
        }
    }
    if let Some(rules) = spec["successPolicy"].get("rules") {
        Field::new(rules, format!("{path}.successPolicy")).invalid(detail, causes);
    }
}

/// Checks the exit codes of a failure rule.
fn exit_codes(codes: &Value, path: &str, causes: &mut Vec<Cause>) {
    if !codes.is_object() {
        return;
    }
    let codes = Field::new(codes, path);
    let operator = codes.field("operator");
    if operator.text().is_empty() {
        operator.required("valid values: [\"In\" \"NotIn\"]", causes);
    } else {
        operator.one_of(&["In", "NotIn"], causes);
    }
    if codes.field("values").count() == 0 {
        codes
            .field("values")
            .invalid("at least one value is required", causes);
    }
}

/// Checks the pod failure policy.
fn failures(spec: &Value, path: &str, causes: &mut Vec<Cause>) {
    let rules = spec["podFailurePolicy"]["rules"].as_array();
    for (i, rule) in rules.into_iter().flatten().enumerate() {
        let at = format!("{path}.podFailurePolicy.rules[{i}]");
        let actions = ["Count", "FailIndex", "FailJob", "Ignore"];
        let action = format!("{at}.action");
        if rule["action"].as_str().is_none_or(str::is_empty) {
            causes.push(Cause::required(
                action,
                "valid values: [\"Count\" \"FailIndex\" \"FailJob\" \"Ignore\"]",
            ));
        } else {
            one_of(&rule["action"], &action, &actions, causes);
        }
        exit_codes(&rule["onExitCodes"], &format!("{at}.onExitCodes"), causes);
        let given = |field: &str| {
            rule[field].as_array().is_some_and(|l| !l.is_empty()) || rule[field].is_object()
        };
        if !given("onExitCodes") && !given("onPodConditions") {
            let detail = "specifying one of OnExitCodes and OnPodConditions is required";
            causes.push(Cause::invalid_unshown(at, detail));
        }
    }
}

pub(super) fn job(value: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let spec = &value["spec"];
    job_spec(spec, "spec", causes);
    let manager = Field::new(&spec["managedBy"], "spec.managedBy");
    if manager.is_set() {
        manager.domain_path(causes);
    }
    selects(value, old.is_none(), causes);
    let Some(old) = old else {
        return;
    };
    let tandem = spec["completions"] == spec["parallelism"];
    if spec["completionMode"] == "Indexed"
        && old["spec"]["completions"] != spec["completions"]
        && !tandem
    {
        let detail = "can only be modified in tandem with spec.parallelism";
        causes.push(Cause::invalid(
            "spec.completions",
            &spec["completions"],
            detail,
        ));
    }
    let suspended = old["spec"]["suspend"] == true;
    let indexed = spec["completionMode"] == "Indexed";
    for (field, frozen) in [
        ("completions", !indexed),
        ("selector", true),
        ("template", !suspended),
        ("completionMode", true),
        ("podFailurePolicy", true),
        ("backoffLimitPerIndex", true),
        ("managedBy", true),
        ("successPolicy", true),
    ] {
        if frozen && old["spec"][field] != spec[field] {
            Field::new(&spec[field], format!("spec.{field}")).invalid("field is immutable", causes);
        }
    }
}

/// Numbers of a cron job that cannot be negative.
const LIMITS: &[&str] = &[
    "startingDeadlineSeconds",
    "successfulJobsHistoryLimit",
    "failedJobsHistoryLimit",
];
/// Maximum length of the name of a cron job, whose jobs append a number.
const LONGEST_NAME: usize = 52;

pub(super) fn cron_job(value: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let spec = &value["spec"];
    let name = value["metadata"]["name"].as_str().unwrap_or_default();
    if old.is_none() && name.len() > LONGEST_NAME {
        let detail = format!("must be no more than {LONGEST_NAME} characters");
        causes.push(Cause::invalid("metadata.name", &json!(name), &detail));
    }
    let schedule = spec["schedule"].as_str().unwrap_or_default();
    if schedule.is_empty() {
        causes.push(Cause::required("spec.schedule", ""));
    } else if let Some(problem) = schedule::problem(schedule) {
        causes.push(Cause::invalid("spec.schedule", &spec["schedule"], &problem));
    }
    if let Some(zone) = spec["timeZone"].as_str() {
        for problem in schedule::zone_problems(zone) {
            causes.push(Cause::invalid("spec.timeZone", &spec["timeZone"], &problem));
        }
    }
    let policies = ["Allow", "Forbid", "Replace"];
    one_of(
        &spec["concurrencyPolicy"],
        "spec.concurrencyPolicy",
        &policies,
        causes,
    );
    not_negative(spec, "spec", LIMITS, causes);
    job_spec(
        &spec["jobTemplate"]["spec"],
        "spec.jobTemplate.spec",
        causes,
    );
}
