//! HorizontalPodAutoscalers with a target for the CPU utilization, which scale workloads with a simulated load.
//!
//! The annotation [`CPU_LOAD`] of a workload is the CPU time that all pods of the workload use together. The ready pods
//! share this load equally. The replicas change at once: `behavior` and the sync period have no effect.

use berth_api::pod_requests;
use berth_apimachinery::quantity::Quantity;
use berth_apimachinery::timestamp::whole_seconds;
use k8s_openapi::api::autoscaling::v2::{
    HorizontalPodAutoscaler, HorizontalPodAutoscalerCondition, HorizontalPodAutoscalerSpec,
    HorizontalPodAutoscalerStatus, MetricStatus, MetricValueStatus, ResourceMetricStatus,
};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;

use crate::action::Action;
use crate::cache::Cache;
use crate::owned_pods;
use crate::plan::Plan;
use crate::scale_target::ScaleTarget;
use crate::scope::Scope;
use crate::simulation_annotations::CPU_LOAD;

/// Maximum relative deviation from the target at which the replicas remain unchanged.
const TOLERANCE: f64 = 0.1;
/// Target CPU utilization of an autoscaler without metrics, in percent.
const DEFAULT_TARGET: i32 = 80;

pub(crate) fn plan(cache: &Cache, scope: &Scope, now: jiff::Timestamp, plan: &mut Plan) {
    for autoscaler in cache.autoscalers.iter() {
        let namespace = autoscaler.metadata.namespace.as_deref().unwrap_or_default();
        let changed = scope.covers(&autoscaler.metadata) || scope.has_changes_in(namespace);
        if changed && autoscaler.metadata.deletion_timestamp.is_none() {
            plan_autoscaler(autoscaler, cache, now, plan.of(&autoscaler.metadata));
        }
    }
}

fn plan_autoscaler(
    autoscaler: &HorizontalPodAutoscaler,
    cache: &Cache,
    now: jiff::Timestamp,
    actions: &mut Vec<Action>,
) {
    let spec = &autoscaler.spec;
    let before = autoscaler.status.clone().unwrap_or_default();
    let mut status = HorizontalPodAutoscalerStatus {
        observed_generation: autoscaler.metadata.generation,
        ..before.clone()
    };
    match ScaleTarget::find(autoscaler, cache) {
        Ok(target) => {
            let decision = Decision::of(spec, &target, cache);
            if decision.replicas != target.replicas() {
                status.last_scale_time = Some(Time(whole_seconds(now)));
                actions.push(Action::ScaleWorkload(
                    target.workload(),
                    target.key(),
                    decision.replicas,
                ));
            }
            status.current_replicas = Some(target.replicas());
            status.desired_replicas = decision.replicas;
            status.current_metrics = decision.usage.as_ref().ok().map(Usage::metrics);
            status.conditions = Some(decision.conditions(&before, now));
        }
        Err(error) => {
            let conditions = [("AbleToScale", false, "FailedGetScale", error.to_string())];
            status.conditions = Some(merge_conditions(&before, conditions, now));
        }
    }
    if status != before {
        let mut autoscaler = autoscaler.clone();
        autoscaler.status = Some(status);
        actions.push(Action::AutoscalerStatus(Box::new(autoscaler)));
    }
}

/// The CPU load and the CPU requests of the pods of a workload.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Usage {
    ready: i64,
    load: Quantity,
    /// The requests of the ready pods.
    ready_requests: Quantity,
    /// All pods that are neither finished nor being deleted, and their requests.
    pods: i64,
    requests: Quantity,
}

/// The reason why the CPU use of a workload is unknown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum UsageError {
    #[error(
        "the simulation has only the metric cpu of type Resource with a target of type Utilization"
    )]
    OtherMetric,
    #[error("failed to get cpu utilization: no ready pods of {0}")]
    NoReadyPods(String),
    #[error("failed to get cpu utilization: missing request for cpu in pod {0}")]
    NoRequest(String),
    #[error("the annotation {CPU_LOAD} of {0} is not a quantity")]
    InvalidLoad(String),
}

