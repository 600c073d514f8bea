//! The lifecycle of bound pods, as a kubelet reports it. A pod starts, and then is ready or fails. Pods whose restart
//! policy is not Always, such as the pods of Jobs, finish.

use std::time::Duration;

use berth_apimachinery::timestamp::whole_seconds;
use k8s_openapi::api::core::v1::{
    Container, ContainerStatus, EphemeralContainer, HostIP, Node, Pod, PodCondition, PodIP,
    PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::ResourceExt as _;

use crate::action::Action;
use crate::cache::{Cache, key};
use crate::container_status::{
    DEADLINE_EXCEEDED, DEADLINE_MESSAGE, Stage, back_off, container_status, debugger_status,
    init_container_statuses, last_end, waiting_status,
};
use crate::image_registry::ImageRegistry;
use crate::owned_pods;
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
        let node_key = owned_pods::node(pod).map(|node| (String::new(), node.to_owned()));
        let node = node_key.as_ref().and_then(|key| cache.nodes.get(key));
        if pod.metadata.deletion_timestamp.is_some() || (node_key.is_some() && node.is_none()) {
            plan.of(&pod.metadata).push(Action::DeletePod(key(pod)));
        } else if let Some(node) = node
            && !owned_pods::is_finished(pod)
        {
            let options = simulation_options(pod, cache);
            plan_pod(pod, node, &options, images, now, plan);
        }
    }
}

/// Returns the simulation options of a pod. Each option comes from the annotations of the pod, of its controller, or of
/// the controller's own controller. The first of these that has the annotation decides.
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
    let owner = owned_pods::controller_of(metadata)?;
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
    let deadline = pod.spec.as_ref().and_then(|s| s.active_deadline_seconds);
    let deadline = deadline.and_then(|seconds| u64::try_from(seconds).ok());
    let deadline = deadline
        .map(Duration::from_secs)
        .filter(|_| start.is_some());
    if let Some(deadline) = deadline {
        plan.replan_after(uid(), begun, deadline);
    }
    let stage = if deadline.is_some_and(|deadline| age >= deadline) {
        Stage::DeadlineExceeded
    } else if age < options.start_delay || start.is_none() {
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
        // The start time has whole seconds only. A pod with a start delay gets a start time that is one second later,
        // so that it is not ready too early.
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
        let mut changed = pod.clone();
        changed.status = Some(next);
        plan.of(&pod.metadata)
            .push(Action::PodStatus(Box::new(changed)));
    }
}

fn lacks_image(pod: &Pod, images: &ImageRegistry) -> bool {
    let init = pod
        .spec
        .iter()
        .flat_map(|spec| &spec.init_containers)
        .flatten();
    let mut containers = init.chain(pod.spec.iter().flat_map(|spec| &spec.containers));
    containers.any(|container| !images.can_pull(container))
}

/// Returns the stage of a running pod. Calls `replan_at` with the age at which the readiness changes next.
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

/// Returns the status of a pod at a stage. At [`Stage::NoImage`], the containers with an available image run.
fn pod_status(
    pod: &Pod,
    before: &PodStatus,
    stage: Stage,
    has_image: impl Fn(&Container) -> bool,
    now: jiff::Timestamp,
) -> PodStatus {
    let whole = Time(whole_seconds(now));
    let ready = stage == Stage::Running;
    let phase = match stage {
        Stage::Starting | Stage::NoImage => "Pending",
        Stage::Running | Stage::Unready | Stage::Crashing => "Running",
        Stage::Succeeded => "Succeeded",
        Stage::Failed | Stage::DeadlineExceeded => "Failed",
    };
    let spec = pod.spec.clone().unwrap_or_default();
    let known = before.init_container_statuses.clone().unwrap_or_default();
    let (init, incomplete) = init_container_statuses(&spec, &known, stage, &has_image, &whole);
    let known = before.container_statuses.clone().unwrap_or_default();
    let containers: Vec<ContainerStatus> = spec
        .containers
        .iter()
        .map(|container| {
            let known = known.iter().find(|known| known.name == container.name);
            if incomplete > 0 {
                return waiting_status(container, known, &whole);
            }
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
    let observed_generation = pod.metadata.generation;
    for (kind, status, reason) in [
        ("PodScheduled", true, None),
        (
            "Initialized",
            incomplete == 0,
            (incomplete > 0).then_some("ContainersNotInitialized"),
        ),
        ("ContainersReady", ready, not_ready),
        ("Ready", ready, not_ready),
    ] {
        set_condition(
            &mut conditions,
            kind,
            status,
            reason,
            observed_generation,
            &whole,
        );
    }
    let mut status = PodStatus {
        phase: Some(phase.to_owned()),
        conditions: Some(conditions),
        observed_generation,
        init_container_statuses: (!init.is_empty()).then_some(init),
        container_statuses: Some(containers),
        ephemeral_container_statuses: debuggers,
        ..before.clone()
    };
    if stage == Stage::DeadlineExceeded {
        status.reason = Some(DEADLINE_EXCEEDED.to_owned());
        status.message = Some(DEADLINE_MESSAGE.to_owned());
    }
    if stage != Stage::Starting && status.pod_ip.is_none() {
        let address = address(pod);
        status.pod_ips = Some(vec![PodIP {
            ip: address.clone(),
        }]);
        status.pod_ip = Some(address);
    }
    status
}

fn set_condition(
    conditions: &mut Vec<PodCondition>,
    kind: &str,
    status: bool,
    reason: Option<&str>,
    observed_generation: Option<i64>,
    now: &Time,
) {
    let status = if status { "True" } else { "False" };
    let known = conditions
        .iter()
        .position(|condition| condition.type_ == kind);
    let before = known.map(|index| conditions.remove(index));
    let since = before
        .filter(|condition| condition.status == status)
        .and_then(|condition| condition.last_transition_time);
    let condition = PodCondition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: reason.map(str::to_owned),
        observed_generation,
        last_transition_time: Some(since.unwrap_or_else(|| now.clone())),
        ..PodCondition::default()
    };
    conditions.insert(known.unwrap_or(conditions.len()), condition);
}

/// Returns the internal IP address of a node.
fn host(node: &Node) -> Option<String> {
    let addresses = node.status.as_ref()?.addresses.as_ref()?;
    let internal = addresses
        .iter()
        .find(|address| address.type_ == "InternalIP")?;
    Some(internal.address.clone())
}

/// Returns an address for a pod, derived from the UID of the pod.
fn address(pod: &Pod) -> String {
    let name = pod_template::short_name(&pod.uid().unwrap_or_default(), "", 3);
    let octets: Vec<String> = name
        .bytes()
        .map(|byte| (byte % 254 + 1).to_string())
        .collect();
    format!("10.{}", octets.join("."))
}
