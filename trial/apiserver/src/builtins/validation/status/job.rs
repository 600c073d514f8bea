//! Validation of the status of jobs. Most rules apply only to fields that the update changes, so that a status that
//! was stored by an older server can still be updated.

use jiff::Timestamp;
use serde_json::Value;

use crate::error::Cause;

use super::super::field::Field;

/// A status of a job, before or after the update.
struct Status<'a>(&'a Value);

impl Status<'_> {
    fn is(&self, kind: &str) -> bool {
        self.has(kind, "True")
    }

    fn has(&self, kind: &str, status: &str) -> bool {
        let mut conditions = self.0["conditions"].as_array().into_iter().flatten();
        conditions.any(|condition| condition["type"] == kind && condition["status"] == status)
    }

    fn is_finished(&self) -> bool {
        self.is("Complete") || self.is("Failed")
    }

    fn count(&self, field: &str) -> i64 {
        self.0[field].as_i64().unwrap_or(0)
    }

    fn time(&self, field: &str) -> Option<Timestamp> {
        self.0[field].as_str()?.parse().ok()
    }

    fn uncounted(&self) -> usize {
        let pods = &self.0["uncountedTerminatedPods"];
        let lists = ["succeeded", "failed"].map(|list| pods[list].as_array().map_or(0, Vec::len));
        lists.iter().sum()
    }
}

/// Checks an update of the status of a job.
pub(super) fn status(job: &Field<'_>) {
    let status = job.get("status");
    let new = Status(status.value);
    let old = Status(status.old.unwrap_or(&Value::Null));
    conditions(&new, &old, &status);
    counters(&new, &old, job);
    times(&new, &old, job);
    uncounted_pods(&new, &old, &status);
    indexes(job);
}

fn conditions(new: &Status<'_>, old: &Status<'_>, status: &Field<'_>) {
    let changed = |kind: &str| new.is(kind) != old.is(kind);
    let report = |detail: &str| {
        status.report(Cause::invalid_unshown("status.conditions", detail));
    };
    let (complete, failed) = (new.is("Complete"), new.is("Failed"));
    let (failing, succeeding) = (new.is("FailureTarget"), new.is("SuccessCriteriaMet"));
    if (changed("Complete") || changed("Failed")) && complete && failed {
        report("cannot set Complete=True and Failed=true conditions");
    }
    if (changed("Complete") || changed("FailureTarget")) && complete && failing {
        report("cannot set Complete=True and FailureTarget=true conditions");
    }
    if changed("Failed") && failed && !failing {
        report("cannot set Failed=True condition without the FailureTarget=true condition");
    }
    if (changed("Complete") || changed("SuccessCriteriaMet")) && complete && !succeeding {
        report("cannot set Complete=True condition without the SuccessCriteriaMet=true condition");
    }
    if succeeding && failed {
        report("cannot set SuccessCriteriaMet=True and Failed=true conditions");
    }
    if succeeding && failing {
        report("cannot set SuccessCriteriaMet=True and FailureTarget=true conditions");
    }
    for kind in ["Failed", "Complete", "FailureTarget", "SuccessCriteriaMet"] {
        if old.is(kind) && !new.is(kind) {
            report(&format!(
                "cannot disable the terminal {kind}=True condition"
            ));
        }
    }
    if old.is("Complete") && !old.is("SuccessCriteriaMet") && succeeding {
        report("cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions");
    }
}

fn counters(new: &Status<'_>, old: &Status<'_>, job: &Field<'_>) {
    let status = job.get("status");
    let finishes = new.is_finished() && !old.is_finished();
    let changed = |field: &str| status.value[field] != old.0[field];
    // A changed counter of a finished job is refused even if the job finished earlier.
    for field in ["active", "terminating"] {
        if new.is_finished() && new.count(field) > 0 && (finishes || changed(field)) {
            let detail = format!("{field}>0 is invalid for finished job");
            status.get(field).invalid(&detail);
        }
    }
    let ready = status.get("ready");
    if (changed("ready") || changed("active")) && new.count("ready") > new.count("active") {
        ready.invalid("cannot set more ready pods than active");
    }
    let spec = &job.value["spec"];
    let is_elastic =
        spec["completionMode"] == "Indexed" && spec["completions"] == spec["parallelism"];
    for (field, may_decrease) in [("failed", false), ("succeeded", is_elastic)] {
        if !may_decrease && new.count(field) < old.count(field) {
            let detail = format!("cannot decrease the {field} counter");
            status.get(field).invalid(&detail);
        }
    }
}

