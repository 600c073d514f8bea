//! The lifecycle of pods as a kubelet reports it: bound, starting, then ready or failing, and finished if the
//! workload ends.

use std::time::Duration;

use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateRunning, ContainerStateTerminated,
    ContainerStateWaiting, ContainerStatus, EphemeralContainer, HostIP, Node, Pod, PodCondition,
    PodIP, PodStatus, ResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::ResourceExt as _;

use crate::action::Action;
use crate::cache::{Cache, key};
use crate::image_registry::ImageRegistry;
use crate::ownership;
use crate::plan::Plan;
use crate::pod_template;
use crate::scope::Scope;
use crate::simulation_annotations::{Failure, SimulationOptions};

pub(crate) fn plan(
    cache: &Cache,
    scope: &Scope,
    images: &ImageRegistry,
    now: jiff::Timestamp,
    plan: &mut Plan,
) {
    let of_scope = |pod: &&Pod| scope.covers(&pod.metadata);
    for pod in cache.pods.iter().filter(of_scope) {
        let place = ownership::node(pod).map(|node| (String::new(), node.to_owned()));
        let node = place.as_ref().and_then(|place| cache.nodes.get(place));
        if pod.metadata.deletion_timestamp.is_some() || (place.is_some() && node.is_none()) {
            plan.actions.push(Action::DeletePod(key(pod)));
        } else if let Some(node) = node
            && !ownership::is_finished(pod)
        {
            let options = simulation_options(pod, cache);
            plan_pod(pod, node, &options, images, now, plan);
        }
    }
}

/// Returns the simulation options of a pod: its own, its controller's, or those of the controller's controller.
fn simulation_options(pod: &Pod, cache: &Cache) -> SimulationOptions {
    let mut levels = vec![&pod.metadata];
    while let Some(owner) = levels.last().and_then(|metadata| owner_of(metadata, cache)) {
        levels.push(owner);
    }
    SimulationOptions::read(|key| {
        levels
            .iter()
            .find_map(|metadata| metadata.annotations.as_ref()?.get(key))
            .map(String::as_str)
    })
}

fn owner_of<'a>(metadata: &ObjectMeta, cache: &'a Cache) -> Option<&'a ObjectMeta> {
    let owner = ownership::controller_of(metadata)?;
    let key = (metadata.namespace.clone()?, owner.name.clone());
    let found = match owner.kind.as_str() {
        "ReplicaSet" => &cache.replica_sets.get(&key)?.metadata,
        "ReplicationController" => &cache.replication_controllers.get(&key)?.metadata,
        "Deployment" => &cache.deployments.get(&key)?.metadata,
        "StatefulSet" => &cache.stateful_sets.get(&key)?.metadata,
        "DaemonSet" => &cache.daemon_sets.get(&key)?.metadata,
        "Job" => &cache.jobs.get(&key)?.metadata,
        "CronJob" => &cache.cron_jobs.get(&key)?.metadata,
        _ => return None,
    };
    (found.uid.as_ref() == Some(&owner.uid)).then_some(found)
}

/// The waiting reason of a container that crashes repeatedly.
const BACK_OFF: &str = "CrashLoopBackOff";

/// The error of a pull.
pub(crate) const PULL_ERROR: &str = "simulated: the image cannot be pulled";

/// The stage of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Starting,
    Running,
    /// Running, with a failing readiness probe.
    Unready,
    Crashing,
    NoImage,
    Succeeded,
    Failed,
}

fn plan_pod(
    pod: &Pod,
    node: &Node,
    options: &SimulationOptions,
    images: &ImageRegistry,
    now: jiff::Timestamp,
    plan: &mut Plan,
) {
    let status = pod.status.clone().unwrap_or_default();
    let start = status.start_time.as_ref().map(|time| time.0);
    let begun = start.unwrap_or(now);
    let age = now.duration_since(begun);
    let age = Duration::try_from(age).unwrap_or_default();
    let ends = pod.spec.as_ref().and_then(|s| s.restart_policy.as_deref()) != Some("Always");
    let end = options.start_delay.saturating_add(options.run_time);
    let uid = || pod.metadata.uid.clone().unwrap_or_default();
    let stage = if age < options.start_delay || start.is_none() {
        plan.replan_after(uid(), begun, options.start_delay);
        Stage::Starting
    } else {
        match options.failure {
            Some(Failure::Pull) => Stage::NoImage,
            _ if lacks_image(pod, images) => Stage::NoImage,
            Some(Failure::Crash) if ends => Stage::Failed,
            Some(Failure::Crash) => Stage::Crashing,
            None if ends && age >= end => Stage::Succeeded,
            None => {
                if ends {
                    plan.replan_after(uid(), begun, end);
                }
                readiness(options, age, |flip| plan.replan_after(uid(), begun, flip))
            }
        }
    };
    let mut known = status.clone();
    if start.is_none() {
        // Timestamps have no fractions, so add a second rather than start too early.
        let later = i64::from(!options.start_delay.is_zero());
        let start = jiff::Timestamp::from_second(now.as_second() + later);
        known.start_time = Some(Time(start.unwrap_or(now)));
    }
    if known.host_ip.is_none()
        && let Some(ip) = host(node)
    {
        known.host_ips = Some(vec![HostIP { ip: ip.clone() }]);
        known.host_ip = Some(ip);
    }
    let has_image = |container: &Container| {
        options.failure != Some(Failure::Pull) && images.can_pull(container)
    };
    let next = pod_status(pod, &known, stage, has_image, now);
    if stage == Stage::Crashing {
        for container in next.container_statuses.iter().flatten() {
            if let Some(end) = last_end(container) {
                plan.replan_after(uid(), end, back_off(container.restart_count));
            }
        }
    }
    if next != status {
        let mut pod = pod.clone();
        pod.status = Some(next);
        plan.actions.push(Action::PodStatus(Box::new(pod)));
    }
}

