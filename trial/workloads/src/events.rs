//! The events that controllers, the scheduler and kubelets record. The events are a pure function of an action and of
//! the cache before the action.

use berth_events::{Event, EventRecorder, Note, Severity};
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, ObjectReference, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::{Resource as _, ResourceExt as _};

use crate::action::Action;
use crate::cache::{Cache, Key, key};
use crate::container_status::{DEADLINE_EXCEEDED, DEADLINE_MESSAGE, PULL_ERROR};
use crate::jobs::{self, JobState};
use crate::owned_pods;
use crate::replica_sets;
use crate::retries::Refusal;

const SCHEDULER: &str = "default-scheduler";
const KUBELET: &str = "kubelet";

/// An event with its component. The host is set for components with one instance on each node.
#[derive(Debug, PartialEq)]
pub(crate) struct SimulatedEvent {
    by: &'static str,
    host: Option<String>,
    event: Event,
}

impl SimulatedEvent {
    /// Records the event.
    pub(crate) fn record(self, recorder: &EventRecorder) {
        let recorder = recorder.of(self.by);
        let recorder = match &self.host {
            Some(host) => recorder.on(host),
            None => recorder,
        };
        recorder.record(self.event);
    }
}

/// Returns the events for a completed action. `cache` is the cache before the action.
pub(crate) fn of(action: &Action, cache: &Cache) -> Vec<SimulatedEvent> {
    match action {
        Action::CreatePod(pod) => by_owner(&pod.metadata, Operation::Create)
            .into_iter()
            .collect(),
        Action::DeletePod(key) => cache
            .pods
            .get(key)
            .map_or_else(Vec::new, |pod| pod_deleted(pod, cache)),
        Action::Bind(key, node) => cache
            .pods
            .get(key)
            .map(|pod| {
                let message = format!("Successfully assigned {}/{} to {node}", key.0, key.1);
                about_pod(pod, SCHEDULER, normal("Scheduled", message))
            })
            .into_iter()
            .collect(),
        Action::PodStatus(pod) => cache
            .pods
            .get(&key(&**pod))
            .map_or_else(Vec::new, |before| pod_changed(before, pod)),
        Action::CreateReplicaSet(set) => scaling_event(set, 0, replica_sets::wanted(set))
            .into_iter()
            .collect(),
        Action::Scale(key, replicas) => scaling_event_from(key, *replicas, cache)
            .into_iter()
            .collect(),
        Action::AutoscalerStatus(autoscaler) => rescaled(autoscaler).into_iter().collect(),
        Action::CreateJob(job) => by_owner(&job.metadata, Operation::Create)
            .into_iter()
            .collect(),
        Action::DeleteJob(key) => cache
            .jobs
            .get(key)
            .and_then(|job| by_owner(&job.metadata, Operation::Delete))
            .into_iter()
            .collect(),
        Action::JobStatus(job) => cache
            .jobs
            .get(&key(&**job))
            .map_or_else(Vec::new, |before| job_ended(before, job)),
        _ => Vec::new(),
    }
}

/// The event for a refused creation or deletion, without the message of the server.
pub(crate) struct RefusalEvent {
    owner: ObjectReference,
    by: &'static str,
    reason: &'static str,
    /// The start of the message. The message of the server follows.
    text: String,
}

impl RefusalEvent {
    /// Returns the refusal and the event for an error. An error that is not a refusal has no event: a conflict, a
    /// namespace that is being deleted, or a server that does not respond.
    pub(crate) fn because_of(self, error: &kube::Error) -> Option<(Refusal, SimulatedEvent)> {
        let kube::Error::Api(status) = error else {
            return None;
        };
        let mut causes = status.details.iter().flat_map(|details| &details.causes);
        if status.code == 409 || causes.any(|cause| cause.reason == "NamespaceTerminating") {
            return None;
        }
        let message = status.message.trim().to_owned();
        let note = warning(self.reason, format!("{}{message}", self.text));
        let event = SimulatedEvent {
            by: self.by,
            host: None,
            event: note.about(self.owner),
        };
        let reason = self.reason;
        Some((Refusal { reason, message }, event))
    }
}

