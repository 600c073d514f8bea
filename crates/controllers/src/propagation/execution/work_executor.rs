//! Execution of the action for one Work: first the requests to the member, and then the requests to the control plane.

use berth_apimachinery::api_error::{api_error_message, has_code};
use berth_apimachinery::conflict_retry::Attempts;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use berth_api::well_known::{CONDITION_APPLIED, EXECUTION_FINALIZER, TRACEPARENT};
use berth_api::work::{ResourceIdentifier, WorkStatus};
use berth_api::{Work, condition};
use berth_events::EventRecorder;
use berth_telemetry::Span;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

use super::applied_state::AppliedState;
use super::apply_object::{Applied, apply};
use super::drift_events;
use super::manifest_outcome::ManifestOutcome;
use super::member_object::{self, Deletion, Ownership, WriteCounter};
use super::object_cache::{Cached, MemberObject};
use super::ownership::{ControlPlaneId, other_owner};
use super::pod_looks::{Look, LookResult, Looked, WorkloadHealth, look, unhealthy_workload};
use super::recorded_events;
use super::removed_objects::identifying_manifest;
use super::work_action::WorkAction;
use super::work_status::{
    ApplyOutcome, NextStatus, Observations, StatusChanges, has_unhealthy_object, next_status,
};
use crate::monitor::{MemberKind, Monitor, Outcome};
use crate::resource_interpreter::ResourceInterpreter;
use crate::resource_type::ResourceType;
use crate::rest_mapper::RestMapper;
use berth_apimachinery::json_fields::{kind_of, text_at};

/// Time limit for the requests to a member about one object.
const MEMBER_TIMEOUT: Duration = Duration::from_secs(30);

/// The action for a Work, and the observed state on which the action is based.
#[derive(Debug)]
pub(super) struct WorkInput {
    pub(super) work: Arc<Work>,
    pub(super) cluster: String,
    pub(super) action: WorkAction,
    /// The connection to the member, or the reason for which there is no connection.
    pub(super) member: Result<RestMapper, String>,
    /// The cached object of each manifest.
    pub(super) cached: Vec<Cached>,
    /// The applied state of each manifest, or `None` for a manifest that was not applied yet.
    pub(super) applied: Vec<Option<AppliedState>>,
    /// The objects that the Work has applied and no longer contains.
    pub(super) removed: Vec<ResourceIdentifier>,
    /// False if the report was deferred for the longest time already.
    pub(super) may_defer_report: bool,
    /// The look at the pods of an unhealthy workload.
    pub(super) look: Look,
}

impl WorkInput {
    fn ownership<'a>(&self, index: usize, id: Option<&'a str>) -> Ownership<'a> {
        Ownership {
            applied: self.applied.get(index).copied().flatten(),
            id,
        }
    }

    /// Returns the error of an application that the member refused.
    fn refusal(&self, observations: &Observations) -> Option<WorkError> {
        match &observations.applied {
            Some(ApplyOutcome::Failed { reasons, .. })
                if self.action == WorkAction::Apply && self.member.is_ok() =>
            {
                Some(WorkError::Member(reasons.clone()))
            }
            _ => None,
        }
    }

    /// Returns the cached object of each manifest, except those that another control plane owns.
    fn own_objects(&self, id: Option<&str>) -> Vec<Option<Value>> {
        let manifests = self.work.spec.workload.manifests.iter().zip(&self.cached);
        let own = manifests
            .enumerate()
            .map(|(index, (manifest, cached))| match cached {
                Cached::Present(object) => {
                    let applied = self.ownership(index, id).applied;
                    let owner = other_owner(&object.value, manifest, applied, id);
                    owner.is_none().then(|| object.value.clone())
                }
                Cached::Absent | Cached::Unknown => None,
            });
        own.collect()
    }
}

/// The result of an execution.
#[derive(Debug, Default)]
pub(super) struct WorkResult {
    /// The written Work, or `None` if its status was not written.
    pub(super) work: Option<Work>,
    /// The resource types that were found for the manifests.
    pub(super) kinds: Vec<Arc<ResourceType>>,
    /// Objects that the member returned.
    pub(super) objects: Vec<(Arc<ResourceType>, MemberObject)>,
    /// The applied state of each manifest.
    pub(super) applied: Vec<Option<AppliedState>>,
    /// The objects that the Work no longer contains and that were removed from the member.
    pub(super) removed: Vec<ResourceIdentifier>,
    /// True if the member rejected the credentials of the connection. The Secret may contain new credentials.
    pub(super) unauthorized: bool,
    /// True if the status was not written, because the objects have to settle first.
    pub(super) is_report_deferred: bool,
    /// The health of the workload.
    pub(super) health: WorkloadHealth,
    /// The error, if the action must be retried.
    pub(super) failure: Option<WorkError>,
}

