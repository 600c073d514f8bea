//! The problems of the pods of a workload in one member.

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::finding::Reason;

/// The words of an API server before the name of a ResourceQuota that is used up.
const QUOTA: &str = "exceeded quota: ";
/// Maximum length of a member's words in a message, in characters.
const DETAIL: usize = 300;

/// The worst problem of the pods of a workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodProblem {
    /// The problem.
    pub reason: Reason,
    /// The number of pods with this problem. 0 if there are no pods.
    pub pods: usize,
    /// The number of all pods.
    pub total: usize,
    /// The details in the member's own words, which do not change while the problem lasts.
    pub detail: String,
}

impl PodProblem {
    /// Returns the problem in one sentence, such as `2 of 3 pods crash in m1: exit code 1`.
    pub fn in_cluster(&self, cluster: &str) -> String {
        let what = match self.reason {
            Reason::CrashLoopBackOff => "crash",
            Reason::ImagePullBackOff => "cannot pull their image",
            Reason::PodsUnschedulable => "find no node",
            Reason::ContainerConfigError => "cannot start a container",
            Reason::PodsFailed => "have failed",
            Reason::PodsNotCreated => {
                return format!("pods cannot be created in {cluster}: {}", self.detail);
            }
            Reason::Starting => "are starting",
            _ => "are not ready",
        };
        let (pods, total) = (self.pods, self.total);
        let detail = match &*self.detail {
            "" => String::new(),
            detail => format!(": {detail}"),
        };
        format!("{pods} of {total} pods {what} in {cluster}{detail}")
    }
}

/// Returns the next action for a problem of pods and its message. `workload` is the kind and name as for kubectl, such as
/// `deployment/web`, and `selector` selects its namespace, such as `-n shop`.
pub(crate) fn fix(
    (reason, message): (Reason, &str),
    workload: &str,
    selector: &str,
    cluster: &str,
) -> String {
    match reason {
        Reason::CrashLoopBackOff => {
            format!("read the logs in {cluster}: kubectl logs {selector} {workload} --previous")
        }
        // A pod that has failed has no previous container.
        Reason::PodsFailed => {
            format!("read the logs in {cluster}: kubectl logs {selector} {workload}")
        }
        Reason::ImagePullBackOff => format!(
            "correct the image in the template or in an override policy, or give {cluster} access to its registry (imagePullSecrets)"
        ),
        Reason::PodsUnschedulable => format!(
            "request less, add nodes in {cluster}, or let the pods move with `berth controllers --rebalance`"
        ),
        Reason::ContainerConfigError => format!(
            "propagate the ConfigMap or Secret that the message names to {cluster}, for example with propagateDeps: true"
        ),
        Reason::PodsNotCreated => match quota(message) {
            Some(quota) => format!(
                "request less, or raise the quota in {cluster}: kubectl edit {selector} quota {quota}"
            ),
            None => format!("remove the cause that the message names in {cluster}"),
        },
        _ => format!("look at the pods in {cluster}: kubectl describe {selector} {workload}"),
    }
}

/// Returns the name of the ResourceQuota in the message of a refused pod.
fn quota(message: &str) -> Option<&str> {
    let (_, rest) = message.split_once(QUOTA)?;
    rest.split([',', ' '])
        .next()
        .filter(|name| !name.is_empty())
}

/// Returns the words of a member about a refused pod, without the name of the pod, which differs in each attempt.
fn without_pod(message: &str) -> &str {
    let rest = message.strip_prefix("pods \"");
    let rest = rest.and_then(|rest| rest.split_once("\" is forbidden: "));
    rest.map_or(message, |(_, cause)| cause)
}

/// Returns the worst problem of the pods of a workload, or `None` if all are ready or have ended successfully. Pods that
/// are being deleted do not count.
pub fn pod_problem(pods: &[Pod]) -> Option<PodProblem> {
    let pods: Vec<&Pod> = pods
        .iter()
        .filter(|pod| pod.metadata.deletion_timestamp.is_none())
        .collect();
    let problems: Vec<(Reason, String)> = pods.iter().filter_map(|pod| problem_of(pod)).collect();
    let worst = problems.iter().map(|(reason, _)| *reason);
    let reason = worst.min_by_key(|reason| rank(*reason))?;
    let of_reason = problems.iter().filter(|(found, _)| *found == reason);
    let mut details: Vec<&str> = of_reason.map(|(_, detail)| detail.as_str()).collect();
    let count = details.len();
    details.sort_unstable();
    Some(PodProblem {
        reason,
        pods: count,
        total: pods.len(),
        detail: shorten(details.first().copied().unwrap_or_default()),
    })
}