impl Usage {
    fn of(target: &ScaleTarget<'_>, cache: &Cache) -> Result<Self, UsageError> {
        let load = match target.annotation(CPU_LOAD) {
            None => Quantity::ZERO,
            Some(text) => {
                Quantity::parse(text).map_err(|_| UsageError::InvalidLoad(target.key().1))?
            }
        };
        let mut usage = Self {
            ready: 0,
            load,
            ready_requests: Quantity::ZERO,
            pods: 0,
            requests: Quantity::ZERO,
        };
        for pod in target.pods(cache) {
            let request = cpu_request(pod).ok_or_else(|| UsageError::NoRequest(pod.name_any()))?;
            usage.pods += 1;
            usage.requests = usage.requests + request;
            if owned_pods::is_ready(pod) {
                usage.ready += 1;
                usage.ready_requests = usage.ready_requests + request;
            }
        }
        if usage.ready == 0 {
            return Err(UsageError::NoReadyPods(target.key().1));
        }
        Ok(usage)
    }

    /// Returns the utilization of the ready pods in percent of their requests.
    fn utilization(&self) -> i32 {
        percent(self.load, self.ready_requests)
    }

    /// Returns the number of replicas at which the utilization equals the target. Returns `current` if the utilization
    /// deviates by at most [`TOLERANCE`].
    fn replicas(&self, current: i32, target: i32) -> i32 {
        let ratio = f64::from(self.utilization()) / f64::from(target);
        if (ratio - 1.0).abs() <= TOLERANCE {
            return current;
        }
        if ratio < 1.0 || self.ready == self.pods {
            return scaled(self.ready, ratio);
        }
        // Pods that are not ready yet take a share of the load later.
        let ratio = f64::from(percent(self.load, self.requests)) / f64::from(target);
        if ratio <= 1.0 + TOLERANCE {
            return current;
        }
        scaled(self.pods, ratio)
    }

    fn metrics(&self) -> Vec<MetricStatus> {
        let average = self.load.milli_value() / self.ready;
        vec![MetricStatus {
            type_: "Resource".to_owned(),
            resource: Some(ResourceMetricStatus {
                name: "cpu".to_owned(),
                current: MetricValueStatus {
                    average_utilization: Some(self.utilization()),
                    average_value: Some(ApiQuantity(Quantity::from_milli(average).to_string())),
                    value: None,
                },
            }),
            ..MetricStatus::default()
        }]
    }
}

fn cpu_request(pod: &Pod) -> Option<Quantity> {
    let requests = pod_requests::of(pod.spec.as_ref()?);
    let request = requests.get("cpu").copied()?;
    (!request.is_zero()).then_some(request)
}

#[expect(clippy::cast_possible_truncation, reason = "casts of floats saturate")]
fn percent(part: Quantity, whole: Quantity) -> i32 {
    (part.ratio(whole) * 100.0) as i32
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "casts of floats saturate, and a workload has far fewer pods than 2^52"
)]
fn scaled(pods: i64, ratio: f64) -> i32 {
    (pods as f64 * ratio).ceil() as i32
}

/// The limit of the autoscaler that changed the desired replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limit {
    Min,
    Max,
}

/// The decision of an autoscaler about the replicas of its target.
struct Decision {
    replicas: i32,
    limit: Option<Limit>,
    scaled: bool,
    /// True if the target has zero replicas. The autoscaler then changes nothing.
    disabled: bool,
    usage: Result<Usage, UsageError>,
}