/// An error after which an action is retried.
#[derive(Debug, thiserror::Error)]
pub(super) enum WorkError {
    /// A request to the control plane failed.
    #[error("control plane: {}", api_error_message(.0))]
    ControlPlane(#[from] kube::Error),
    /// Objects could not be applied to the member, or deleted from it.
    #[error("{}", .0.join("; "))]
    Member(Vec<String>),
    /// An object cannot be interpreted.
    #[error("{}", .0.join("; "))]
    Interpret(Vec<String>),
    /// Objects with a requested deletion still exist in the member.
    #[error("still being deleted: {}", .0.join("; "))]
    Terminating(Vec<String>),
    /// Other clients kept changing the Work.
    #[error("gave up after repeated conflicts on the work")]
    Conflicts,
}

/// An executor of the actions for Works. Clones are cheap.
#[derive(Clone)]
pub(crate) struct WorkExecutor {
    pub(crate) control_plane: kube::Client,
    pub(crate) id: ControlPlaneId,
    pub(crate) events: EventRecorder,
    pub(crate) interpreter: ResourceInterpreter,
    pub(crate) monitor: Monitor,
}

impl WorkExecutor {
    /// Executes the action for a Work.
    pub(super) async fn execute(&self, input: WorkInput) -> WorkResult {
        let since = Instant::now();
        let writes_member = input.action.writes_member();
        let result = self.execute_action(input).await;
        if writes_member {
            let outcome = match result.failure {
                None | Some(WorkError::Terminating(_)) => Outcome::Success,
                Some(_) => Outcome::Error,
            };
            self.monitor.workload_synced(outcome, since.elapsed());
        }
        result
    }

    async fn execute_action(&self, input: WorkInput) -> WorkResult {
        let mut result = WorkResult {
            applied: input.applied.clone(),
            ..WorkResult::default()
        };
        let id = match self.id.read().await {
            Ok(id) => id,
            Err(error) => {
                result.failure = Some(error.into());
                return result;
            }
        };
        let mut observations = Observations {
            objects: input.own_objects(id),
            ..Observations::default()
        };
        match input.action {
            WorkAction::None => return result,
            WorkAction::RemoveFinalizer => {
                result.failure = self.remove_finalizer(&input.work).await.err();
                return result;
            }
            WorkAction::Delete | WorkAction::RequestDeletion => {
                let awaited = input.action == WorkAction::Delete;
                let removed = self.delete_objects(&input, id, &mut result).await;
                let reason = match removed {
                    Ok(left) if awaited && !left.is_empty() => {
                        result.failure = Some(WorkError::Terminating(left));
                        return result;
                    }
                    Ok(_) => {
                        result.failure = self.remove_finalizer(&input.work).await.err();
                        return result;
                    }
                    Err(reason) => reason,
                };
                result.failure = Some(WorkError::Member(vec![reason.clone()]));
                observations.applied = Some(ApplyOutcome::NotDeleted(reason));
            }
            WorkAction::Observe => {
                observations.dispatching = Some(false);
                let missing = self
                    .observe_objects(&input, id, &mut result, &mut observations.objects)
                    .await;
                match missing {
                    Ok(missing) => observations.applied = missing_objects(&input.work, &missing),
                    Err(reason) => result.failure = Some(WorkError::Member(vec![reason])),
                }
            }
            WorkAction::Suspend => observations.dispatching = Some(false),
            WorkAction::AwaitMember => observations.dispatching = Some(true),
            WorkAction::ReportNoEndpoint => {
                observations.dispatching = Some(true);
                observations.applied = Some(ApplyOutcome::Failed {
                    done: 0,
                    reasons: vec![format!("cluster {} has no apiEndpoint", input.cluster)],
                });
            }
            WorkAction::Apply => {
                observations.dispatching = Some(true);
                let start = SystemTime::now();
                let (mut applied, outcomes) = self
                    .apply_manifests(&input, id, &mut result, &mut observations.objects)
                    .await;
                let applied_objects = observations.objects.iter().flatten();
                let kept: Vec<&str> = applied_objects
                    .map(|object| text_at(object, "/metadata/uid"))
                    .collect();
                let failures = self.remove_objects(&input, &kept, id, &mut result).await;
                applied.add_failures(input.work.spec.workload.manifests.len(), failures);
                observations.removed.clone_from(&result.removed);
                trace_application(&input, start, &applied, &outcomes);
                observations.applied = Some(applied);
                observations.outcomes = outcomes;
            }
        }
        result.failure = result.failure.or_else(|| input.refusal(&observations));
        self.report(&input, &observations, result).await
    }

