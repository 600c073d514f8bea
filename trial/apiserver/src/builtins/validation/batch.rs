//! Validation of jobs and cron jobs.

use cronexpr::{FallbackTimezoneOption, ParseOptions};
use serde_json::json;

use super::field::Field;
use super::rules::Check::{
    Between, By, IfSet, Immutable, NotNegative, OneOf, Present, Required, RequiredOneOf,
};
use super::rules::{Rule, apply};
use super::{matches_template, pod};
use crate::go_text;

pub(super) const JOB: &[Rule] = &[
    ("spec", By(|spec| apply(SPEC, spec))),
    ("", By(selects)),
    ("spec", By(completions_stay)),
    ("spec", By(template_stays)),
    (
        "spec.selector spec.completionMode spec.podFailurePolicy spec.backoffLimitPerIndex spec.managedBy \
         spec.successPolicy",
        Immutable,
    ),
];

pub(super) const CRON_JOB: &[Rule] = &[
    ("metadata.name", By(cron_name)),
    ("spec.schedule", Required),
    ("spec.schedule", By(schedule)),
    ("spec.timeZone", By(time_zone)),
    (
        "spec.concurrencyPolicy",
        OneOf(&["Allow", "Forbid", "Replace"]),
    ),
    (
        "spec.startingDeadlineSeconds spec.successfulJobsHistoryLimit spec.failedJobsHistoryLimit",
        NotNegative,
    ),
    ("spec.jobTemplate.spec", By(|spec| apply(SPEC, spec))),
];

const SPEC: &[Rule] = &[
    (
        "parallelism completions activeDeadlineSeconds backoffLimit ttlSecondsAfterFinished",
        NotNegative,
    ),
    ("completionMode", OneOf(&["NonIndexed", "Indexed"])),
    (
        "podReplacementPolicy",
        OneOf(&["Failed", "TerminatingOrFailed"]),
    ),
    ("", By(indexes)),
    (
        "podFailurePolicy.rules[].action",
        RequiredOneOf(&["Count", "FailIndex", "FailJob", "Ignore"]),
    ),
    (
        "podFailurePolicy.rules[].onExitCodes",
        IfSet(&[("operator", RequiredOneOf(&["In", "NotIn"]))]),
    ),
    ("", By(containers_of_failure_policy)),
    ("template", By(pod::template)),
    ("template.spec.restartPolicy", By(restart_policy)),
];

const INDEXED: &[Rule] = &[
    ("completions", Present),
    ("parallelism", Between(i64::MIN, 100_000)),
];

fn restart_policy(policy: &Field<'_>) {
    if !policy.is_set() || policy.text() == "Always" {
        policy.required("must be OnFailure or Never");
    } else {
        OneOf(&["OnFailure", "Never"]).apply(policy);
    }
}

/// Checks that the rules about exit codes name containers of the pod template.
fn containers_of_failure_policy(spec: &Field<'_>) {
    let pod = spec.get("template.spec");
    for rule in spec.items("podFailurePolicy.rules") {
        let name = rule.get("onExitCodes.containerName");
        if name.is_set() && !pod::has_container(&pod, name.text()) {
            name.invalid("must be one of the container or initContainer names in the pod template");
        }
    }
}

/// Checks the fields that an indexed job needs. In other jobs, checks that the fields for indexed jobs are absent.
fn indexes(spec: &Field<'_>) {
    if spec.text_of("completionMode") == "Indexed" {
        return apply(INDEXED, spec);
    }
    let success = spec.get("successPolicy");
    let rules = success.get("rules").reported_at(success.path.as_str());
    for field in [
        spec.get("backoffLimitPerIndex"),
        spec.get("maxFailedIndexes"),
        rules,
    ] {
        if field.is_set() {
            field.invalid("requires indexed completion mode");
        }
    }
}

/// The label by which a job selects its pods. [`LABELS`] contains all labels that identify the job, each with the
/// metadata field of its value.
const OWN: &str = "batch.kubernetes.io/controller-uid";
const LABELS: [(&str, &str); 4] = [
    ("controller-uid", "uid"),
    ("job-name", "name"),
    (OWN, "uid"),
    ("batch.kubernetes.io/job-name", "name"),
];

/// Checks that the selector and the labels of a new job are the generated ones, unless the job sets `manualSelector`.
fn selects(job: &Field<'_>) {
    let selector = job.get("spec.selector");
    let labels = job.get("spec.template.metadata.labels");
    let meta = &job.value["metadata"];
    if job.old.is_some() || job.value["spec"]["manualSelector"] == true {
        Present.apply(&selector);
    } else {
        for (label, field) in LABELS {
            if labels.value[label] != meta[field] {
                let detail = format!("must be {}", meta[field]);
                labels.entry(label, labels.value).invalid(&detail);
            }
        }
        if *selector.value != json!({"matchLabels": {OWN: meta["uid"]}}) {
            selector.invalid("`selector` not auto-generated");
        }
    }
    if !selector.is_set() || !matches_template(selector.value, labels.value) {
        labels.invalid("`selector` does not match template `labels`");
    }
}

/// Checks that `completions` does not change, except in an indexed job whose `completions` and `parallelism` are equal.
fn completions_stay(spec: &Field<'_>) {
    let completions = spec.get("completions");
    let in_tandem = completions.value == spec.get("parallelism").value;
    if spec.text_of("completionMode") != "Indexed" || !in_tandem {
        Immutable.apply(&completions);
    }
}

/// Checks that the pod template changes only in a suspended job.
fn template_stays(spec: &Field<'_>) {
    if spec.old.is_some_and(|old| old["suspend"] != true) {
        Immutable.apply(&spec.get("template"));
    }
}

fn cron_name(name: &Field<'_>) {
    /// Maximum length of the name of a cron job. The names of its jobs are this name and a number.
    const LONGEST: usize = 52;
    if name.old.is_none() && name.text().len() > LONGEST {
        name.invalid(&format!("must be no more than {LONGEST} characters"));
    }
}

const DESCRIPTORS: [&str; 7] = [
    "@yearly",
    "@annually",
    "@monthly",
    "@weekly",
    "@daily",
    "@midnight",
    "@hourly",
];

fn schedule(schedule: &Field<'_>) {
    let text = schedule.text();
    let mut options = ParseOptions::default();
    options.fallback_timezone_option = FallbackTimezoneOption::UTC;
    let is_valid = match text.strip_prefix("@every ") {
        Some(every) => go_text::duration(every).is_ok(),
        None if text.starts_with('@') => DESCRIPTORS.contains(&text),
        // `cronexpr` accepts a sixth field with a time zone, which is not valid in a schedule.
        None => {
            text.split_whitespace().count() == 5
                && cronexpr::parse_crontab_with(&text.replace('?', "*"), options).is_ok()
        }
    };
    if !text.is_empty() && !is_valid {
        schedule.invalid(
            "must have five fields, or be a descriptor such as @daily; use timeZone for the zone",
        );
    }
}

/// Checks that a time zone exists. If the host has no time zone database, every name is accepted.
fn time_zone(zone: &Field<'_>) {
    let (zones, name) = (jiff::tz::db(), zone.text());
    let is_known = name == "UTC"
        || !name.is_empty() && zones.available().next().is_none()
        || zones
            .get(name)
            .is_ok_and(|found| found.iana_name() == Some(name));
    if zone.is_set() && !is_known {
        zone.invalid("must be a time zone as defined in https://www.iana.org/time-zones");
    }
}
