//! The texts of `berth drain` about a preview: the bindings that leave, those that stay, and the result.

use std::fmt::Write as _;

use berth_api::BindingKey;
use berth_plan::what_if::{Departure, DepartureOutcome, DepartureRole, DrainPreview};

use super::progress::Progress;
use crate::columns::{align, cell};
use crate::simulate::listed;

/// Maximum number of clusters in a cell.
const MAX_CLUSTERS: usize = 6;

/// Returns the tables of a preview, a summary, and notes.
pub(super) fn text(preview: &DrainPreview, cluster: &str) -> String {
    let rows: Vec<Vec<String>> = preview.departures.iter().filter_map(row).collect();
    let mut text = String::new();
    if !rows.is_empty() {
        text = align(&["BINDING", "REPLICAS", "TO"], &rows);
        text.push('\n');
    }
    let stays = stays(preview);
    if !stays.is_empty() {
        let _ = writeln!(text, "{stays}");
    }
    let _ = writeln!(text, "{}", summary(preview, cluster));
    for note in &preview.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}

/// Returns the row of a binding that leaves.
fn row(departure: &Departure) -> Option<Vec<String>> {
    let to = match &departure.outcome {
        DepartureOutcome::Moves { to } => listed(to, departure.replicas.is_some(), MAX_CLUSTERS),
        DepartureOutcome::Leaves => "other copies stay".to_owned(),
        DepartureOutcome::Follows | DepartureOutcome::Stays { .. } => return None,
    };
    Some(vec![
        departure.key.to_string(),
        cell(departure.replicas),
        to,
    ])
}

/// Returns the table of the bindings that stay, or an empty text.
fn stays(preview: &DrainPreview) -> String {
    let rows: Vec<Vec<String>> = preview
        .departures
        .iter()
        .filter_map(|departure| {
            let reason = departure.stays()?.to_owned();
            let key = departure.key.to_string();
            Some(vec![key, cell(departure.replicas), reason])
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    align(&["STAYS", "REPLICAS", "REASON"], &rows)
}

/// Returns the numbers of the bindings that can leave, follow and stay.
fn summary(preview: &DrainPreview, cluster: &str) -> String {
    if preview.departures.is_empty() && preview.already_leaving == 0 {
        return format!("no bindings are in {cluster}");
    }
    let count = |wanted: fn(&&Departure) -> bool| preview.departures.iter().filter(wanted).count();
    let of_role = |role| preview.movable(role).count();
    let (workloads, objects) = (
        of_role(DepartureRole::Workload),
        of_role(DepartureRole::Object),
    );
    let can_leave = workloads_and_objects(workloads, objects);
    let mut summary = format!(
        "{} can leave {cluster}",
        can_leave.as_deref().unwrap_or("no bindings")
    );
    if preview.already_leaving > 0 {
        let _ = write!(
            summary,
            "; {} already leaving",
            are(preview.already_leaving)
        );
    }
    match count(|one| one.outcome == DepartureOutcome::Follows) {
        0 => {}
        1 => summary.push_str("; 1 dependency follows its workloads"),
        several => {
            let _ = write!(summary, "; {several} dependencies follow their workloads");
        }
    }
    summary.push_str(&staying(preview));
    if preview.others > 0 {
        let others = counted(preview.others, "binding");
        let _ = write!(summary, "; {others} of other clusters would move as well");
    }
    summary
}

/// Returns the numbers of the bindings that stay, with a separator before them, or an empty text.
fn staying(preview: &DrainPreview) -> String {
    let workloads = preview.workloads_that_stay();
    let all = preview
        .departures
        .iter()
        .filter(|one| one.stays().is_some());
    let objects = all.count() - workloads;
    let verb = if workloads + objects == 1 {
        "stays"
    } else {
        "stay"
    };
    workloads_and_objects(workloads, objects)
        .map(|text| format!("; {text} {verb}"))
        .unwrap_or_default()
}

/// Returns numbers of workloads and other objects, or `None` if both are zero.
fn workloads_and_objects(workloads: usize, objects: usize) -> Option<String> {
    let workload_text = counted(workloads, "workload");
    let object_text = counted(objects, "other object");
    match (workloads, objects) {
        (0, 0) => None,
        (_, 0) => Some(workload_text),
        (0, _) => Some(object_text),
        (_, _) => Some(format!("{workload_text} and {object_text}")),
    }
}

/// Returns the beginning of a sentence about a number of bindings.
fn are(count: usize) -> String {
    match count {
        1 => "1 binding is".to_owned(),
        several => format!("{several} bindings are"),
    }
}

/// Returns a number and a noun.
fn counted(count: usize, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        _ => format!("{count} {noun}s"),
    }
}

/// Returns the text at the end of a drain. `first` is the preview before the drain, and `returned` are the evicted bindings that are in the cluster again.
pub(super) fn closing(
    first: &DrainPreview,
    preview: &DrainPreview,
    returned: &[BindingKey],
    cluster: &str,
    progress: &Progress,
) -> String {
    let mut text = String::new();
    let stays_now = stays(preview);
    if stays_now != stays(first) && !stays_now.is_empty() {
        let _ = writeln!(text, "\n{stays_now}");
    }
    for key in returned {
        let _ = writeln!(
            text,
            "{key} is in {cluster} again: its placement tolerates the taint of a cordoned member"
        );
    }
    let left = format!(
        "{} left {cluster} in {}",
        match progress.left() {
            1 => "1 binding has".to_owned(),
            several => format!("{several} bindings have"),
        },
        progress.elapsed()
    );
    let is_drained = preview.workloads_that_stay() == 0 && returned.is_empty();
    let beginning = match (is_drained, progress.left()) {
        (true, 0) => format!("{cluster} is drained: no bindings had to leave"),
        (true, _) => format!("{cluster} is drained: {left}"),
        (false, _) => format!("{cluster} is not drained: {left}"),
    };
    let _ = writeln!(text, "{beginning}{}", staying(preview));
    let _ = writeln!(
        text,
        "run `berth uncordon --bring-back {cluster}` after the maintenance"
    );
    text
}

#[cfg(test)]
mod tests;