    /// Reports the observations in the status of the Work.
    async fn report(
        &self,
        input: &WorkInput,
        observations: &Observations,
        mut result: WorkResult,
    ) -> WorkResult {
        let mut next = self
            .interpreter
            .interpret(|rules| next_status(&input.work, observations, rules))
            .await;
        if result.failure.is_none() && next.must_retry() {
            result.failure = Some(WorkError::Interpret(next.failure_messages()));
        }
        if result.failure.is_none() {
            result.health = look_if_due(input, &observations.objects, &mut next).await;
        }
        let has_looked = matches!(result.health, WorkloadHealth::Unhealthy(Looked::Yes));
        // The members' controllers change a written object at once, and again when its pods are ready. One report
        // contains all of it.
        if input.may_defer_report
            && !has_looked
            && result.failure.is_none()
            && is_progressing(&input.work, observations, &next.status)
        {
            self.record_outcomes(input, observations, next.changes);
            result.is_report_deferred = next.has_changed();
            return result;
        }
        match self.write_status(input, next, observations).await {
            Ok(work) => result.work = work,
            Err(error) => {
                // The problem that was found is not stored yet, so that the next run looks again.
                result.health = WorkloadHealth::Unobserved;
                result.failure = Some(error.into());
            }
        }
        result
    }

    fn record_outcomes(&self, input: &WorkInput, seen: &Observations, changes: StatusChanges) {
        let (work, cluster) = (&input.work, input.cluster.as_str());
        recorded_events::record_templates(&self.events, work, cluster, &seen.outcomes, changes);
        drift_events::record_corrected(&self.events, work, cluster, &seen.outcomes);
    }

    /// Writes the status of a Work if it changed, and records events about the changes.
    async fn write_status(
        &self,
        input: &WorkInput,
        next: NextStatus,
        observations: &Observations,
    ) -> Result<Option<Work>, kube::Error> {
        let (work, cluster) = (&input.work, input.cluster.as_str());
        let has_changed = next.has_changed();
        let NextStatus {
            status,
            changes,
            failures,
            ..
        } = next;
        recorded_events::record_failures(&self.events, work, &failures);
        self.record_outcomes(input, observations, changes);
        if !has_changed {
            return Ok(None);
        }
        let mut patch = json!({ "status": { "conditions": status.conditions } });
        if !status.manifest_statuses.is_empty() || changes.manifest_statuses {
            patch["status"]["manifestStatuses"] = json!(status.manifest_statuses);
        }
        let name = work.metadata.name.as_deref().unwrap_or_default();
        let patched = self
            .works(work)
            .patch_status(name, &PatchParams::default(), &Patch::Merge(patch))
            .await;
        match patched {
            Ok(written) => {
                let reasons = match &observations.applied {
                    Some(ApplyOutcome::Failed { reasons, .. }) => reasons.join("; "),
                    Some(ApplyOutcome::NotDeleted(reason)) => reason.clone(),
                    Some(ApplyOutcome::Succeeded) | None => String::new(),
                };
                if changes.drifted {
                    let outcomes = &observations.outcomes;
                    drift_events::record_drifted(&self.events, work, cluster, outcomes);
                }
                let has_health =
                    |version: &str, kind: &str| self.interpreter.rules().has_health(version, kind);
                recorded_events::record_work(
                    &self.events,
                    work,
                    cluster,
                    &status,
                    &reasons,
                    changes,
                    has_health,
                );
                Ok(Some(written))
            }
            Err(error) if has_code(&error, 404) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes the execution finalizer from a Work.
    async fn remove_finalizer(&self, work: &Work) -> Result<(), WorkError> {
        let api = self.works(work);
        let name = work.metadata.name.as_deref().unwrap_or_default();
        let uid = &work.metadata.uid;
        let parameters = PatchParams::default();
        let mut attempts = Attempts::new(Some(work.clone()));
        while attempts.begin() {
            // A new Work of the same name keeps its finalizer.
            let current = attempts.known();
            let Some(work) = current.filter(|work| work.metadata.uid == *uid) else {
                return Ok(());
            };
            let finalizers = work.metadata.finalizers.iter().flatten();
            let others = finalizers.filter(|name| *name != EXECUTION_FINALIZER);
            let patch = Patch::Merge(json!({ "metadata": {
                "finalizers": others.collect::<Vec<_>>(),
                "resourceVersion": work.metadata.resource_version } }));
            let response = api.patch(name, &parameters, &patch).await;
            if attempts.end(response, api.get_opt(name)).await?.is_some() {
                return Ok(());
            }
        }
        Err(WorkError::Conflicts)
    }

    fn works(&self, work: &Work) -> Api<Work> {
        let namespace = work.metadata.namespace.as_deref().unwrap_or_default();
        Api::namespaced(self.control_plane.clone(), namespace)
    }

    fn counter<'a>(&'a self, manifest: &'a Value, cluster: &'a str) -> WriteCounter<'a> {
        let (api_version, kind) = kind_of(manifest);
        WriteCounter {
            monitor: &self.monitor,
            of: MemberKind {
                api_version,
                kind,
                cluster,
            },
        }
    }

