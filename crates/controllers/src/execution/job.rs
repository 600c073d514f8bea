//! Carries out what has to be done with a Work: in the member first, then on the control plane.

use std::sync::Arc;
use std::time::Duration;

use berth_api::Work;
use berth_api::well_known::EXECUTION_FINALIZER;
use berth_events::EventRecorder;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

use super::decision::Settled;
use super::happenings;
use super::manifest::{self, CONFLICT_TRIES, Outcome};
use super::objects::{Known, Seen};
use super::step::Step;
use super::work_status::{Applied, Fate, News, next_status};
use crate::binding::sync::has_code;
use crate::kinds::Kinds;
use crate::resource_type::ResourceType;

/// How long a member may take for all that a Work asks of it.
const PATIENCE: Duration = Duration::from_secs(30);

/// A Work, what has to be done with it, and all that is known for that.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) work: Arc<Work>,
    pub(super) cluster: String,
    pub(super) step: Step,
    /// The way to the member, or why there is none.
    pub(super) member: Result<Kinds, String>,
    /// What is known of the object of each manifest.
    pub(super) known: Vec<Known>,
    /// What each manifest has become, if it has been applied.
    pub(super) settled: Vec<Option<Settled>>,
}

/// How it went.
#[derive(Debug, Default)]
pub(super) struct Report {
    /// The Work after a write.
    pub(super) work: Option<Work>,
    /// How the kinds of its manifests are served, as far as that was asked.
    pub(super) kinds: Vec<Arc<ResourceType>>,
    /// Objects as the member has answered.
    pub(super) seen: Vec<(Arc<ResourceType>, Seen)>,
    /// What each manifest has become.
    pub(super) settled: Vec<Option<Settled>>,
    /// Whether the member does not know us: the credentials may have changed.
    pub(super) unauthorized: bool,
    /// Why it has to be tried again.
    pub(super) failure: Option<JobError>,
}

/// Why something has to be tried again.
#[derive(Debug, thiserror::Error)]
pub(super) enum JobError {
    /// The control plane refuses a write.
    #[error("control plane: {0}")]
    ControlPlane(#[from] kube::Error),
    /// The member refuses, or does not answer.
    #[error("{}", .0.join("; "))]
    Member(Vec<String>),
    /// Others keep writing.
    #[error("the work changes all the time")]
    Busy,
}

/// Does what has to be done with Works. Cheap to clone.
#[derive(Clone)]
pub(super) struct Worker {
    pub(super) control_plane: kube::Client,
    pub(super) events: EventRecorder,
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker").finish_non_exhaustive()
    }
}

impl Worker {
    /// Does what has to be done with a Work.
    pub(super) async fn run(&self, task: Task) -> Report {
        let mut report = Report {
            settled: task.settled.clone(),
            ..Report::default()
        };
        let mut news = News {
            seen: task.known.iter().map(present).collect(),
            ..News::default()
        };
        match task.step {
            Step::Nothing => return report,
            Step::Release => {
                report.failure = self.release(&task.work).await.err();
                return report;
            }
            Step::Withdraw => {
                let gone = self.withdraw(&task, &mut report).await;
                report.failure = match gone {
                    Ok(()) => self.release(&task.work).await.err(),
                    Err(reason) => Some(JobError::Member(vec![reason])),
                };
                return report;
            }
            Step::Suspend => news.dispatching = Some(false),
            Step::Await => news.dispatching = Some(true),
            Step::TellNoAddress => {
                news.dispatching = Some(true);
                news.applied = Some(Applied::Failed {
                    done: 0,
                    reasons: vec![format!("cluster {} has no apiEndpoint", task.cluster)],
                });
            }
            Step::Apply => {
                news.dispatching = Some(true);
                let (applied, fates) = apply(&task, &mut report, &mut news.seen).await;
                news.applied = Some(applied);
                news.fates = fates;
            }
        }
        if let Some(Applied::Failed { reasons, .. }) = &news.applied
            && task.step == Step::Apply
            && task.member.is_ok()
        {
            report.failure = Some(JobError::Member(reasons.clone()));
        }
        match self.tell(&task, &news).await {
            Ok(work) => report.work = work,
            Err(error) => report.failure = Some(error.into()),
        }
        report
    }