/// Returns the problem that the conditions of a workload report, such as pods that a quota forbids.
pub fn object_problem(object: &Value) -> Option<PodProblem> {
    let conditions = object.pointer("/status/conditions")?.as_array()?;
    let text = |condition: &Value, field: &str| {
        let value = condition.get(field).and_then(Value::as_str);
        value.unwrap_or_default().to_owned()
    };
    let find = |kind: &str, status: &str| {
        let mut all = conditions.iter();
        all.find(|of| text(of, "type") == kind && text(of, "status") == status)
    };
    let problem = |reason, condition: &Value| PodProblem {
        reason,
        pods: 0,
        total: 0,
        detail: shorten(without_pod(&text(condition, "message"))),
    };
    if let Some(failure) = find("ReplicaFailure", "True") {
        return Some(problem(Reason::PodsNotCreated, failure));
    }
    find("Failed", "True").map(|failed| problem(Reason::PodsFailed, failed))
}

/// Returns the worst problem of a workload. Pods that cannot be created are worse than pods that start or are not ready.
pub fn workload_problem(pods: &[Pod], object: &Value) -> Option<PodProblem> {
    match pod_problem(pods) {
        Some(found) if found.reason.is_about_pods() => Some(found),
        of_pods => object_problem(object).or(of_pods),
    }
}

/// The order in which problems matter, the worst first.
fn rank(reason: Reason) -> usize {
    const ORDER: [Reason; 7] = [
        Reason::CrashLoopBackOff,
        Reason::PodsFailed,
        Reason::ContainerConfigError,
        Reason::ImagePullBackOff,
        Reason::PodsUnschedulable,
        Reason::NotReady,
        Reason::Starting,
    ];
    let found = ORDER.iter().position(|known| *known == reason);
    found.unwrap_or(ORDER.len())
}

fn problem_of(pod: &Pod) -> Option<(Reason, String)> {
    let status = pod.status.as_ref()?;
    let phase = status.phase.as_deref().unwrap_or_default();
    if phase == "Succeeded" {
        return None;
    }
    let init = status.init_container_statuses.iter().flatten();
    let containers: Vec<&ContainerStatus> = init
        .chain(status.container_statuses.iter().flatten())
        .collect();
    let worst = containers
        .iter()
        .filter_map(|container| container_problem(container));
    if let Some(found) = worst.min_by_key(|(reason, _)| rank(*reason)) {
        return Some(found);
    }
    if phase == "Failed" {
        let reason = status.reason.clone().unwrap_or_default();
        return Some((Reason::PodsFailed, reason));
    }
    let conditions = status.conditions.as_deref().unwrap_or_default();
    let condition = |kind: &str| conditions.iter().find(|condition| condition.type_ == kind);
    if let Some(scheduled) = condition("PodScheduled").filter(|of| of.status == "False") {
        let message = scheduled.message.clone().unwrap_or_default();
        return Some((Reason::PodsUnschedulable, message));
    }
    if condition("Ready").is_some_and(|ready| ready.status == "True") {
        return None;
    }
    if phase == "Running" {
        let detail = "the containers run, and the readiness probe fails";
        let is_running = containers.iter().all(|of| {
            let state = of.state.as_ref();
            state.is_some_and(|state| state.running.is_some() || state.terminated.is_some())
        });
        return Some((
            Reason::NotReady,
            if is_running {
                detail.to_owned()
            } else {
                String::new()
            },
        ));
    }
    Some((Reason::Starting, String::new()))
}

fn container_problem(container: &ContainerStatus) -> Option<(Reason, String)> {
    let ended = |state: Option<&k8s_openapi::api::core::v1::ContainerState>| {
        let terminated = state?.terminated.as_ref()?;
        let reason = terminated.reason.as_deref().unwrap_or_default();
        Some((
            terminated.exit_code,
            match reason {
                "OOMKilled" => {
                    "a container needs more memory than its limit (OOMKilled)".to_owned()
                }
                _ => format!("exit code {}", terminated.exit_code),
            },
        ))
    };
    let last = ended(container.last_state.as_ref());
    let state = container.state.as_ref()?;
    if let Some(waiting) = &state.waiting {
        let message = || waiting.message.clone().unwrap_or_default();
        return match waiting.reason.as_deref().unwrap_or_default() {
            "CrashLoopBackOff" => {
                let detail = last.map(|(_, text)| text).unwrap_or_default();
                Some((Reason::CrashLoopBackOff, detail))
            }
            "ImagePullBackOff" | "ErrImagePull" | "InvalidImageName" | "ErrImageNeverPull" => {
                Some((Reason::ImagePullBackOff, container.image.clone()))
            }
            "CreateContainerConfigError" | "CreateContainerError" | "RunContainerError" => {
                Some((Reason::ContainerConfigError, message()))
            }
            _ => None,
        };
    }
    if let Some((code, detail)) = ended(Some(state))
        && code != 0
    {
        return Some((Reason::CrashLoopBackOff, detail));
    }
    // A container that runs again after a crash crashes again most of the time.
    let crashes = !container.ready && container.restart_count > 0;
    let failed = last.filter(|(code, _)| crashes && *code != 0);
    failed.map(|(_, detail)| (Reason::CrashLoopBackOff, detail))
}