    /// Deletes the objects of a Work from the member. If the Work preserves its objects, the objects stay and lose only
    /// Karmada's marks. Returns the names of deleted objects that still exist.
    async fn delete_objects(
        &self,
        input: &WorkInput,
        id: Option<&str>,
        result: &mut WorkResult,
    ) -> Result<Vec<String>, String> {
        let member = input.member.as_ref().map_err(Clone::clone)?;
        let manifests = &input.work.spec.workload.manifests;
        let preserved = input.work.spec.preserve_resources_on_deletion == Some(true);
        let mut left = Vec::new();
        for (index, (manifest, cached)) in manifests.iter().zip(&input.cached).enumerate() {
            let counter = &self.counter(manifest, &input.cluster);
            let ownership = input.ownership(index, id);
            let deletion = async {
                if preserved {
                    let released =
                        member_object::release(member, manifest, ownership, &self.interpreter);
                    released.await.map(|()| Deletion::Gone)
                } else {
                    member_object::delete(member, manifest, cached, ownership, counter).await
                }
            };
            match tokio::time::timeout(MEMBER_TIMEOUT, deletion).await {
                Ok(Ok(Deletion::Gone)) => {}
                Ok(Ok(Deletion::Requested(resource))) => {
                    // The watch event of the deletion starts the next attempt.
                    result.kinds.push(resource);
                    left.push(member_object::title(manifest));
                }
                Ok(Err(error)) => {
                    result.unauthorized |= error.is_unauthorized();
                    return Err(error.to_string());
                }
                Err(_) => return Err(timeout_message(&input.cluster)),
            }
        }
        match self.remove_objects(input, &[], id, result).await.pop() {
            Some(reason) => Err(reason),
            None => Ok(left),
        }
    }

    /// Removes the objects that a Work no longer contains from the member, unless another Work has applied them. `kept`
    /// are the UIDs of the Work's objects. Returns the reasons of failures.
    async fn remove_objects(
        &self,
        input: &WorkInput,
        kept: &[&str],
        id: Option<&str>,
        result: &mut WorkResult,
    ) -> Vec<String> {
        let mut failures = Vec::new();
        let Ok(member) = &input.member else {
            return failures;
        };
        for object in &input.removed {
            let manifest = identifying_manifest(object);
            let counter = &self.counter(&manifest, &input.cluster);
            let removal = member_object::remove(member, &manifest, &input.work, kept, id, counter);
            match tokio::time::timeout(MEMBER_TIMEOUT, removal).await {
                Ok(Ok(())) => result.removed.push(object.clone()),
                Ok(Err(error)) => {
                    result.unauthorized |= error.is_unauthorized();
                    failures.push(error.to_string());
                }
                Err(_) => failures.push(timeout_message(&input.cluster)),
            }
        }
        failures
    }

