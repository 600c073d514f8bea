//! The copy of a workload in a cluster: its Work, its pods, and the last report.

use std::sync::Arc;

use berth_api::Work;
use berth_api::binding::ResourceHealth;
use berth_api::well_known::CONDITION_APPLIED;
use berth_api::work::{ManifestStatus, ResourceIdentifier, WorkSpec, WorkStatus, WorkloadTemplate};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde_json::{Value, json};

use super::fleet::{Fleet, name};

/// The report of a member about a copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Report {
    pub(super) replicas: i64,
    pub(super) ready: i64,
    /// The number of changes of the object in the member.
    pub(super) generation: i64,
}

/// A copy.
#[derive(Clone, Debug, Default)]
pub(super) struct Copy {
    /// The replicas in the Work.
    work: i64,
    is_deleting: bool,
    /// True if the member has applied the Work.
    is_applied: bool,
    /// The second at which each pod had its image, or `None` while the pod cannot pull it.
    pods: Vec<Option<i64>>,
    generation: i64,
    pub(super) report: Option<Report>,
    reported_at: i64,
    /// The least number of replicas in the Work since the report, if the Work changed since.
    pub(super) unreported: Option<i64>,
    /// True if the controllers have restarted since the Work changed. Then they cannot know that the report is older.
    is_misjudged: bool,
    object: Option<Arc<Work>>,
}

impl Copy {
    /// Returns a copy whose replicas have been ready for a long time.
    pub(super) fn running(replicas: i64) -> Self {
        Self {
            work: replicas,
            is_applied: true,
            pods: vec![Some(-1000); usize::try_from(replicas).unwrap()],
            report: Some(Report {
                replicas,
                ready: replicas,
                generation: 0,
            }),
            ..Self::default()
        }
    }

    /// Returns the replicas that the Work grants; 0 while the Work is being deleted.
    pub(super) fn granted(&self) -> i64 {
        if self.is_deleting { 0 } else { self.work }
    }

    /// Reports whether the Work has this number of replicas, and the member has reported that all are ready.
    pub(super) fn is_complete(&self, wanted: i64) -> bool {
        let is_ready = |report: Report| (report.replicas, report.ready) == (wanted, wanted);
        self.granted() == wanted && self.report.is_some_and(is_ready)
    }

    /// Writes the replicas of the Work, unless it is being deleted: then it is created again when it is gone. Reports whether
    /// the Work has changed.
    pub(super) fn write(&mut self, replicas: i64) -> bool {
        let is_new = self.object.is_none() && self.report.is_none();
        if self.is_deleting || self.work == replicas && !is_new {
            return false;
        }
        if !is_new {
            let least = self.unreported.unwrap_or(self.work);
            self.unreported = Some(least.min(self.work).min(replicas));
        }
        self.work = replicas;
        self.object = None;
        true
    }

    /// Deletes the Work. It remains until the member has removed the pods. Reports whether the Work has changed.
    pub(super) fn delete(&mut self) -> bool {
        self.object = None;
        !std::mem::replace(&mut self.is_deleting, true)
    }

    /// Applies the Work in the member. Returns the number of new pods.
    pub(super) fn apply(&mut self) -> i64 {
        self.is_applied = true;
        let wanted = usize::try_from(self.granted()).unwrap();
        let created = wanted.saturating_sub(self.pods.len());
        self.generation += i64::from(wanted != self.pods.len());
        // A member removes the pods first that are not ready.
        self.pods.sort_by_key(|pulled| pulled.unwrap_or(i64::MAX));
        self.pods.resize(wanted, None);
        i64::try_from(created).unwrap()
    }

    /// Lets the pods pull their images.
    pub(super) fn pull(&mut self, second: i64) {
        for pod in &mut self.pods {
            pod.get_or_insert(second);
        }
    }

    /// Reports whether the member has removed the copy after the deletion of its Work.
    pub(super) fn is_gone(&self) -> bool {
        self.is_deleting && self.pods.is_empty()
    }

