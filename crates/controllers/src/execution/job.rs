//! Carries out what has to be done with a Work: in the member first, then on the control plane.

use std::sync::Arc;
use std::time::Duration;

use berth_api::Work;
use berth_api::well_known::EXECUTION_FINALIZER;
use berth_events::EventRecorder;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions};
use kube::error::DiscoveryError;
use serde_json::{Value, json};

use super::decision::{Action, Settled, decide, is_managed, released};
use super::happenings;
use super::objects::{Known, Seen};
use super::step::Step;
use super::work_status::{Applied, News, next_status};
use crate::binding::sync::has_code;
use crate::detector::resource_type::ResourceType;
use crate::interpreter::{kind_of, retain};
use crate::kinds::{KindError, Kinds};

/// How often a write is tried when others write to the same object.
const CONFLICT_TRIES: usize = 5;
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

/// Why a manifest is not in the member.
#[derive(Debug, thiserror::Error)]
enum ManifestError {
    #[error("{0}")]
    Api(#[from] kube::Error),
    #[error(transparent)]
    Kind(#[from] KindError),
    #[error("the manifest cannot be read: {0}")]
    Shape(#[from] serde_json::Error),
    #[error(
        "resource(kind={kind}, {name}) already exists in the cluster {cluster} and did not come from here; to take it over, set conflictResolution: Overwrite in the policy, or the annotation work.karmada.io/conflict-resolution: overwrite on the resource"
    )]
    Foreign {
        kind: String,
        name: String,
        cluster: String,
    },
    #[error("the object changes all the time")]
    Busy,
}

impl ManifestError {
    fn is_unauthorized(&self) -> bool {
        match self {
            Self::Api(error) => has_code(error, 401),
            Self::Kind(error) => has_code(&error.source, 401),
            _ => false,
        }
    }
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
                news.applied = Some(apply(&task, &mut report, &mut news.seen).await);
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
        if !told.anything() {
            return Ok(None);
        }
        let patch = json!({ "status": {
            "conditions": status.conditions, "manifestStatuses": status.manifest_statuses } });
        let name = work.metadata.name.as_deref().unwrap_or_default();
        let patched = self
            .works(work)
            .patch_status(name, &PatchParams::default(), &Patch::Merge(patch))
            .await;
        match patched {
            Ok(written) => {
                happenings::tell(&self.events, work, &task.cluster, &status, told);
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
                    leave_behind(member, manifest).await
                } else {
                    remove(member, manifest, known).await
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
async fn apply(task: &Task, report: &mut Report, seen: &mut [Option<Value>]) -> Applied {
    let manifests = &task.work.spec.workload.manifests;
    let member = match &task.member {
        Ok(member) => member,
        Err(reason) => {
            return Applied::Failed {
                done: 0,
                reasons: vec![reason.clone()],
            };
        }
    };
    let mut reasons = Vec::new();
    for (index, manifest) in manifests.iter().enumerate() {
        let known = task.known.get(index).cloned().unwrap_or(Known::Unknown);
        let settled = task.settled.get(index).copied().flatten();
        let applying = apply_manifest(member, manifest, known, settled, &task.cluster);
        let Ok(applied) = tokio::time::timeout(PATIENCE, applying).await else {
            reasons.push(no_answer(&task.cluster));
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
                }
            }
            Err(error) => {
                report.unauthorized |= error.is_unauthorized();
                // What somebody does to the object that is in the way has to be seen.
                if let Ok(resource) = find(member, manifest).await {
                    report.kinds.push(resource);
                }
                if let Some(slot) = report.settled.get_mut(index) {
                    *slot = None;
                }
                reasons.push(error.to_string());
            }
        }
    }
    if reasons.is_empty() {
        Applied::All
    } else {
        Applied::Failed {
            done: manifests.len().saturating_sub(reasons.len()),
            reasons,
        }
    }
}

/// What became of a manifest.
enum Outcome {
    /// It was there.
    Unchanged(Arc<Seen>),
    /// It was written, and this is the answer.
    Written(Seen),
    /// The object of before has to be gone first.
    Leaving,
}

async fn apply_manifest(
    member: &Kinds,
    manifest: &Value,
    known: Known,
    settled: Option<Settled>,
    cluster: &str,
) -> Result<(Arc<ResourceType>, Outcome), ManifestError> {
    let resource = find(member, manifest).await?;
    let (api, name) = handle(member, &resource, manifest);
    let look = async || -> Result<Option<Arc<Seen>>, ManifestError> {
        let object = api.get_opt(&name).await?;
        Ok(object
            .and_then(|object| Seen::new(&resource, object))
            .map(Arc::new))
    };
    let mut observed = match known {
        Known::Unknown => look().await?,
        Known::Absent => None,
        Known::Present(seen) => Some(seen),
    };
    for _ in 0..CONFLICT_TRIES {
        let action = decide(manifest, observed.as_ref().map(|seen| &seen.value), settled);
        let written = match action {
            Action::Nothing => {
                let settled = observed.filter(|seen| {
                    let leaving = seen.value.pointer("/metadata/deletionTimestamp");
                    leaving.is_none()
                });
                let outcome = settled.map_or(Outcome::Leaving, Outcome::Unchanged);
                return Ok((resource, outcome));
            }
            Action::Refuse => {
                return Err(ManifestError::Foreign {
                    kind: kind_of(manifest).1.to_owned(),
                    name: full_name(manifest),
                    cluster: cluster.to_owned(),
                });
            }
            Action::Create => {
                let object: DynamicObject = serde_json::from_value(manifest.clone())?;
                api.create(&PostParams::default(), &object).await
            }
            Action::Update(desired) => {
                let object: DynamicObject = serde_json::from_value(*desired)?;
                api.replace(&name, &PostParams::default(), &object).await
            }
        };
        match written {
            Ok(object) => {
                let seen = Seen::new(&resource, object).ok_or(ManifestError::Busy)?;
                return Ok((resource, Outcome::Written(seen)));
            }
            Err(error) if is_race(&error) => observed = look().await?,
            Err(error) => return Err(error.into()),
        }
    }
    Err(ManifestError::Busy)
}

/// Whether the object has come, changed or gone since it was looked at.
fn is_race(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => {
            // A missing namespace is no race.
            let object_gone = status.code == 404 && !status.message.contains("namespaces");
            status.code == 409 && !status.message.contains("being terminated") || object_gone
        }
        _ => false,
    }
}

/// Deletes an object that came from here.
async fn remove(member: &Kinds, manifest: &Value, known: &Known) -> Result<(), ManifestError> {
    let resource = match find(member, manifest).await {
        Ok(resource) => resource,
        Err(error) if is_unserved(&error) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let (api, name) = handle(member, &resource, manifest);
    let mut known = known.clone();
    for _ in 0..CONFLICT_TRIES {
        let object = match known {
            Known::Absent => return Ok(()),
            Known::Present(seen) => seen.value.clone(),
            Known::Unknown => match api.get_opt(&name).await? {
                None => return Ok(()),
                Some(object) => serde_json::to_value(object)?,
            },
        };
        if !is_managed(&object) {
            return Ok(());
        }
        let uid = object.pointer("/metadata/uid").and_then(Value::as_str);
        // Jobs would leave their pods behind otherwise.
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: uid.map(str::to_owned),
                resource_version: None,
            }),
            ..DeleteParams::background()
        };
        match api.delete(&name, &params).await {
            Ok(_) => return Ok(()),
            Err(error) if has_code(&error, 404) => return Ok(()),
            Err(error) if has_code(&error, 409) => known = Known::Unknown,
            Err(error) => return Err(error.into()),
        }
    }
    Err(ManifestError::Busy)
}