    /// Reads the objects of a Work that are not cached yet, and adds their kinds to the watched kinds. Returns the
    /// names of the objects that the member does not have, or that another control plane owns.
    async fn observe_objects(
        &self,
        input: &WorkInput,
        id: Option<&str>,
        result: &mut WorkResult,
        objects: &mut [Option<Value>],
    ) -> Result<Vec<String>, String> {
        let member = input.member.as_ref().map_err(Clone::clone)?;
        let manifests = input.work.spec.workload.manifests.iter();
        let mut missing = Vec::new();
        let manifests = manifests.zip(&input.cached).zip(objects);
        for (index, ((manifest, cached), slot)) in manifests.enumerate() {
            let observation = member_object::observe(member, manifest, cached);
            match tokio::time::timeout(MEMBER_TIMEOUT, observation).await {
                Ok(Ok((resource, object))) => {
                    result.kinds.push(resource);
                    let applied = input.ownership(index, id).applied;
                    *slot = object
                        .map(|object| object.value.clone())
                        .filter(|object| other_owner(object, manifest, applied, id).is_none());
                    if slot.is_none() {
                        missing.push(member_object::title(manifest));
                    }
                }
                Ok(Err(error)) => {
                    result.unauthorized |= error.is_unauthorized();
                    return Err(error.to_string());
                }
                Err(_) => return Err(timeout_message(&input.cluster)),
            }
        }
        Ok(missing)
    }