/// Returns the event to record if the server refuses an action. `cache` is the cache before the action.
pub(crate) fn of_refusal(action: &Action, cache: &Cache) -> Option<RefusalEvent> {
    const CREATE: (&str, &str) = ("FailedCreate", "creat");
    const DELETE: (&str, &str) = ("FailedDelete", "delet");
    if let Action::CreateClaim(claim, pod, set) = action {
        let (claim, name) = (claim.name_any(), set.name.as_deref().unwrap_or_default());
        return Some(RefusalEvent {
            owner: (**set).clone(),
            by: controller_name("StatefulSet")?,
            reason: CREATE.0,
            text: format!("create Claim {claim} Pod {pod} in StatefulSet {name} failed error: "),
        });
    }
    let ((reason, verb), metadata, kind) = match action {
        Action::CreatePod(pod) => (CREATE, &pod.metadata, "Pod"),
        Action::DeletePod(key) => (DELETE, &cache.pods.get(key)?.metadata, "Pod"),
        Action::CreateJob(job) => (CREATE, &job.metadata, "Job"),
        Action::DeleteJob(key) => (DELETE, &cache.jobs.get(key)?.metadata, "Job"),
        Action::CreateReplicaSet(set) => (CREATE, &set.metadata, "ReplicaSet"),
        _ => return None,
    };
    let owner = owned_pods::controller_of(metadata)?;
    let name = metadata.name.as_deref().unwrap_or_default();
    let (reason, text) = match owner.kind.as_str() {
        "Deployment" => (
            "ReplicaSetCreateError",
            format!("Failed to create new replica set \"{name}\": "),
        ),
        "CronJob" => (reason, format!("Error {verb}ing job: ")),
        "StatefulSet" => (
            reason,
            format!(
                "{verb}e {kind} {name} in StatefulSet {} failed error: ",
                owner.name
            ),
        ),
        _ => (reason, format!("Error {verb}ing: ")),
    };
    Some(RefusalEvent {
        owner: owner_reference(owner, metadata.namespace.as_ref()),
        by: controller_name(&owner.kind)?,
        reason,
        text,
    })
}

fn normal(reason: &'static str, message: impl Into<String>) -> Note {
    Note {
        severity: Severity::Normal,
        reason,
        message: message.into(),
    }
}

fn warning(reason: &'static str, message: impl Into<String>) -> Note {
    Note {
        severity: Severity::Warning,
        ..normal(reason, message)
    }
}

fn about_pod(pod: &Pod, by: &'static str, note: Note) -> SimulatedEvent {
    SimulatedEvent {
        by,
        host: None,
        event: note.about(pod.object_ref(&())),
    }
}

fn about_container(pod: &Pod, container: &str, note: Note) -> SimulatedEvent {
    let mut init = pod
        .spec
        .iter()
        .flat_map(|spec| &spec.init_containers)
        .flatten();
    let list = if init.any(|init| init.name == container) {
        "initContainers"
    } else {
        "containers"
    };
    let object = ObjectReference {
        field_path: Some(format!("spec.{list}{{{container}}}")),
        ..pod.object_ref(&())
    };
    SimulatedEvent {
        by: KUBELET,
        host: owned_pods::node(pod).map(str::to_owned),
        event: note.about(object),
    }
}

fn about_owner(
    owner: &OwnerReference,
    namespace: Option<&String>,
    by: &'static str,
    note: Note,
) -> SimulatedEvent {
    SimulatedEvent {
        by,
        host: None,
        event: note.about(owner_reference(owner, namespace)),
    }
}

/// Returns a reference to the owner of an object.
fn owner_reference(owner: &OwnerReference, namespace: Option<&String>) -> ObjectReference {
    ObjectReference {
        api_version: Some(owner.api_version.clone()),
        kind: Some(owner.kind.clone()),
        name: Some(owner.name.clone()),
        namespace: namespace.cloned(),
        uid: Some(owner.uid.clone()),
        ..ObjectReference::default()
    }
}

/// The operation of a controller on an object that it owns.
#[derive(Clone, Copy)]
enum Operation {
    Create,
    Delete,
}

