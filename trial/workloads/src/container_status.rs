//! The status of the containers of a pod.

use std::time::Duration;

use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateRunning, ContainerStateTerminated,
    ContainerStateWaiting, ContainerStatus, EphemeralContainer, PodSpec, ResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// The waiting reason of a container that crashes repeatedly.
const BACK_OFF: &str = "CrashLoopBackOff";

/// The error of an image pull.
pub(crate) const PULL_ERROR: &str = "simulated: the image cannot be pulled";

/// The simulated stage of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Starting,
    Running,
    /// The pod runs, and its readiness probe fails.
    Unready,
    Crashing,
    NoImage,
    Succeeded,
    Failed,
    /// The pod was active for longer than its `activeDeadlineSeconds`.
    DeadlineExceeded,
}

/// The reason of a pod that was active for too long.
pub(crate) const DEADLINE_EXCEEDED: &str = "DeadlineExceeded";
pub(crate) const DEADLINE_MESSAGE: &str =
    "Pod was active on the node longer than the specified deadline";

/// Returns the status of a container in a stage of its pod.
pub(crate) fn container_status(
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
        Stage::DeadlineExceeded => ended(137, "Error"),
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
        // Changes of resources take effect at once.
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

/// Returns the status of a container that waits for the init containers of its pod.
pub(crate) fn waiting_status(
    container: &Container,
    known: Option<&ContainerStatus>,
    now: &Time,
) -> ContainerStatus {
    let mut status = container_status(container, known, Stage::Starting, now);
    let waiting = status.state.get_or_insert_default();
    waiting.waiting.get_or_insert_default().reason = Some("PodInitializing".to_owned());
    status
}

/// Returns the statuses of the init containers of a pod, and the number of init containers that are not complete. Init
/// containers complete within the start delay of the pod. `has_image` returns false for an image that cannot be pulled.
pub(crate) fn init_container_statuses(
    spec: &PodSpec,
    known: &[ContainerStatus],
    stage: Stage,
    has_image: impl Fn(&Container) -> bool,
    now: &Time,
) -> (Vec<ContainerStatus>, usize) {
    let mut incomplete = 0;
    let containers = spec.init_containers.iter().flatten();
    let statuses = containers.map(|container| {
        let known = known.iter().find(|known| known.name == container.name);
        if stage == Stage::Starting || incomplete > 0 {
            incomplete += 1;
            return waiting_status(container, known, now);
        }
        if stage == Stage::NoImage && !has_image(container) {
            incomplete += 1;
            return container_status(container, known, Stage::NoImage, now);
        }
        let is_sidecar = container.restart_policy.as_deref() == Some("Always");
        if !is_sidecar {
            let status = container_status(container, known, Stage::Succeeded, now);
            return ContainerStatus {
                ready: true,
                ..status
            };
        }
        let stage = match stage {
            Stage::Succeeded | Stage::Failed | Stage::DeadlineExceeded => stage,
            _ => Stage::Running,
        };
        container_status(container, known, stage, now)
    });
    let statuses = statuses.collect();
    (statuses, incomplete)
}

/// Returns the status of an ephemeral debug container, which runs at once.
pub(crate) fn debugger_status(debugger: &EphemeralContainer, now: &Time) -> ContainerStatus {
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

/// Returns the time of the last termination of a container.
pub(crate) fn last_end(status: &ContainerStatus) -> Option<jiff::Timestamp> {
    let last = status.last_state.as_ref()?.terminated.as_ref()?;
    Some(last.finished_at.as_ref()?.0)
}

/// Returns the back-off delay of the kubelet after a number of restarts.
pub(crate) fn back_off(restarts: i32) -> Duration {
    let doublings = u32::try_from(restarts.saturating_sub(1)).unwrap_or_default();
    let longest = Duration::from_mins(5);
    Duration::from_secs(10)
        .saturating_mul(1 << doublings.min(5))
        .min(longest)
}