    /// Reports the pods. Returns true if the report has changed.
    pub(super) fn report(&mut self, ready: i64, second: i64) -> bool {
        if !self.is_applied {
            return false;
        }
        let report = Report {
            replicas: self.pods(),
            ready,
            generation: self.generation,
        };
        self.reported_at = second;
        self.is_misjudged = false;
        let has_changed = self.report != Some(report);
        if has_changed {
            (self.report, self.unreported, self.object) = (Some(report), None, None);
        }
        has_changed
    }

    /// Drops what the controllers remember.
    pub(super) fn forget(&mut self) {
        self.is_misjudged |= self.unreported.take().is_some();
    }

    /// Returns the number of pods.
    pub(super) fn pods(&self) -> i64 {
        i64::try_from(self.pods.len()).unwrap()
    }

    /// Returns the pods that are ready, in a cluster that runs since a second.
    pub(super) fn ready(&self, runs_since: Option<i64>, delay: i64, second: i64) -> i64 {
        let Some(since) = runs_since else {
            return 0;
        };
        let pulled = self.pods.iter().flatten();
        let ready = pulled.filter(|pulled| (**pulled).max(since) + delay <= second);
        i64::try_from(ready.count()).unwrap()
    }

    /// Returns the pods that are ready as far as the controllers can know it. They cannot know that a cluster has been lost
    /// since its report, nor that a report is older than a Work that changed before their restart.
    pub(super) fn known_ready(
        &self,
        cluster: usize,
        fleet: &Fleet,
        delay: i64,
        second: i64,
    ) -> i64 {
        let Some(report) = self.report else {
            return 0;
        };
        let is_stale = self.reported_at <= fleet.changed_at(cluster) || self.is_misjudged;
        if is_stale {
            return report.ready;
        }
        let ready = self.ready(fleet.runs_since(cluster), delay, second);
        ready.min(report.ready)
    }

    /// Describes the copy for the message of a failed test.
    pub(super) fn about(&self, cluster: usize) -> String {
        let Self {
            work,
            is_deleting,
            pods,
            report,
            unreported,
            ..
        } = self;
        let name = name(cluster);
        format!(
            "{name}: Work {work} (deleting: {is_deleting}), {} pods, {report:?}, since then {unreported:?}",
            pods.len()
        )
    }

    /// Returns the Work.
    pub(super) fn object(&mut self, cluster: usize) -> Arc<Work> {
        if let Some(object) = &self.object {
            return Arc::clone(object);
        }
        let mut work = Work::new("web", self.spec());
        work.metadata.namespace = Some(format!("karmada-es-{}", name(cluster)));
        work.metadata.deletion_timestamp = self.is_deleting.then_some(Time(Timestamp::UNIX_EPOCH));
        work.status = self.report.map(status);
        Arc::clone(self.object.insert(Arc::new(work)))
    }

    fn spec(&self) -> WorkSpec {
        WorkSpec {
            workload: WorkloadTemplate {
                manifests: vec![deployment(self.work)],
            },
            ..WorkSpec::default()
        }
    }
}

/// Returns the template with a number of replicas.
pub(super) fn deployment(replicas: i64) -> Value {
    json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web", "namespace": "n" },
        "spec": { "replicas": replicas } })
}

/// Returns the health that a report shows.
pub(super) fn health(report: Report) -> ResourceHealth {
    if report.ready >= report.replicas {
        ResourceHealth::Healthy
    } else {
        ResourceHealth::Unhealthy
    }
}

fn status(report: Report) -> WorkStatus {
    let status = json!({ "replicas": report.replicas, "readyReplicas": report.ready,
        "observedGeneration": report.generation });
    WorkStatus {
        conditions: vec![Condition {
            type_: CONDITION_APPLIED.to_owned(),
            status: "True".to_owned(),
            reason: "Applied".to_owned(),
            message: String::new(),
            observed_generation: None,
            last_transition_time: Time(Timestamp::UNIX_EPOCH),
        }],
        manifest_statuses: vec![ManifestStatus {
            identifier: ResourceIdentifier::default(),
            status: Some(status),
            health: Some(health(report)),
        }],
    }
}