/// Returns the name of the controller of a kind of workload.
fn controller_name(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "Deployment" => "deployment-controller",
        "ReplicaSet" => "replicaset-controller",
        "ReplicationController" => "replication-controller",
        "DaemonSet" => "daemonset-controller",
        "Job" => "job-controller",
        "CronJob" => "cronjob-controller",
        "StatefulSet" => "statefulset-controller",
        _ => return None,
    })
}

/// Returns the event for a controller that cannot create pods in a full cluster.
pub(crate) fn pods_refused(owner: &ObjectReference) -> Option<SimulatedEvent> {
    let message = format!(
        "Error creating: a simulated cluster has at most {} pods; reduce the replicas",
        owned_pods::MAX_PODS
    );
    Some(SimulatedEvent {
        by: controller_name(owner.kind.as_deref()?)?,
        host: None,
        event: warning("FailedCreate", message).about(owner.clone()),
    })
}

/// Returns the event for a pod or Job that its controller created or deleted.
fn by_owner(metadata: &ObjectMeta, operation: Operation) -> Option<SimulatedEvent> {
    let owner = owned_pods::controller_of(metadata)?;
    let name = metadata.name.clone().unwrap_or_default();
    let (reason, verb, past) = match operation {
        Operation::Create => ("SuccessfulCreate", "create", "Created"),
        Operation::Delete => ("SuccessfulDelete", "delete", "Deleted"),
    };
    let by = controller_name(&owner.kind)?;
    let message = match owner.kind.as_str() {
        "CronJob" => format!("{past} job {name}"),
        "StatefulSet" => format!("{verb} Pod {name} in StatefulSet {} successful", owner.name),
        _ => format!("{past} pod: {name}"),
    };
    let note = normal(reason, message);
    Some(about_owner(owner, metadata.namespace.as_ref(), by, note))
}

/// Returns the event for a ReplicaSet that its Deployment scaled.
fn scaling_event(set: &ReplicaSet, from: usize, to: usize) -> Option<SimulatedEvent> {
    let owner = owned_pods::controller_of(&set.metadata)?;
    if from == to {
        return None;
    }
    let way = if from < to { "up" } else { "down" };
    let name = set.name_any();
    let message = format!("Scaled {way} replica set {name} from {from} to {to}");
    let note = normal("ScalingReplicaSet", message);
    let namespace = set.metadata.namespace.as_ref();
    Some(about_owner(owner, namespace, "deployment-controller", note))
}

fn scaling_event_from(key: &Key, replicas: i32, cache: &Cache) -> Option<SimulatedEvent> {
    let set = cache.replica_sets.get(key)?;
    let to = usize::try_from(replicas).unwrap_or_default();
    scaling_event(set, replica_sets::wanted(set), to)
}

/// Returns the event for a workload that an autoscaler scaled.
fn rescaled(autoscaler: &HorizontalPodAutoscaler) -> Option<SimulatedEvent> {
    let status = autoscaler.status.as_ref()?;
    let (from, to) = (status.current_replicas?, status.desired_replicas);
    if from == to {
        return None;
    }
    let limit = |reason: &str| {
        let mut conditions = status.conditions.iter().flatten();
        conditions.any(|condition| condition.reason.as_deref() == Some(reason))
    };
    let reason = if from < to {
        if limit("TooFewReplicas") {
            "Current number of replicas below Spec.MinReplicas"
        } else {
            "cpu resource utilization (percentage of request) above target"
        }
    } else if limit("TooManyReplicas") {
        "Current number of replicas above Spec.MaxReplicas"
    } else {
        "All metrics below target"
    };
    let note = normal(
        "SuccessfulRescale",
        format!("New size: {to}; reason: {reason}"),
    );
    Some(SimulatedEvent {
        by: "horizontal-pod-autoscaler",
        host: None,
        event: note.about(autoscaler.object_ref(&())),
    })
}