    /// Writes the status of a Work where it has changed.
    async fn tell(&self, task: &Task, news: &News) -> Result<Option<Work>, kube::Error> {
        let work = &task.work;
        let (status, told) = next_status(work, news);
        let manifests = &work.spec.workload.manifests;
        happenings::tell_templates(&self.events, manifests, &task.cluster, &news.fates, told);
        if !told.anything() {
            return Ok(None);
        }
        let mut patch = json!({ "status": { "conditions": status.conditions } });
        if !status.manifest_statuses.is_empty() {
            patch["status"]["manifestStatuses"] = json!(status.manifest_statuses);
        }
        let name = work.metadata.name.as_deref().unwrap_or_default();
        let patched = self
            .works(work)
            .patch_status(name, &PatchParams::default(), &Patch::Merge(patch))
            .await;
        match patched {
            Ok(written) => {
                let reasons = match &news.applied {
                    Some(Applied::Failed { reasons, .. }) => reasons.join("; "),
                    Some(Applied::All) | None => String::new(),
                };
                happenings::tell(&self.events, work, &task.cluster, &status, &reasons, told);
                Ok(Some(written))
            }
            Err(error) if has_code(&error, 404) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Lets a Work go that has nothing left to do.
    async fn release(&self, work: &Work) -> Result<(), JobError> {
        let api = self.works(work);
        let name = work.metadata.name.as_deref().unwrap_or_default();
        let uid = &work.metadata.uid;
        let mut current = Some(work.clone());
        for _ in 0..CONFLICT_TRIES {
            // A new one of the same name has work to do, and keeps its finalizer.
            let Some(work) = current.filter(|work| work.metadata.uid == *uid) else {
                return Ok(());
            };
            let finalizers = work.metadata.finalizers.unwrap_or_default();
            let others = finalizers.iter().filter(|f| *f != EXECUTION_FINALIZER);
            let patch = json!({ "metadata": {
                "finalizers": others.collect::<Vec<_>>(),
                "resourceVersion": work.metadata.resource_version } });
            let patched = api
                .patch(name, &PatchParams::default(), &Patch::Merge(patch))
                .await;
            match patched {
                Ok(_) => return Ok(()),
                Err(error) if has_code(&error, 404) => return Ok(()),
                Err(error) if has_code(&error, 409) => current = api.get_opt(name).await?,
                Err(error) => return Err(error.into()),
            }
        }
        Err(JobError::Busy)
    }

    /// Takes the resources of a Work out of the member, or leaves them there as nobody's.
    async fn withdraw(&self, task: &Task, report: &mut Report) -> Result<(), String> {
        let member = task.member.as_ref().map_err(Clone::clone)?;
        let manifests = &task.work.spec.workload.manifests;
        let preserved = task.work.spec.preserve_resources_on_deletion == Some(true);
        for (manifest, known) in manifests.iter().zip(&task.known) {
            let leaving = async {
                if preserved {
                    manifest::leave_behind(member, manifest).await
                } else {
                    manifest::remove(member, manifest, known).await
                }
            };
            match tokio::time::timeout(PATIENCE, leaving).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    report.unauthorized |= error.is_unauthorized();
                    return Err(error.to_string());
                }
                Err(_) => return Err(no_answer(&task.cluster)),
            }
        }
        Ok(())
    }

    fn works(&self, work: &Work) -> Api<Work> {
        let namespace = work.metadata.namespace.as_deref().unwrap_or_default();
        Api::namespaced(self.control_plane.clone(), namespace)
    }
}

fn present(known: &Known) -> Option<Value> {
    match known {
        Known::Present(seen) => Some(seen.value.clone()),
        Known::Absent | Known::Unknown => None,
    }
}

fn no_answer(cluster: &str) -> String {
    let seconds = PATIENCE.as_secs();
    format!("cluster {cluster} has not answered for {seconds} s")
}

/// Brings the manifests of a Work into the member.
async fn apply(
    task: &Task,
    report: &mut Report,
    seen: &mut [Option<Value>],
) -> (Applied, Vec<Fate>) {
    let manifests = &task.work.spec.workload.manifests;
    let member = match &task.member {
        Ok(member) => member,
        Err(reason) => {
            let reasons = vec![reason.clone()];
            let failed = manifests.iter().map(|_| Fate::Failed(reason.clone()));
            return (Applied::Failed { done: 0, reasons }, failed.collect());
        }
    };
    let mut fates = Vec::with_capacity(manifests.len());
    for (index, manifest) in manifests.iter().enumerate() {
        let known = task.known.get(index).cloned().unwrap_or(Known::Unknown);
        let settled = task.settled.get(index).copied().flatten();
        let applying = manifest::apply(member, manifest, known, settled, &task.cluster);
        let Ok(applied) = tokio::time::timeout(PATIENCE, applying).await else {
            fates.push(Fate::Failed(no_answer(&task.cluster)));
            continue;
        };
        match applied {
            Ok((resource, outcome)) => {
                let object = match &outcome {
                    Outcome::Unchanged(object) => Some(&object.value),
                    Outcome::Written(object) => Some(&object.value),
                    Outcome::Leaving => None,
                };
                if let Some(slot) = report.settled.get_mut(index) {
                    *slot = object.map(|object| Settled::of(manifest, object));
                }
                if let (Some(slot), Some(object)) = (seen.get_mut(index), object) {
                    *slot = Some(object.clone());
                }
                report.kinds.push(Arc::clone(&resource));
                if let Outcome::Written(object) = outcome {
                    report.seen.push((resource, object));
                    fates.push(Fate::Written);
                } else {
                    fates.push(Fate::Unchanged);
                }
            }
            Err(error) => {
                report.unauthorized |= error.is_unauthorized();
                // What somebody does to the object that is in the way has to be seen.
                if let Ok(resource) = manifest::find(member, manifest).await {
                    report.kinds.push(resource);
                }
                if let Some(slot) = report.settled.get_mut(index) {
                    *slot = None;
                }
                fates.push(Fate::Failed(error.to_string()));
            }
        }
    }
    let reasons: Vec<String> = fates.iter().filter_map(Fate::reason).collect();
    let applied = if reasons.is_empty() {
        Applied::All
    } else {
        Applied::Failed {
            done: manifests.len().saturating_sub(reasons.len()),
            reasons,
        }
    };
    (applied, fates)
}
