//! The input of a decision from the state of a binding. It shows whether the binding needs a decision at all.

use std::sync::Arc;

use berth_api::Binding;
use berth_api::go_json::placement_json;
use berth_engine::{Request, ScheduledReason};

use super::cache::Cache;
use super::configurations::Configurations;
use super::cycle_outcome::CycleOutcome;
use crate::queue::Verdict;
use crate::rules::affinity_term_in_use::affinity_term_in_use;
use crate::rules::plan::Plan;
use crate::rules::schedule_trigger::{ScheduleType, schedule_type};

/// Input of a decision.
pub(super) struct ScheduleRequest {
    pub(super) trigger: ScheduleType,
    pub(super) request: Request,
    /// Canonical JSON of the placement.
    pub(super) json: String,
}

impl ScheduleRequest {
    /// Returns the input of a decision, or the outcome of the cycle if the binding needs no decision or is invalid.
    pub(super) fn new(
        binding: &Arc<Binding>,
        config: &Configurations,
        cache: &Cache,
    ) -> Result<Self, Box<CycleOutcome>> {
        let Some(placement) = &binding.spec.placement else {
            tracing::debug!(binding = %binding.key, "not scheduled: the binding has no placement");
            // An update that adds a placement triggers another cycle.
            return Err(CycleOutcome::boxed(Plan::nothing(Verdict::Done), None));
        };
        let json = placement_json(placement).map_err(|error| {
            let text = error.to_string();
            let plan = Plan::failure(
                binding,
                ScheduledReason::SchedulerError,
                text,
                Verdict::Wait,
            );
            CycleOutcome::boxed(plan, None)
        })?;
        let earlier = cache.book.earlier_request(&binding.key);
        let trigger = schedule_type(
            binding,
            placement,
            &json,
            config.multiple_pod_templates,
            |name| cache.clusters.is_leaving(name),
        );
        // Replicas whose request grew may no longer fit into their clusters.
        let grown = earlier.is_some().then_some(ScheduleType::Scale);
        let Some(trigger) = trigger.or(grown) else {
            tracing::debug!(binding = %binding.key, "not scheduled: placement, replicas and clusters need no decision");
            let term = affinity_term_in_use(binding, placement, |name| cache.clusters.get(name));
            return Err(CycleOutcome::boxed(Plan::observe_only(binding, term), None));
        };
        let request = Request::of(binding).map_err(|error| {
            // Only an update of the binding can correct the error. The update triggers another cycle.
            let plan = Plan::failure(binding, error.reason(), error.to_string(), Verdict::Done);
            CycleOutcome::boxed(plan, Some(trigger))
        })?;
        let peers = cache
            .book
            .peers(binding, |key| cache.bindings.get(key).cloned());
        let request = match peers {
            Some(peers) => request.with_peers(peers),
            None => request,
        };
        let request = match earlier {
            Some(earlier) => request.with_earlier(earlier),
            None => request,
        };
        Ok(Self {
            trigger,
            request: request
                .with_object(binding.clone())
                .with_time(jiff::Timestamp::now()),
            json,
        })
    }
}