fn lacks_image(pod: &Pod, images: &ImageRegistry) -> bool {
    let mut containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    containers.any(|container| !images.can_pull(container))
}

/// Returns the stage of a running pod, and passes the age at which its readiness changes to `replan_at`.
fn readiness(
    options: &SimulationOptions,
    age: Duration,
    replan_at: impl FnOnce(Duration),
) -> Stage {
    let Some(period) = options.readiness_flap else {
        return Stage::Running;
    };
    let elapsed = age.saturating_sub(options.start_delay);
    let flips = elapsed.div_duration_f64(period).floor();
    replan_at(options.start_delay + period.mul_f64(flips + 1.0));
    if flips % 2.0 == 0.0 {
        Stage::Running
    } else {
        Stage::Unready
    }
}

/// Returns the status for a stage. With [`Stage::NoImage`] the containers that have an image run.
fn pod_status(
    pod: &Pod,
    before: &PodStatus,
    stage: Stage,
    has_image: impl Fn(&Container) -> bool,
    now: jiff::Timestamp,
) -> PodStatus {
    let whole = Time(jiff::Timestamp::from_second(now.as_second()).unwrap_or(now));
    let ready = stage == Stage::Running;
    let phase = match stage {
        Stage::Starting | Stage::NoImage => "Pending",
        Stage::Running | Stage::Unready | Stage::Crashing => "Running",
        Stage::Succeeded => "Succeeded",
        Stage::Failed => "Failed",
    };
    let spec = pod.spec.clone().unwrap_or_default();
    let known = before.container_statuses.clone().unwrap_or_default();
    let containers: Vec<ContainerStatus> = spec
        .containers
        .iter()
        .map(|container| {
            let known = known.iter().find(|known| known.name == container.name);
            let stage = match stage {
                Stage::NoImage if has_image(container) => Stage::Running,
                stage => stage,
            };
            container_status(container, known, stage, &whole)
        })
        .collect();
    let known = before.ephemeral_container_statuses.iter().flatten();
    let debuggers = spec.ephemeral_containers.as_ref().map(|debuggers| {
        let status = |debugger: &EphemeralContainer| {
            let known = known.clone().find(|known| known.name == debugger.name);
            known
                .cloned()
                .unwrap_or_else(|| debugger_status(debugger, &whole))
        };
        debuggers.iter().map(status).collect()
    });
    let mut conditions = before.conditions.clone().unwrap_or_default();
    let not_ready = match stage {
        Stage::Running => None,
        Stage::Succeeded => Some("PodCompleted"),
        _ => Some("ContainersNotReady"),
    };
    let seen = pod.metadata.generation;
    for (kind, status, reason) in [
        ("PodScheduled", true, None),
        ("Initialized", true, None),
        ("ContainersReady", ready, not_ready),
        ("Ready", ready, not_ready),
    ] {
        set(&mut conditions, kind, status, reason, seen, &whole);
    }
    let mut status = PodStatus {
        phase: Some(phase.to_owned()),
        conditions: Some(conditions),
        observed_generation: seen,
        container_statuses: Some(containers),
        ephemeral_container_statuses: debuggers,
        ..before.clone()
    };
    if stage != Stage::Starting && status.pod_ip.is_none() {
        let address = address(pod);
        status.pod_ips = Some(vec![PodIP {
            ip: address.clone(),
        }]);
        status.pod_ip = Some(address);
    }
    status
}