    /// Applies the manifests of a Work to the member.
    async fn apply_manifests(
        &self,
        input: &WorkInput,
        id: Option<&str>,
        result: &mut WorkResult,
        objects: &mut [Option<Value>],
    ) -> (ApplyOutcome, Vec<ManifestOutcome>) {
        let manifests = &input.work.spec.workload.manifests;
        let member = match &input.member {
            Ok(member) => member,
            Err(reason) => {
                let reasons = vec![reason.clone()];
                let failed = manifests
                    .iter()
                    .map(|_| ManifestOutcome::Failed(reason.clone()));
                return (ApplyOutcome::Failed { done: 0, reasons }, failed.collect());
            }
        };
        let mut outcomes = Vec::with_capacity(manifests.len());
        for (index, manifest) in manifests.iter().enumerate() {
            let cached = input.cached.get(index).cloned().unwrap_or(Cached::Unknown);
            let ownership = input.ownership(index, id);
            let counter = &self.counter(manifest, &input.cluster);
            let interpreter = &self.interpreter;
            let request = apply(member, manifest, cached, ownership, interpreter, counter);
            let Ok(response) = tokio::time::timeout(MEMBER_TIMEOUT, request).await else {
                outcomes.push(ManifestOutcome::Failed(timeout_message(&input.cluster)));
                continue;
            };
            match response {
                Ok((resource, applied)) => {
                    let object = applied.object().map(|object| &object.value);
                    // A difference that is left is compared again until the object equals the applied state.
                    if let Some(slot) = result.applied.get_mut(index)
                        && !matches!(applied, Applied::Drifted { .. })
                    {
                        *slot = object.map(|object| AppliedState::of(manifest, object));
                    }
                    if let (Some(slot), Some(object)) = (objects.get_mut(index), object) {
                        *slot = Some(object.clone());
                    }
                    result.kinds.push(Arc::clone(&resource));
                    outcomes.push(match applied {
                        Applied::Written {
                            object,
                            reverted,
                            corrected,
                        } => {
                            result.objects.push((resource, object));
                            ManifestOutcome::Written {
                                reverted,
                                corrected,
                            }
                        }
                        Applied::Drifted { fields, .. } => ManifestOutcome::Drifted(fields),
                        Applied::Unchanged(_) => ManifestOutcome::Unchanged,
                        Applied::Terminating => ManifestOutcome::Terminating,
                    });
                }
                Err(error) => {
                    result.unauthorized |= error.is_unauthorized();
                    // The kind is watched even after a failure: the object may exist, and its status is reported.
                    if let Ok(resource) = member_object::resource_type(member, manifest).await {
                        result.kinds.push(resource);
                    }
                    // The applied state of an object that another control plane has replaced is kept, because it
                    // prevents this process from replacing the object again.
                    if let Some(slot) = result.applied.get_mut(index)
                        && !error.is_of_other_control_plane()
                    {
                        *slot = None;
                    }
                    outcomes.push(ManifestOutcome::Failed(error.to_string()));
                }
            }
        }
        let reasons: Vec<String> = outcomes
            .iter()
            .filter_map(|outcome| match outcome {
                ManifestOutcome::Failed(reason) => Some(reason.clone()),
                _ => None,
            })
            .collect();
        let applied = if reasons.is_empty() {
            ApplyOutcome::Succeeded
        } else {
            ApplyOutcome::Failed {
                done: manifests.len().saturating_sub(reasons.len()),
                reasons,
            }
        };
        (applied, outcomes)
    }
}

/// Looks at the pods of an unhealthy workload if a look is due, and adds what it finds to the next status.
async fn look_if_due(
    input: &WorkInput,
    objects: &[Option<Value>],
    next: &mut NextStatus,
) -> WorkloadHealth {
    let Ok(member) = &input.member else {
        return WorkloadHealth::Unobserved;
    };
    if !input.action.needs_member() || objects.iter().all(Option::is_none) {
        return WorkloadHealth::Unobserved;
    }
    let Some(workload) = unhealthy_workload(objects, &next.status.manifest_statuses) else {
        return WorkloadHealth::Well;
    };
    if input.look == Look::NotDue {
        return WorkloadHealth::Unhealthy(Looked::No);
    }
    WorkloadHealth::Unhealthy(match look(&member.client(), workload, input.look).await {
        LookResult::Seen(problem) => {
            next.set_problem(problem.as_ref(), &input.cluster);
            Looked::Yes
        }
        LookResult::NoResponse => Looked::Yes,
        LookResult::Refused => Looked::Refused,
    })
}

/// Returns the outcome for a suspended Work whose objects were applied and are missing now, or `None` if there are no
/// such objects. A missing object must not count as ready.
fn missing_objects(work: &Work, missing: &[String]) -> Option<ApplyOutcome> {
    let conditions = work.status.as_ref().map(|status| &status.conditions[..]);
    let is_applied = condition::is_true(conditions.unwrap_or_default(), CONDITION_APPLIED);
    (is_applied && !missing.is_empty()).then(|| ApplyOutcome::Failed {
        done: work
            .spec
            .workload
            .manifests
            .len()
            .saturating_sub(missing.len()),
        reasons: vec![format!(
            "{} does not exist in the cluster, and dispatching is suspended; resume dispatching to create it again",
            missing.join(", ")
        )],
    })
}

/// Reports whether the objects of a Work are about to change: they have just been written, or are not healthy yet.
/// Failures and removals are no progress, and neither is an object that was reported as healthy and no longer is.
fn is_progressing(work: &Work, observations: &Observations, next: &WorkStatus) -> bool {
    let is_written = |outcome: &ManifestOutcome| matches!(outcome, ManifestOutcome::Written { .. });
    let was_healthy = work.status.as_ref().is_some_and(|status| {
        !status.manifest_statuses.is_empty() && !has_unhealthy_object(status)
    });
    let is_drifted = |outcome: &ManifestOutcome| matches!(outcome, ManifestOutcome::Drifted(_));
    matches!(observations.applied, Some(ApplyOutcome::Succeeded))
        && !observations.outcomes.iter().any(is_drifted)
        && observations.removed.is_empty()
        && (observations.outcomes.iter().any(is_written)
            || has_unhealthy_object(next) && !was_healthy)
}

/// Records a span for an application of a Work that wrote an object or failed. The parent of the span is in an
/// annotation of the Work.
fn trace_application(
    input: &WorkInput,
    start: SystemTime,
    applied: &ApplyOutcome,
    outcomes: &[ManifestOutcome],
) {
    let is_unchanged = |outcome: &ManifestOutcome| {
        matches!(
            outcome,
            ManifestOutcome::Unchanged | ManifestOutcome::Terminating | ManifestOutcome::Drifted(_)
        )
    };
    if !berth_telemetry::is_enabled() || outcomes.iter().all(is_unchanged) {
        return;
    }
    let annotations = input.work.metadata.annotations.as_ref();
    let parent = annotations.and_then(|all| all.get(TRACEPARENT)?.parse().ok());
    let mut span = Span::start("apply_work", parent.as_ref(), start);
    span.set("cluster", input.cluster.clone());
    span.set("work", input.work.metadata.name.clone().unwrap_or_default());
    if let ApplyOutcome::Failed { reasons, .. } = applied {
        span.fail(reasons.join("; "));
    }
}

fn timeout_message(cluster: &str) -> String {
    let seconds = MEMBER_TIMEOUT.as_secs();
    format!("cluster {cluster} did not respond within {seconds} s")
}
