//! The report of `berth explain` with the running scheduler's record: the recorded report plus the current result, or,
//! without a usable record, the current report with the reason.

use berth_api::{Binding, BindingKey};
use berth_explain::{DecisionSource, Report, SourceKind};
use berth_scheduler::debug_api::{ActiveConfiguration, DecisionDetails};

use crate::scheduler_endpoint::{SchedulerEndpoint, SchedulerEndpointError};

/// A running scheduler's record of its decision about a binding.
#[derive(Debug)]
pub struct SchedulerRecord {
    /// The recorded decision, or the reason why there is none.
    pub(super) decision: Result<DecisionDetails, String>,
    /// URL and configuration of the scheduler. `None` if no scheduler was asked, or none answered.
    pub scheduler: Option<(String, ActiveConfiguration)>,
}

impl SchedulerRecord {
    /// Returns an empty record with the reason why there is none.
    pub fn absent(reason: impl Into<String>) -> Self {
        Self {
            decision: Err(reason.into()),
            scheduler: None,
        }
    }

    /// Reads the scheduler's record of a binding, and the configuration of the scheduler.
    ///
    /// # Errors
    /// Fails if the scheduler does not respond, or responds with an error.
    pub async fn read(
        endpoint: &SchedulerEndpoint,
        key: &BindingKey,
    ) -> Result<Self, SchedulerEndpointError> {
        let (decision, active) = (
            endpoint.decision(key).await?,
            endpoint.configuration().await?,
        );
        let url = endpoint.url().to_owned();
        Ok(Self {
            decision: decision.ok_or_else(|| format!("the scheduler at {url} has no record of it")),
            scheduler: Some((url, active)),
        })
    }
}

/// Returns the recorded report, with the result of the current decision added. Without a usable record, returns the
/// current report (`now`) with the reason.
pub(crate) fn merge(
    now: Report,
    binding: &Binding,
    cluster: Option<&str>,
    record: Result<DecisionDetails, String>,
) -> Report {
    match usable(binding, cluster, record) {
        Ok((details, report)) => recorded(now, *details, *report),
        Err(reason) => Report {
            source: Some(DecisionSource {
                origin: SourceKind::Recomputed,
                reason: Some(reason),
                ..DecisionSource::default()
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
    report.source = Some(DecisionSource {
        origin: SourceKind::Record,
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
    report.migration = now.migration;
    report.evictions_paused = now.evictions_paused;
    // The suggested changes apply to the current clusters, so they come from the current report.
    report.fixes = now.fixes;
    for cluster in now.clusters {
        let mut all = report.clusters.iter_mut();
        if let Some(same) = all.find(|other| other.name == cluster.name)
            && same.stage != berth_engine::Stage::Placed
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

#[cfg(test)]
mod tests {
    use berth_engine::ScheduledReason;
    use serde_json::{Value, json};

    use super::*;

    fn report(cluster: &str) -> Value {
        json!({
            "apiVersion": "explain.berth.io/v1", "kind": "DecisionReport",
            "binding": { "kind": "ResourceBinding", "namespace": "shop", "name": "web", "replicas": 2,
                "resource": { "apiVersion": "apps/v1", "kind": "Deployment" }, "strategy": "Aggregated" },
            "verdict": { "reason": "Success", "clusters": [{ "name": cluster, "replicas": 2 }],
                "summary": "2 replicas on 1 of 2 clusters", "counts": [] },
            "recorded": { "clusters": [{ "name": "m1", "replicas": 2 }], "agrees": cluster == "m1" },
            "terms": [], "clusters": [],
        })
    }

    fn details(uid: &str) -> DecisionDetails {
        serde_json::from_value(json!({
            "apiVersion": "debug.berth.io/v1", "kind": "Decision",
            "binding": "shop/web", "uid": uid, "generation": 1, "time": "2026-01-01T00:00:00.000000Z",
            "trigger": "ReconcileSchedule", "schedulerName": "batch", "result": {},
            "currentConfiguration": true, "report": report("m1"), "notes": ["a note"],
        }))
        .unwrap()
    }

    fn binding() -> Binding {
        let object = json!({
            "metadata": { "name": "web", "namespace": "shop", "uid": "u" },
            "spec": { "resource": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" } },
        });
        let object: berth_api::ResourceBinding = serde_json::from_value(object).unwrap();
        Binding::from(object)
    }

    fn merged(cluster: &str, record: Result<DecisionDetails, String>) -> Report {
        let now: Report = serde_json::from_value(report(cluster)).unwrap();
        merge(now, &binding(), None, record)
    }

    #[test]
    fn the_recorded_report_shows_whether_the_current_decision_is_the_same() {
        for (now, same) in [("m1", true), ("m2", false)] {
            let report = merged(now, Ok(details("u")));
            let source = report.source.clone().unwrap();
            assert_eq!(source.origin, SourceKind::Record);
            assert_eq!(source.same_now, Some(same), "{now}");
            assert_eq!(source.scheduler_name.as_deref(), Some("batch"));
            assert_eq!(report.verdict.reason, ScheduledReason::Success);
            assert_eq!(report.verdict.clusters[0].name, "m1");
            assert_eq!(report.notes, ["a note"]);
            let now_differs = source.now.map(|verdict| verdict.clusters[0].name.clone());
            assert_eq!(now_differs.as_deref(), (!same).then_some(now));
            assert!(report.recorded.unwrap().agrees);
        }
    }

    #[test]
    fn the_recorded_report_shows_the_current_moves() {
        let moves = json!({
            "migration": { "mayReturnTo": ["m2"] },
            "evictionsPaused": [{ "clusters": ["m1"], "message": "lost" }],
        });
        let mut now = report("m1");
        for (field, value) in moves.as_object().unwrap() {
            now[field] = value.clone();
        }
        let now: Report = serde_json::from_value(now).unwrap();
        let report = merge(now.clone(), &binding(), None, Ok(details("u")));
        assert!(now.migration.is_some() && report.migration == now.migration);
        assert_eq!(report.evictions_paused.len(), 1);
        assert_eq!(report.evictions_paused, now.evictions_paused);
    }

    #[test]
    fn without_a_usable_record_the_report_has_the_reason() {
        for (record, reason) in [
            (Err("unreachable".to_owned()), "unreachable"),
            (
                Ok(details("other")),
                "the scheduler's record is about an earlier binding of this name",
            ),
        ] {
            let report = merged("m2", record);
            assert_eq!(report.verdict.clusters[0].name, "m2");
            let source = report.source.unwrap();
            assert_eq!(source.origin, SourceKind::Recomputed);
            assert_eq!(source.reason.as_deref(), Some(reason));
        }
    }
}
