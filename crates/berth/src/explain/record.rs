//! The decision that the running scheduler recorded, beside the one that would be made now.

use berth_explain::{Origin, Report, Source};
use berth_scheduler::binding::Binding;
use berth_scheduler::decision_record::format::DecisionDetails;

/// Returns the recorded decision in the form of a report, with the one that would be made now; otherwise the latter, with
/// the reason why there is no record of use.
pub(crate) fn merge(
    now: Report,
    binding: &Binding,
    cluster: Option<&str>,
    record: Result<DecisionDetails, String>,
) -> Report {
    match usable(binding, cluster, record) {
        Ok((details, report)) => recorded(now, *details, *report),
        Err(reason) => Report {
            source: Some(Source {
                origin: Origin::Recomputed,
                reason: Some(reason),
                ..Source::default()
            }),
            ..now
        },
    }
}

type Usable = (Box<DecisionDetails>, Box<Report>);

fn usable(
    binding: &Binding,
    cluster: Option<&str>,
    record: Result<DecisionDetails, String>,
) -> Result<Usable, String> {
    let mut details = record?;
    if details.summary.uid != binding.metadata.uid {
        return Err("the scheduler's record is about an earlier binding of this name".to_owned());
    }
    let Some(report) = details.report.take() else {
        let time = &details.summary.time.0;
        let notes = details.notes.join("; ");
        return Err(format!("the scheduler decided at {time:.0}, but {notes}"));
    };
    if let Some(cluster) = cluster
        && report.cluster(cluster).is_none()
    {
        return Err(format!(
            "{cluster} did not exist when the scheduler decided"
        ));
    }
    Ok((Box::new(details), Box::new(report)))
}

fn recorded(now: Report, details: DecisionDetails, mut report: Report) -> Report {
    let (then, verdict) = (&report.verdict, now.verdict);
    let same_now = then.reason == verdict.reason
        && then.clusters == verdict.clusters
        && then.affinity == verdict.affinity;
    report.source = Some(Source {
        origin: Origin::Record,
        time: Some(format!("{:.0}", details.summary.time.0)),
        scheduler_name: Some(details.summary.scheduler_name),
        trigger: Some(details.summary.trigger),
        reason: None,
        same_now: Some(same_now),
        now: (!same_now).then_some(verdict),
    });
    if let Some(stored) = now.recorded {
        report = report.with_recorded(stored.clusters, stored.affinity, stored.condition);
    }
    // The search for changes starts from the present.
    report.fixes = now.fixes;
    for cluster in now.clusters {
        let mut all = report.clusters.iter_mut();
        if let Some(same) = all.find(|other| other.name == cluster.name)
            && same.stage != berth_core::Stage::Placed
        {
            same.fixes = cluster.fixes;
        }
    }
    let remark = details.summary.remark;
    report.notes = details.notes;
    report
        .notes
        .extend(remark.map(|remark| remark.trim_start_matches("; ").to_owned()));
    report.notes.extend(now.notes);
    report
}