/// Returns the events for a deleted pod, whose containers stop. The controller of the pod records an event only if this
/// controller deleted the pod.
fn pod_deleted(pod: &Pod, cache: &Cache) -> Vec<SimulatedEvent> {
    let node = owned_pods::node(pod);
    let alive = node.is_none_or(|node| {
        let key = (String::new(), node.to_owned());
        cache.nodes.get(&key).is_some()
    });
    if !alive {
        return Vec::new();
    }
    let running =
        containers(pod).filter(|status| status.state.as_ref().is_some_and(|s| s.running.is_some()));
    let stopped = running.map(|status| {
        let killing = normal("Killing", format!("Stopping container {}", status.name));
        about_container(pod, &status.name, killing)
    });
    let unasked = pod.metadata.deletion_timestamp.is_none();
    let removed = unasked.then(|| by_owner(&pod.metadata, Operation::Delete));
    removed.flatten().into_iter().chain(stopped).collect()
}

fn containers(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    let status = pod.status.iter();
    status.flat_map(|status| {
        let init = status.init_container_statuses.iter().flatten();
        init.chain(status.container_statuses.iter().flatten())
            .chain(status.ephemeral_container_statuses.iter().flatten())
    })
}

/// Returns the events for a changed pod status.
fn pod_changed(before: &Pod, after: &Pod) -> Vec<SimulatedEvent> {
    let mut events = Vec::new();
    let why = unschedulable(after);
    if why.is_some() && why != unschedulable(before) {
        let note = warning("FailedScheduling", why.unwrap_or_default());
        events.push(about_pod(after, SCHEDULER, note));
    }
    let expired = |pod: &Pod| {
        let reason = pod
            .status
            .as_ref()
            .and_then(|status| status.reason.as_deref());
        reason == Some(DEADLINE_EXCEEDED)
    };
    if expired(after) && !expired(before) {
        let note = normal(DEADLINE_EXCEEDED, DEADLINE_MESSAGE);
        events.push(SimulatedEvent {
            host: owned_pods::node(after).map(str::to_owned),
            ..about_pod(after, KUBELET, note)
        });
    }
    for status in containers(after) {
        let known = containers(before).find(|known| known.name == status.name);
        let notes = container_changed(after, known, status);
        let notes = notes.into_iter();
        events.extend(notes.map(|note| about_container(after, &status.name, note)));
    }
    events
}

fn unschedulable(pod: &Pod) -> Option<&str> {
    let status = pod.status.as_ref()?;
    let mut conditions = status.conditions.iter().flatten();
    let condition = conditions.find(|c| c.type_ == "PodScheduled" && c.status == "False")?;
    condition.message.as_deref()
}

/// The state of a container.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ContainerActivity {
    Waiting,
    Running,
    Ended,
    Crashing,
    NoImage,
}

fn activity(state: Option<&ContainerState>) -> ContainerActivity {
    let Some(state) = state else {
        return ContainerActivity::Waiting;
    };
    if state.running.is_some() {
        return ContainerActivity::Running;
    }
    if state.terminated.is_some() {
        return ContainerActivity::Ended;
    }
    let waiting = state.waiting.as_ref();
    match waiting.and_then(|waiting| waiting.reason.as_deref()) {
        Some("CrashLoopBackOff") => ContainerActivity::Crashing,
        Some("ImagePullBackOff") => ContainerActivity::NoImage,
        _ => ContainerActivity::Waiting,
    }
}

fn container_changed(
    pod: &Pod,
    before: Option<&ContainerStatus>,
    after: &ContainerStatus,
) -> Vec<Note> {
    let was = activity(before.and_then(|before| before.state.as_ref()));
    let is = activity(after.state.as_ref());
    let restarted = before.map_or(0, |before| before.restart_count) < after.restart_count;
    if was == is && !restarted {
        let fails = is == ContainerActivity::Running
            && before.is_some_and(|before| before.ready)
            && !after.ready;
        let message = "Readiness probe failed: simulated: the container is not ready";
        return fails
            .then(|| warning("Unhealthy", message))
            .into_iter()
            .collect();
    }
    let (name, image) = (&after.name, &after.image);
    let mut notes = Vec::new();
    let starts = match is {
        ContainerActivity::Running | ContainerActivity::Crashing => true,
        ContainerActivity::Ended => was != ContainerActivity::Running,
        ContainerActivity::Waiting | ContainerActivity::NoImage => false,
    };
    if starts {
        let message = format!("Container image \"{image}\" already present on machine");
        notes.extend([
            normal("Pulled", message),
            normal("Created", format!("Created container: {name}")),
            normal("Started", format!("Started container {name}")),
        ]);
    }
    match is {
        ContainerActivity::Crashing => {
            let whose = format!("{}_{}", pod.name_any(), pod.namespace().unwrap_or_default());
            let uid = pod.uid().unwrap_or_default();
            let message =
                format!("Back-off restarting failed container {name} in pod {whose}({uid})");
            notes.push(warning("BackOff", message));
        }
        ContainerActivity::NoImage => {
            notes.extend([
                normal("Pulling", format!("Pulling image \"{image}\"")),
                warning(
                    "Failed",
                    format!("Failed to pull image \"{image}\": {PULL_ERROR}"),
                ),
                warning("Failed", "Error: ErrImagePull"),
                normal("BackOff", format!("Back-off pulling image \"{image}\"")),
                warning("Failed", "Error: ImagePullBackOff"),
            ]);
        }
        ContainerActivity::Waiting | ContainerActivity::Running | ContainerActivity::Ended => {}
    }
    notes
}

