//! Validation of jobs and cron jobs.

use serde_json::json;

use super::checks::domain_path;
use super::field::Field;
use super::rules::Check::{
    Between, By, IfSet, Immutable, NotNegative, OneOf, Present, Required, RequiredOneOf,
};
use super::rules::{Rule, apply};
use super::{matches_template, pod, schedule};

pub(super) const JOB: &[Rule] = &[
    ("spec", By(job_spec)),
    ("spec.managedBy", IfSet(&[("", By(domain_path))])),
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
    ("spec.schedule", By(cron_schedule)),
    ("spec.timeZone", By(time_zone)),
    (
        "spec.concurrencyPolicy",
        OneOf(&["Allow", "Forbid", "Replace"]),
    ),
    (
        "spec.startingDeadlineSeconds spec.successfulJobsHistoryLimit spec.failedJobsHistoryLimit",
        NotNegative,
    ),
    ("spec.jobTemplate.spec", By(job_spec)),
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
    ("podFailurePolicy.rules[]", By(failure_rule)),
    ("template", By(pod::template)),
    ("template.spec.restartPolicy", By(restart_policy)),
];

const INDEXED: &[Rule] = &[
    ("completions", Present),
    ("parallelism", Between(i64::MIN, 100_000)),
];

fn job_spec(spec: &Field<'_>) {
    apply(SPEC, spec);
    if spec.get("maxFailedIndexes").is_set() {
        Present.apply(&spec.get("backoffLimitPerIndex"));
    }
}

fn restart_policy(policy: &Field<'_>) {
    if !policy.is_set() || policy.text() == "Always" {
        policy.required("must be OnFailure or Never");
    } else {
        OneOf(&["OnFailure", "Never"]).apply(policy);
    }
}

/// Checks the fields of indexed jobs.
fn indexes(spec: &Field<'_>) {
    let most = spec.get("maxFailedIndexes");
    if spec.text_of("completionMode") == "Indexed" {
        apply(INDEXED, spec);
        let all = spec.get("completions").number();
        if most.number().zip(all).is_some_and(|(most, all)| most > all) {
            most.invalid("must be less than or equal to completions");
        }
        return;
    }
    let success = spec.get("successPolicy");
    let rules = success.get("rules").reported_at(success.path.as_str());
    for field in [spec.get("backoffLimitPerIndex"), most, rules] {
        if field.is_set() {
            field.invalid("requires indexed completion mode");
        }
    }
}

/// Checks a rule of the pod failure policy.
fn failure_rule(rule: &Field<'_>) {
    const RULE: &[Rule] = &[
        (
            "action",
            RequiredOneOf(&["Count", "FailIndex", "FailJob", "Ignore"]),
        ),
        (
            "onExitCodes",
            IfSet(&[
                ("operator", RequiredOneOf(&["In", "NotIn"])),
                ("values", By(exit_codes)),
            ]),
        ),
    ];
    apply(RULE, rule);
    if !rule.get("onExitCodes").is_set() && rule.get("onPodConditions").is_empty() {
        rule.invalid("one of onExitCodes and onPodConditions is required");
    }
}

fn exit_codes(values: &Field<'_>) {
    if values.count() == 0 {
        values.invalid("at least one value is required");
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
fn selects(job: &Field<'_>) {
    let (selector, labels) = (
        job.get("spec.selector"),
        job.get("spec.template.metadata.labels"),
    );
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

/// Checks that completions stay, or change together with the parallelism of an indexed job.
fn completions_stay(spec: &Field<'_>) {
    let completions = spec.get("completions");
    let in_tandem = completions.value == spec.get("parallelism").value;
    if spec.text_of("completionMode") != "Indexed" || !in_tandem {
        Immutable.apply(&completions);
    }
}

/// Checks that the template changes only while the job is suspended.
fn template_stays(spec: &Field<'_>) {
    if spec.old.is_some_and(|old| old["suspend"] != true) {
        Immutable.apply(&spec.get("template"));
    }
}

fn cron_name(name: &Field<'_>) {
    /// Maximum length of the name of a cron job, whose jobs append a number.
    const LONGEST: usize = 52;
    if name.old.is_none() && name.text().len() > LONGEST {
        name.invalid(&format!("must be no more than {LONGEST} characters"));
    }
}

fn cron_schedule(schedule: &Field<'_>) {
    if !schedule.is_empty() && !schedule::is_valid(schedule.text()) {
        schedule.invalid(
            "must have five fields, or be a descriptor such as @daily; use timeZone for the zone",
        );
    }
}

fn time_zone(zone: &Field<'_>) {
    if zone.is_set() && !schedule::is_zone(zone.text()) {
        zone.invalid("must be a time zone as defined in https://www.iana.org/time-zones");
    }
}