fn shorten(text: &str) -> String {
    let text = text.trim().trim_end_matches('.');
    match text.char_indices().nth(DETAIL) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(status: &Value) -> Pod {
        serde_json::from_value(json!({ "status": status })).unwrap()
    }

    fn container(ready: bool, restarts: i32, state: &Value, last: &Value) -> Value {
        json!({ "phase": "Running", "conditions": [{ "type": "Ready", "status": "False" }],
            "containerStatuses": [{ "name": "c", "image": "shop:v2", "imageID": "", "ready": ready,
                "restartCount": restarts, "state": state, "lastState": last }] })
    }

    #[test]
    fn each_problem_has_its_reason_and_the_words_of_the_member() {
        let exit = |code: i32| json!({ "terminated": { "exitCode": code, "reason": "Error" } });
        let oom = json!({ "terminated": { "exitCode": 137, "reason": "OOMKilled" } });
        let waiting = |reason: &str, message: &str| json!({ "waiting": { "reason": reason, "message": message } });
        let running = json!({ "running": {} });
        for (status, expected) in [
            (
                container(false, 3, &waiting("CrashLoopBackOff", ""), &exit(1)),
                "1 of 1 pods crash in m1: exit code 1",
            ),
            (
                container(false, 3, &running, &exit(2)),
                "1 of 1 pods crash in m1: exit code 2",
            ),
            (
                container(false, 3, &waiting("CrashLoopBackOff", ""), &oom),
                "1 of 1 pods crash in m1: a container needs more memory than its limit (OOMKilled)",
            ),
            (
                container(false, 0, &waiting("ErrImagePull", "x"), &json!({})),
                "1 of 1 pods cannot pull their image in m1: shop:v2",
            ),
            (
                container(
                    false,
                    0,
                    &waiting("CreateContainerConfigError", "configmap \"c\" not found"),
                    &json!({}),
                ),
                "1 of 1 pods cannot start a container in m1: configmap \"c\" not found",
            ),
            (
                container(false, 0, &running, &json!({})),
                "1 of 1 pods are not ready in m1: the containers run, and the readiness probe fails",
            ),
            (
                json!({ "phase": "Pending", "conditions": [{ "type": "PodScheduled", "status": "False",
                    "reason": "Unschedulable", "message": "0/2 nodes are available." }] }),
                "1 of 1 pods find no node in m1: 0/2 nodes are available",
            ),
            (
                json!({ "phase": "Failed", "reason": "Evicted" }),
                "1 of 1 pods have failed in m1: Evicted",
            ),
            (
                json!({ "phase": "Pending" }),
                "1 of 1 pods are starting in m1",
            ),
        ] {
            let found = pod_problem(&[pod(&status)]).unwrap();
            assert_eq!(found.in_cluster("m1"), expected);
        }
        let ready =
            json!({ "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] });
        assert_eq!(
            pod_problem(&[pod(&ready), pod(&json!({ "phase": "Succeeded" }))]),
            None
        );
        assert_eq!(pod_problem(&[]), None);
    }

    #[test]
    fn the_worst_problem_is_reported_with_its_count() {
        let starting = json!({ "phase": "Pending" });
        let crash = container(
            false,
            1,
            &json!({ "waiting": { "reason": "CrashLoopBackOff" } }),
            &json!({ "terminated": { "exitCode": 1 } }),
        );
        let pods = [pod(&starting), pod(&crash), pod(&crash)];
        let found = pod_problem(&pods).unwrap();
        assert_eq!(
            found.in_cluster("m1"),
            "2 of 3 pods crash in m1: exit code 1"
        );
    }

    #[test]
    fn the_conditions_of_a_workload_tell_why_there_are_no_pods() {
        let object = json!({ "status": { "conditions": [{ "type": "ReplicaFailure", "status": "True",
            "message": "pods \"web\" is forbidden: exceeded quota: team." }] } });
        let found = object_problem(&object).unwrap();
        assert_eq!(
            found.in_cluster("m1"),
            "pods cannot be created in m1: exceeded quota: team"
        );
        assert_eq!(object_problem(&json!({ "status": {} })), None);
    }

    #[test]
    fn the_next_action_names_the_quota() {
        let fix = |message: &str| {
            fix(
                (Reason::PodsNotCreated, message),
                "deployment/web",
                "-n shop",
                "m1",
            )
        };
        assert_eq!(
            fix("pods cannot be created in m1: exceeded quota: team, requested: pods=1"),
            "request less, or raise the quota in m1: kubectl edit -n shop quota team"
        );
        assert_eq!(
            fix("pods cannot be created in m1: violates PodSecurity"),
            "remove the cause that the message names in m1"
        );
    }
}