fn times(new: &Status<'_>, old: &Status<'_>, job: &Field<'_>) {
    let status = job.get("status");
    let spec = &job.value["spec"];
    let (start, end) = (status.get("startTime"), status.get("completionTime"));
    let changed = |field: &str| new.time(field) != old.time(field);
    let (start_changed, end_changed) = (changed("startTime"), changed("completionTime"));
    let finish_changed = new.is_finished() != old.is_finished();
    let complete_changed = new.is("Complete") != old.is("Complete");
    if complete_changed || end_changed {
        if end.is_set() && !new.is("Complete") {
            end.invalid("cannot set completionTime when there is no Complete=True condition");
        }
        if !end.is_set() && new.is("Complete") {
            end.required("completionTime is required for Complete jobs");
        }
    }
    let is_reversed = new.time("completionTime") < new.time("startTime");
    if (start_changed || end_changed) && end.is_set() && is_reversed {
        end.invalid("must be equal to or after `startTime`");
    }
    let is_empty = spec["suspend"] == true && spec["completions"] == 0;
    if (finish_changed || start_changed) && new.is_finished() && !start.is_set() && !is_empty {
        start.required("startTime is required for finished job");
    }
    if end_changed && end.is_set() && old.time("completionTime").is_some() {
        end.invalid("field is immutable");
    }
    let resumes = old.is("Suspended") && new.has("Suspended", "False");
    let was_started = old.time("startTime").is_some();
    if start_changed && was_started && spec["suspend"] != true && !resumes {
        start.invalid("field is immutable for unsuspended job once set");
    }
}

fn uncounted_pods(new: &Status<'_>, old: &Status<'_>, status: &Field<'_>) {
    let pods = status.get("uncountedTerminatedPods");
    let mut known = Vec::new();
    for pod in pods.items("succeeded").chain(pods.items("failed")) {
        if pod.is_empty() {
            pod.invalid("must not be empty");
        } else if known.contains(&pod.text()) {
            pod.duplicate();
        }
        known.push(pod.text());
    }
    let changed = new.is_finished() != old.is_finished() || pods.old != Some(pods.value);
    if changed && new.is_finished() && new.uncounted() > 0 {
        pods.invalid("must be empty for finished job");
    }
}

/// Checks the lists of indexes, such as `1,3-5`.
fn indexes(job: &Field<'_>) {
    let spec = &job.value["spec"];
    let status = job.get("status");
    let (completed, failed) = (status.get("completedIndexes"), status.get("failedIndexes"));
    let changed = |list: &Field<'_>| list.old.unwrap_or(&Value::Null) != list.value;
    let completions = spec["completions"].as_i64();
    if changed(&completed) && !completed.is_empty() {
        if spec["completionMode"] != "Indexed" {
            completed
                .invalid("cannot set non-empty completedIndexes when non-indexed completion mode");
        }
        if let Some(Err(problem)) = completions.map(|most| intervals(completed.text(), most)) {
            completed.invalid(&format!("error parsing completedIndexes: {problem}"));
        }
    }
    if changed(&failed) && failed.is_set() {
        if spec["backoffLimitPerIndex"].is_null() {
            failed.invalid("cannot set non-null failedIndexes when backoffLimitPerIndex is null");
        } else if let Some(Err(problem)) = completions.map(|most| intervals(failed.text(), most)) {
            failed.invalid(&format!("error parsing failedIndexes: {problem}"));
        }
    }
    if let Some(most) = completions
        && (changed(&completed) || changed(&failed))
        && let (Ok(done), Ok(lost)) = (
            intervals(completed.text(), most),
            intervals(failed.text(), most),
        )
    {
        let overlap =
            |(first, last): &(i64, i64)| done.iter().any(|(from, to)| from <= last && first <= to);
        if lost.iter().any(overlap) {
            failed.invalid("failedIndexes and completedIndexes overlap");
        }
    }
}

/// Returns the intervals in a list of indexes, or the problem of a malformed list.
fn intervals(list: &str, completions: i64) -> Result<Vec<(i64, i64)>, String> {
    let mut all: Vec<(i64, i64)> = Vec::new();
    for part in list.split(',').filter(|_| !list.is_empty()) {
        let (start, end) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| {
            let number = text.parse::<i64>();
            number.map_err(|_| format!("cannot convert string to integer for index: {text:?}"))
        };
        let (start, end) = (number(start)?, number(end)?);
        if start.max(end) >= completions {
            return Err(format!("too large index: {part:?}"));
        }
        let before = all.last().map(|(_, end)| *end);
        if before.is_some_and(|before| before >= start) || end < start {
            return Err(format!("non-increasing order at {part:?}"));
        }
        all.push((start, end));
    }
    Ok(all)
}