/// Takes our marks off an object and leaves it where it is.
async fn leave_behind(member: &Kinds, manifest: &Value) -> Result<(), ManifestError> {
    let resource = match find(member, manifest).await {
        Ok(resource) => resource,
        Err(error) if is_unserved(&error) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let (api, name) = handle(member, &resource, manifest);
    for _ in 0..CONFLICT_TRIES {
        let Some(object) = api.get_opt(&name).await? else {
            return Ok(());
        };
        let observed = serde_json::to_value(object)?;
        if !is_managed(&observed) {
            return Ok(());
        }
        let mut desired = released(manifest);
        retain(&mut desired, &observed);
        let desired: DynamicObject = serde_json::from_value(released(&desired))?;
        match api.replace(&name, &PostParams::default(), &desired).await {
            Ok(_) => return Ok(()),
            Err(error) if is_race(&error) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(ManifestError::Busy)
}

async fn find(member: &Kinds, manifest: &Value) -> Result<Arc<ResourceType>, KindError> {
    let (api_version, kind) = kind_of(manifest);
    member.find(api_version, kind).await
}

fn handle(
    member: &Kinds,
    resource: &ResourceType,
    manifest: &Value,
) -> (Api<DynamicObject>, String) {
    let text = |pointer: &str| {
        let value = manifest.pointer(pointer).and_then(Value::as_str);
        value.unwrap_or_default()
    };
    let api = resource.api(member.client(), text("/metadata/namespace"));
    (api, text("/metadata/name").to_owned())
}

fn full_name(manifest: &Value) -> String {
    let text = |pointer: &str| {
        let value = manifest.pointer(pointer).and_then(Value::as_str);
        value.unwrap_or_default()
    };
    let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
    if namespace.is_empty() {
        name.to_owned()
    } else {
        format!("{namespace}/{name}")
    }
}

/// Whether the member says that it has no such kind: then it has no objects of it either.
fn is_unserved(error: &KindError) -> bool {
    match error.source.as_ref() {
        kube::Error::Api(status) => status.code == 404,
        kube::Error::Discovery(error) => matches!(
            error,
            DiscoveryError::MissingKind(_)
                | DiscoveryError::MissingApiGroup(_)
                | DiscoveryError::MissingResource(_)
        ),
        _ => false,
    }
}