/// Returns the events for a finished Job, from the Job controller and from its CronJob.
fn job_ended(before: &Job, after: &Job) -> Vec<SimulatedEvent> {
    let state = jobs::reported_state(after);
    if state == jobs::reported_state(before) {
        return Vec::new();
    }
    let (note, condition) = match state {
        JobState::Complete => (normal("Completed", "Job completed"), "Complete"),
        JobState::Failed(failure) => (warning(failure.reason(), failure.message()), "Failed"),
        JobState::Unfinished | JobState::Suspended => return Vec::new(),
    };
    let finished = SimulatedEvent {
        by: "job-controller",
        host: None,
        event: note.about(after.object_ref(&())),
    };
    let owner = owned_pods::controller_of(&after.metadata);
    let seen = owner.map(|owner| {
        let name = after.name_any();
        let message = format!("Saw completed job: {name}, condition: {condition}");
        let namespace = after.metadata.namespace.as_ref();
        let note = normal("SawCompletedJob", message);
        about_owner(owner, namespace, "cronjob-controller", note)
    });
    std::iter::once(finished).chain(seen).collect()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::PersistentVolumeClaim;
    use serde_json::json;

    use super::*;

    fn pod(status: serde_json::Value) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": "web-1", "namespace": "shop", "uid": "u1", "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u0", "controller": true}]},
            "spec": {"containers": []},
            "status": status,
        }))
        .unwrap()
    }

    fn container(state: serde_json::Value, restarts: i32) -> Pod {
        pod(json!({"containerStatuses": [{
            "name": "app", "image": "nginx", "imageID": "", "ready": false, "restartCount": restarts, "state": state}]}))
    }

    fn after(before: &Pod, action: &Action) -> Vec<(&'static str, &'static str, String)> {
        let mut cache = Cache::default();
        cache.pods.put(before.clone());
        let events = of(action, &cache).into_iter();
        events
            .map(|event| (event.by, event.event.reason, event.event.message))
            .collect()
    }

    fn reasons(before: &Pod, then: Pod) -> Vec<&'static str> {
        let events = after(before, &Action::PodStatus(Box::new(then)));
        events.into_iter().map(|(_, reason, _)| reason).collect()
    }

    #[test]
    fn pod_events_cover_its_lifecycle() {
        let created = container(json!({"waiting": {"reason": "ContainerCreating"}}), 0);
        let running = container(json!({"running": {}}), 0);
        let made = after(&created, &Action::CreatePod(Box::new(created.clone())));
        let expected = (
            "replicaset-controller",
            "SuccessfulCreate",
            "Created pod: web-1".to_owned(),
        );
        assert_eq!(made, [expected]);
        let bound = after(&created, &Action::Bind(key(&created), "n1".to_owned()));
        let message = "Successfully assigned shop/web-1 to n1".to_owned();
        assert_eq!(bound, [("default-scheduler", "Scheduled", message)]);
        assert_eq!(
            reasons(&created, running.clone()),
            ["Pulled", "Created", "Started"]
        );
        assert_eq!(reasons(&running, running.clone()), [""; 0]);
        let gone = after(&running, &Action::DeletePod(key(&running)));
        let gone: Vec<_> = gone.iter().map(|(by, reason, _)| (*by, *reason)).collect();
        let expected = [
            ("replicaset-controller", "SuccessfulDelete"),
            ("kubelet", "Killing"),
        ];
        assert_eq!(gone, expected);
    }

    #[test]
    fn a_refused_claim_is_recorded_at_its_stateful_set() {
        let set = ObjectReference {
            kind: Some("StatefulSet".to_owned()),
            name: Some("db".to_owned()),
            ..ObjectReference::default()
        };
        let mut claim = PersistentVolumeClaim::default();
        claim.metadata.name = Some("data-db-0".to_owned());
        let action = Action::CreateClaim(Box::new(claim), "db-0".to_owned(), Box::new(set.clone()));
        let refusal = of_refusal(&action, &Cache::default()).unwrap();
        assert_eq!((refusal.owner, refusal.by), (set, "statefulset-controller"));
        assert_eq!(refusal.reason, "FailedCreate");
        assert_eq!(
            refusal.text,
            "create Claim data-db-0 Pod db-0 in StatefulSet db failed error: "
        );
    }

    #[test]
    fn kubelet_events_carry_the_node() {
        let mut running = container(json!({"running": {}}), 0);
        running.spec.get_or_insert_default().node_name = Some("n1".to_owned());
        let mut cache = Cache::default();
        let created = container(json!({"waiting": {"reason": "ContainerCreating"}}), 0);
        cache.pods.put(created.clone());
        let started = of(&Action::PodStatus(Box::new(running)), &cache);
        assert!(
            started
                .iter()
                .all(|event| event.host.as_deref() == Some("n1"))
        );
        let bound = of(&Action::Bind(key(&created), "n1".to_owned()), &cache);
        assert!(bound.iter().all(|event| event.host.is_none()));
        assert_eq!((started.len(), bound.len()), (3, 1));
    }

    #[test]
    fn crashes_and_missing_images_are_recorded() {
        let created = container(json!({"waiting": {"reason": "ContainerCreating"}}), 0);
        let crashing =
            |restarts| container(json!({"waiting": {"reason": "CrashLoopBackOff"}}), restarts);
        let again = ["Pulled", "Created", "Started", "BackOff"];
        assert_eq!(reasons(&created, crashing(1)), again);
        assert_eq!(reasons(&crashing(1), crashing(1)), [""; 0]);
        assert_eq!(reasons(&crashing(1), crashing(2)), again);
        let unknown = container(json!({"waiting": {"reason": "ImagePullBackOff"}}), 0);
        let events = reasons(&created, unknown);
        assert_eq!(events, ["Pulling", "Failed", "Failed", "BackOff", "Failed"]);
    }

    #[test]
    fn failing_readiness_probes_are_recorded() {
        let running = |ready: bool| {
            let mut pod = container(json!({"running": {}}), 0);
            let status = pod.status.get_or_insert_default();
            status.container_statuses.get_or_insert_default()[0].ready = ready;
            pod
        };
        assert_eq!(reasons(&running(true), running(false)), ["Unhealthy"]);
        assert_eq!(reasons(&running(false), running(true)), [""; 0]);
    }

    #[test]
    fn failed_scheduling_is_recorded_when_the_message_changes() {
        let waiting = |message: &str| {
            pod(
                json!({"conditions": [{"type": "PodScheduled", "status": "False", "message": message}]}),
            )
        };
        let new = pod(json!({}));
        assert_eq!(reasons(&new, waiting("0/1")), ["FailedScheduling"]);
        assert_eq!(reasons(&waiting("0/1"), waiting("0/1")), [""; 0]);
        assert_eq!(
            reasons(&waiting("0/1"), waiting("0/2")),
            ["FailedScheduling"]
        );
    }

    #[test]
    fn deletion_by_users_is_not_attributed_to_the_controller() {
        let mut pod = container(json!({"running": {}}), 0);
        pod.metadata.deletion_timestamp = Some(
            k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH),
        );
        let events = after(&pod, &Action::DeletePod(key(&pod)));
        let events: Vec<_> = events.iter().map(|(_, reason, _)| *reason).collect();
        assert_eq!(events, ["Killing"]);
    }
}
