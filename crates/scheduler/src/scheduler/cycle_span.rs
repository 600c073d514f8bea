//! The trace span of a scheduling cycle. The stages of the decision are its child spans.

use std::time::Instant;

use berth_api::Binding;
use berth_api::well_known::TRACEPARENT;
use berth_telemetry::{Span, started_before};

use crate::metrics::Stages;
use crate::rules::plan::Plan;
use crate::rules::schedule_trigger::ScheduleType;

/// Returns the span of a cycle that began at `began` and has made its decision. The span belongs to the trace that an
/// annotation of the binding names, or to a new trace if the annotation is missing.
pub(super) fn cycle_span(
    binding: &Binding,
    schedule_type: ScheduleType,
    plan: &Plan,
    began: Instant,
    stages: Stages,
) -> Span {
    if !berth_telemetry::is_enabled() {
        return Span::default();
    }
    let parent = binding.annotation(TRACEPARENT).parse().ok();
    let start = started_before(began.elapsed());
    let mut span = Span::start("schedule", parent.as_ref(), start);
    span.set("binding", binding.key.to_string());
    span.set("scheduler", binding.spec.scheduler().to_owned());
    span.set("trigger", format!("{schedule_type:?}"));
    if let Some(targets) = &plan.targets {
        let targets: Vec<String> = targets
            .iter()
            .map(|target| format!("{}:{}", target.name, target.replicas))
            .collect();
        span.set("clusters", targets.join(","));
    }
    if let Some(condition) = plan
        .status
        .as_ref()
        .and_then(|status| status.scheduled.as_ref())
    {
        span.set("reason", format!("{:?}", condition.reason));
        span.set("message", condition.message.clone());
    }
    let mut stage_start = start;
    for (stage, duration) in stages {
        span.record_child(stage, stage_start, duration);
        stage_start += duration;
    }
    span
}