impl Decision {
    fn of(spec: &HorizontalPodAutoscalerSpec, target: &ScaleTarget<'_>, cache: &Cache) -> Self {
        let current = target.replicas();
        let usage = target_utilization(spec).and_then(|_| Usage::of(target, cache));
        let disabled = current == 0;
        let wanted = match (&usage, target_utilization(spec)) {
            (Ok(usage), Ok(percentage)) => usage.replicas(current, percentage),
            _ => current,
        };
        let (min, max) = (spec.min_replicas.unwrap_or(1), spec.max_replicas);
        let (replicas, limit) = if disabled {
            (current, None)
        } else if wanted > max {
            (max, Some(Limit::Max))
        } else if wanted < min {
            (min, Some(Limit::Min))
        } else {
            (wanted, None)
        };
        Self {
            replicas,
            limit,
            scaled: replicas != current,
            disabled,
            usage,
        }
    }

    fn conditions(
        &self,
        before: &HorizontalPodAutoscalerStatus,
        now: jiff::Timestamp,
    ) -> Vec<HorizontalPodAutoscalerCondition> {
        let able = if self.scaled {
            let message = format!(
                "the HPA controller was able to update the target scale to {}",
                self.replicas
            );
            ("AbleToScale", true, "SucceededRescale", message)
        } else {
            let message = "recommended size matches current size".to_owned();
            ("AbleToScale", true, "ReadyForNewScale", message)
        };
        let active = match &self.usage {
            _ if self.disabled => (
                "ScalingActive",
                false,
                "ScalingDisabled",
                "scaling is disabled since the replica count of the target is zero".to_owned(),
            ),
            Ok(_) => (
                "ScalingActive",
                true,
                "ValidMetricFound",
                "the HPA was able to successfully calculate a replica count from cpu resource \
                 utilization (percentage of request)"
                    .to_owned(),
            ),
            Err(error) => {
                let message = format!("the HPA was unable to compute the replica count: {error}");
                ("ScalingActive", false, "FailedGetResourceMetric", message)
            }
        };
        let limited = match self.limit {
            Some(Limit::Min) => (
                "ScalingLimited",
                true,
                "TooFewReplicas",
                "the desired replica count is less than the minimum replica count".to_owned(),
            ),
            Some(Limit::Max) => (
                "ScalingLimited",
                true,
                "TooManyReplicas",
                "the desired replica count is more than the maximum replica count".to_owned(),
            ),
            None => (
                "ScalingLimited",
                false,
                "DesiredWithinRange",
                "the desired count is within the acceptable range".to_owned(),
            ),
        };
        merge_conditions(before, [able, active, limited], now)
    }
}

/// Returns the target CPU utilization of an autoscaler, in percent.
fn target_utilization(spec: &HorizontalPodAutoscalerSpec) -> Result<i32, UsageError> {
    let mut metrics = spec.metrics.iter().flatten().peekable();
    if metrics.peek().is_none() {
        return Ok(DEFAULT_TARGET);
    }
    metrics
        .filter_map(|metric| metric.resource.as_ref())
        .filter(|resource| resource.name == "cpu")
        .find_map(|resource| resource.target.average_utilization)
        .filter(|percentage| *percentage > 0)
        .ok_or(UsageError::OtherMetric)
}

/// Returns the new conditions. A condition with an unchanged status keeps its transition time.
fn merge_conditions<const N: usize>(
    before: &HorizontalPodAutoscalerStatus,
    conditions: [(&str, bool, &str, String); N],
    now: jiff::Timestamp,
) -> Vec<HorizontalPodAutoscalerCondition> {
    let known = before.conditions.as_deref().unwrap_or_default();
    let conditions = conditions.into_iter();
    conditions
        .map(|(kind, status, reason, message)| {
            let status = if status { "True" } else { "False" };
            let same = known
                .iter()
                .find(|known| known.type_ == kind && known.status == status);
            HorizontalPodAutoscalerCondition {
                type_: kind.to_owned(),
                status: status.to_owned(),
                reason: Some(reason.to_owned()),
                message: Some(message),
                last_transition_time: same
                    .and_then(|same| same.last_transition_time.clone())
                    .or_else(|| Some(Time(whole_seconds(now)))),
            }
        })
        .collect()
}
