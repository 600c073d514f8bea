//! The checks of jobs and cron jobs.

use serde_json::Value;

use super::{not_negative, one_of, template};
use crate::error::Cause;

/// Numbers of a job that are at least zero.
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
    template(&spec["template"], &format!("{path}.template"), causes);
    if spec["template"]["spec"]["restartPolicy"] == "Always" {
        let detail = "valid values: \"OnFailure\", \"Never\"";
        let field = format!("{path}.template.spec.restartPolicy");
        causes.push(Cause::required(field, detail));
    }
}

pub(super) fn job(value: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let spec = &value["spec"];
    job_spec(spec, "spec", causes);
    let Some(old) = old else { return };
    let suspended = old["spec"]["suspend"] == true;
    let indexed = spec["completionMode"] == "Indexed";
    for (field, frozen) in [
        ("completions", !indexed),
        ("selector", true),
        ("template", !suspended),
        ("completionMode", true),
    ] {
        if frozen && old["spec"][field] != spec[field] {
            causes.push(Cause::invalid(
                format!("spec.{field}"),
                &spec[field],
                "field is immutable",
            ));
        }
    }
}

pub(super) fn cron_job(spec: &Value, causes: &mut Vec<Cause>) {
    const NUMBERS: &[&str] = &[
        "startingDeadlineSeconds",
        "successfulJobsHistoryLimit",
        "failedJobsHistoryLimit",
    ];
    let schedule = spec["schedule"].as_str().unwrap_or_default();
    if schedule.is_empty() {
        causes.push(Cause::required("spec.schedule", ""));
    } else if let Some(problem) = schedule_problem(schedule) {
        causes.push(Cause::invalid("spec.schedule", &spec["schedule"], &problem));
    }
    if spec["timeZone"] == "" {
        let detail = "timeZone must be nil or non-empty string";
        causes.push(Cause::invalid("spec.timeZone", &spec["timeZone"], detail));
    }
    let policies = ["Allow", "Forbid", "Replace"];
    one_of(
        &spec["concurrencyPolicy"],
        "spec.concurrencyPolicy",
        &policies,
        causes,
    );
    not_negative(spec, "spec", NUMBERS, causes);
    job_spec(
        &spec["jobTemplate"]["spec"],
        "spec.jobTemplate.spec",
        causes,
    );
}

/// What can be told of a schedule without understanding its fields.
fn schedule_problem(schedule: &str) -> Option<String> {
    if schedule.contains("TZ") {
        let why = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
        return Some(why.to_owned());
    }
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    (!schedule.starts_with('@') && fields.len() != 5).then(|| {
        format!(
            "expected exactly 5 fields, found {}: [{}]",
            fields.len(),
            fields.join(" ")
        )
    })
}