fn container_status(
    container: &Container,
    known: Option<&ContainerStatus>,
    stage: Stage,
    now: &Time,
) -> ContainerStatus {
    let image = container.image.clone().unwrap_or_default();
    let restarts = known.map_or(0, |known| known.restart_count);
    let before = known
        .and_then(|known| known.state.clone())
        .unwrap_or_default();
    let waiting = |reason: &str, message: Option<&str>| ContainerState {
        waiting: Some(ContainerStateWaiting {
            reason: Some(reason.to_owned()),
            message: message.map(str::to_owned),
        }),
        ..ContainerState::default()
    };
    let ended = |code: i32, reason: &str| {
        let since = before.running.as_ref().and_then(|r| r.started_at.clone());
        let same = before.terminated.clone();
        ContainerState {
            terminated: same.or_else(|| {
                Some(ContainerStateTerminated {
                    exit_code: code,
                    reason: Some(reason.to_owned()),
                    started_at: since.or_else(|| Some(now.clone())),
                    finished_at: Some(now.clone()),
                    ..ContainerStateTerminated::default()
                })
            }),
            ..ContainerState::default()
        }
    };
    let container_state = match stage {
        Stage::Starting => waiting("ContainerCreating", None),
        Stage::NoImage => waiting(
            "ImagePullBackOff",
            Some(&format!(
                "Back-off pulling image \"{image}\": ErrImagePull: {PULL_ERROR}"
            )),
        ),
        Stage::Crashing => waiting(
            BACK_OFF,
            Some("simulated: the container ends as soon as it has started"),
        ),
        Stage::Running | Stage::Unready => ContainerState {
            running: before.running.clone().or_else(|| {
                Some(ContainerStateRunning {
                    started_at: Some(now.clone()),
                })
            }),
            ..ContainerState::default()
        },
        Stage::Succeeded => ended(0, "Completed"),
        Stage::Failed => ended(1, "Error"),
    };
    let waits = before.waiting.as_ref().map(|w| w.reason.as_deref()) == Some(Some(BACK_OFF));
    let due = known.is_none_or(|known| {
        let end = last_end(known).unwrap_or(jiff::Timestamp::MIN);
        end.saturating_add(back_off(known.restart_count))
            .is_ok_and(|next| next <= now.0)
    });
    let crashed = stage == Stage::Crashing && (!waits || due);
    let last = crashed.then(|| ContainerState {
        terminated: Some(ContainerStateTerminated {
            exit_code: 1,
            reason: Some("Error".to_owned()),
            started_at: Some(now.clone()),
            finished_at: Some(now.clone()),
            ..ContainerStateTerminated::default()
        }),
        ..ContainerState::default()
    });
    ContainerStatus {
        name: container.name.clone(),
        image,
        // Resource changes take effect immediately.
        resources: container
            .resources
            .clone()
            .or_else(|| Some(ResourceRequirements::default())),
        allocated_resources: container
            .resources
            .as_ref()
            .and_then(|r| r.requests.clone()),
        ready: stage == Stage::Running,
        started: Some(matches!(stage, Stage::Running | Stage::Unready)),
        restart_count: restarts + i32::from(crashed),
        last_state: last.or_else(|| known.and_then(|known| known.last_state.clone())),
        state: Some(container_state),
        ..known.cloned().unwrap_or_default()
    }
}

/// Returns the status of a debug container, which runs immediately.
fn debugger_status(debugger: &EphemeralContainer, now: &Time) -> ContainerStatus {
    ContainerStatus {
        name: debugger.name.clone(),
        image: debugger.image.clone().unwrap_or_default(),
        state: Some(ContainerState {
            running: Some(ContainerStateRunning {
                started_at: Some(now.clone()),
            }),
            ..ContainerState::default()
        }),
        ..ContainerStatus::default()
    }
}

/// Returns the time of the last termination of the container.
fn last_end(status: &ContainerStatus) -> Option<jiff::Timestamp> {
    let last = status.last_state.as_ref()?.terminated.as_ref()?;
    Some(last.finished_at.as_ref()?.0)
}

/// Returns the kubelet's back-off delay after a number of restarts.
fn back_off(restarts: i32) -> Duration {
    let doublings = u32::try_from(restarts.saturating_sub(1)).unwrap_or_default();
    let longest = Duration::from_mins(5);
    Duration::from_secs(10)
        .saturating_mul(1 << doublings.min(5))
        .min(longest)
}

fn set(
    conditions: &mut Vec<PodCondition>,
    kind: &str,
    status: bool,
    reason: Option<&str>,
    seen: Option<i64>,
    now: &Time,
) {
    let status = if status { "True" } else { "False" };
    let known = conditions
        .iter()
        .position(|condition| condition.type_ == kind);
    let before = known.map(|place| conditions.remove(place));
    let since = before
        .filter(|condition| condition.status == status)
        .and_then(|condition| condition.last_transition_time);
    let condition = PodCondition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: reason.map(str::to_owned),
        observed_generation: seen,
        last_transition_time: Some(since.unwrap_or_else(|| now.clone())),
        ..PodCondition::default()
    };
    conditions.insert(known.unwrap_or(conditions.len()), condition);
}

/// Returns the internal address of a node.
fn host(node: &Node) -> Option<String> {
    let addresses = node.status.as_ref()?.addresses.as_ref()?;
    let internal = addresses
        .iter()
        .find(|address| address.type_ == "InternalIP")?;
    Some(internal.address.clone())
}

/// Returns an unused address, derived from the pod.
fn address(pod: &Pod) -> String {
    let name = pod_template::short_name(&pod.uid().unwrap_or_default(), "", 3);
    let octets: Vec<String> = name
        .bytes()
        .map(|byte| (byte % 254 + 1).to_string())
        .collect();
    format!("10.{}", octets.join("."))
}
