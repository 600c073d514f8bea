//! The scheduling cycle of a binding. The cycle checks whether the binding needs scheduling, and selects its clusters.

use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_api::go_json::placement_json;
use berth_api::{Binding, BindingKey};
use berth_component_base::blocking::without_blocking_the_runtime;
use berth_engine::{Request, ScheduledReason};
use berth_events::{Note, Severity};
use berth_telemetry::Span;

use super::Scheduler;
use super::cycle_span::cycle_span;
use super::external_answers::{Answered, RequestOutcome, Round};
use super::in_flight::{Cycle, ReservedDecision};
use super::object_references::{binding_reference, template_reference};
use super::post_filter::VictimSearch;
use crate::framework::Decided;
use crate::framework::plugin_calls::Gated;
use crate::metrics::{CycleResult, Incoming, Stages};
use crate::queue::Verdict;
use crate::recent_decisions::RecordedDecision;
use crate::rules::affinity_term_in_use::affinity_term_in_use;
use crate::rules::plan::{Plan, REASON_FAILED};
use crate::rules::schedule_trigger::{ScheduleType, schedule_type};

/// Maximum number of decisions between two checks of the input channels.
const DECISIONS_PER_TURN: usize = 64;

/// Duration of a decision after which the next decision does not hold a thread of the runtime. Plugins, such as
/// `Expression`, may take long.
const SLOW_DECISION: Duration = Duration::from_millis(50);

/// Result of a cycle.
struct CycleOutcome {
    plan: Plan,
    /// Trigger of the decision, or `None` if the cycle made no decision.
    trigger: Option<ScheduleType>,
    /// The decision, if plugins take part in its write.
    decision: Option<ReservedDecision>,
    /// The stages of the decision and their durations, if they are traced.
    stages: Stages,
}

impl CycleOutcome {
    /// Creates an outcome without a decision.
    fn of(plan: Plan, trigger: Option<ScheduleType>) -> Self {
        Self {
            plan,
            trigger,
            decision: None,
            stages: Stages::new(),
        }
    }

    /// Creates the outcome of a binding that PreEnqueue plugins stop.
    fn gated(binding: &Binding, trigger: ScheduleType, gated: &Gated) -> Self {
        match gated {
            Gated::NotKnown => Self::of(Plan::nothing(Verdict::Wait), None),
            Gated::Because(error) => Self::of(Plan::stopped(binding, error), Some(trigger)),
        }
    }

    fn boxed(plan: Plan, trigger: Option<ScheduleType>) -> Box<Self> {
        Box::new(Self::of(plan, trigger))
    }
}

/// Input of a decision.
struct ScheduleRequest {
    trigger: ScheduleType,
    request: Request,
    /// Canonical JSON of the placement.
    json: String,
}

impl Scheduler {
    /// Runs the cycles of ready keys while the limits of pending writes and estimates allow it.
    pub(super) fn decide(&mut self, now: Instant) {
        for _ in 0..DECISIONS_PER_TURN {
            if !self.may_decide() {
                return;
            }
            let Some((key, since)) = self.queue.pop_with_age() else {
                return;
            };
            self.metrics
                .taken(&key, now.saturating_duration_since(since), now);
            self.run_cycle(&key, now, None);
        }
    }

    /// Repeats a decision with the answers of estimators and extenders.
    pub(super) fn decide_again(&mut self, Answered { key, round }: Answered) {
        let now = Instant::now();
        match round {
            Some(round) => self.run_cycle(&key, now, Some(round)),
            None => self.end_cycle(&key, Verdict::Retry, now),
        }
    }

    /// Runs a cycle of a key. `earlier` contains the answers that earlier rounds received for the key.
    fn run_cycle(&mut self, key: &BindingKey, now: Instant, earlier: Option<Round>) {
        let Some(binding) = self.bindings.get(key).cloned() else {
            self.end_cycle(key, Verdict::Done, now);
            return;
        };
        if binding.deleting() {
            self.report_deleting(&binding);
            self.end_cycle(key, Verdict::Done, now);
            return;
        }
        // The binding may have been suspended, or assigned to another scheduler, while it was queued.
        if !self.frameworks.in_charge(&binding) {
            self.end_cycle(key, Verdict::Done, now);
            return;
        }
        let round = match earlier {
            Some(round) => round.for_generation_of(&binding),
            None => Round::first(&binding, now),
        };
        let began = round.began;
        let Some(outcome) = self.cycle_outcome(&binding, round) else {
            return;
        };
        let CycleOutcome {
            plan,
            trigger,
            decision,
            stages,
        } = outcome;
        let span = trigger.map_or_else(Span::default, |schedule_type| {
            cycle_span(&binding, schedule_type, &plan, began, stages)
        });
        if plan.is_empty() {
            if plan.verdict != Verdict::Done {
                self.metrics.incoming(Incoming::ScheduleAttemptFailure);
            }
            if let Some(schedule_type) = trigger {
                self.metrics
                    .cycle(cycle_result(&plan), schedule_type, began.elapsed());
            }
            self.end_cycle(key, plan.verdict, now);
            return;
        }
        self.assume_decision(&binding, &plan, now);
        let cycle = Cycle {
            binding,
            schedule_type: trigger.unwrap_or(ScheduleType::Reconcile),
            began,
            span,
        };
        self.reserve_and_write(cycle, plan, decision, now);
    }

    /// Ends the processing of a key.
    pub(super) fn end_cycle(&mut self, key: &BindingKey, verdict: Verdict, now: Instant) {
        self.metrics.ended(key, verdict == Verdict::Retry, now);
        self.queue.done(key, verdict, now);
    }

    /// Makes a decision visible to all further decisions until [`Self::complete_decision`] is called.
    fn assume_decision(&mut self, binding: &Binding, plan: &Plan, now: Instant) {
        let Some(targets) = &plan.targets else { return };
        self.plugin_state.decided(&binding.key, Arc::clone(targets));
        self.book.decided(binding, targets, now);
    }

    /// Completes an assumed decision after its write succeeded or was abandoned.
    pub(super) fn complete_decision(&mut self, key: &BindingKey, written: bool) {
        self.plugin_state.complete(key, written);
        if written {
            self.retry_preemption(key, Instant::now());
        }
        self.book.complete(key, written);
    }

    /// Returns the input of a decision, or the outcome of the cycle if the binding needs no decision or is invalid.
    fn schedule_request(
        &self,
        binding: &Arc<Binding>,
    ) -> Result<ScheduleRequest, Box<CycleOutcome>> {
        let Some(placement) = &binding.spec.placement else {
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
        let Some(trigger) = schedule_type(
            binding,
            placement,
            &json,
            self.multiple_pod_templates,
            |name| self.clusters.is_leaving(name),
        ) else {
            let term = affinity_term_in_use(binding, placement, |name| self.clusters.get(name));
            return Err(CycleOutcome::boxed(Plan::observe_only(binding, term), None));
        };
        let request =
            Request::new(&binding.key, &binding.spec, &binding.status).map_err(|error| {
                // Only an update of the binding can correct the error. The update triggers another cycle.
                let text = error.to_string();
                let plan = Plan::failure(
                    binding,
                    ScheduledReason::SchedulerError,
                    text,
                    Verdict::Done,
                );
                CycleOutcome::boxed(plan, Some(trigger))
            })?;
        let peers = self
            .book
            .peers(binding, |key| self.bindings.get(key).cloned());
        let request = match peers {
            Some(peers) => request.with_peers(peers),
            None => request,
        };
        let request = match self.book.earlier_request(&binding.key) {
            Some(earlier) => request.with_earlier(earlier),
            None => request,
        };
        Ok(ScheduleRequest {
            trigger,
            request: request.with_object(binding.clone()),
            json,
        })
    }

    /// Returns the outcome of a cycle, or `None` if the cycle continues when the requested answers arrive.
    fn cycle_outcome(&mut self, binding: &Arc<Binding>, round: Round) -> Option<CycleOutcome> {
        let ScheduleRequest {
            trigger,
            request,
            json,
        } = match self.schedule_request(binding) {
            Ok(request) => request,
            Err(outcome) => return Some(*outcome),
        };
        let snapshot = self.clusters.snapshot(&self.plugin_state);
        let Some(framework) = self.frameworks.of_mut(binding) else {
            return Some(CycleOutcome::of(Plan::nothing(Verdict::Done), None));
        };
        let points = Arc::clone(&framework.points);
        if let Some(gated) = points.gate(binding) {
            return Some(CycleOutcome::gated(binding, trigger, &gated));
        }
        let (now, assumes_capacity) = (Instant::now(), framework.assumes_capacity);
        let taken = Arc::new(self.book.taken_for(binding, assumes_capacity, now));
        let mut times = self.metrics.clock();
        let engine = &mut framework.engine;
        let search = VictimSearch {
            binding,
            request: &request,
            snapshot,
            book: &self.book,
            assumes_capacity,
            now,
            plugin_state: &self.plugin_state,
            points: &points,
        };
        let decides_slowly = self.decides_slowly;
        let ((decision, preemption), mut round, missing) = self.answers.decide(round, || {
            let decide = || {
                let mut decision = engine.decide(snapshot, &request, &taken, Some(&mut times));
                let preemption = search.run(engine, &decision.outcome, &mut decision.state);
                (decision, preemption)
            };
            run_decision(decides_slowly, decide)
        });
        self.decides_slowly = now.elapsed() > SLOW_DECISION;
        let mut stages = Stages::new();
        if berth_telemetry::is_enabled() {
            stages = times.stages();
        }
        self.metrics.decision(times);
        if let Some(missing) = missing {
            match self
                .answers
                .request(binding, snapshot, missing, round, &self.book)
            {
                RequestOutcome::Requested => return None,
                RequestOutcome::Final(same) => round = same,
                RequestOutcome::Later(reason) => {
                    tracing::debug!(binding = %binding.key, reason, "decided later");
                    let plan = Plan::nothing(Verdict::Retry);
                    return Some(CycleOutcome::of(plan, Some(trigger)));
                }
            }
        }
        let inputs = round.into_inputs(request, snapshot, taken);
        if let Some(log) = &mut self.decision_log {
            log.decision(inputs.logged(binding, &decision.outcome));
        }
        let (remark, note) = (preemption.remark(), preemption.note());
        let mut plan =
            Plan::with_remark(binding, &json, &decision.outcome, remark.as_deref(), note);
        if preemption.has_failed() && plan.verdict == Verdict::Wait {
            plan.verdict = Verdict::Retry;
        }
        // The removal of a result needs no Reserve or Permit plugin.
        let takes_part = decision.outcome.result.is_ok() && points.take_part_in_writes();
        let decided = plan.targets.as_ref().filter(|_| takes_part);
        let reserved = decided.map(|targets| ReservedDecision {
            decided: Decided {
                binding: Arc::clone(binding),
                targets: Arc::clone(targets),
                snapshot: Arc::clone(snapshot),
            },
            state: decision.state,
            points,
        });
        if let Some(recent) = &mut self.recent_decisions {
            let configuration = self.configurations.current;
            let outcome = decision.outcome;
            recent.insert(RecordedDecision {
                remark,
                ..RecordedDecision::new(trigger, binding, configuration, inputs, outcome)
            });
        }
        self.book
            .reserve(binding, preemption.reserved_placement(), now);
        self.add_preemption_retry(binding, &preemption);
        self.evict(binding, preemption);
        Some(CycleOutcome {
            plan,
            trigger: Some(trigger),
            decision: reserved,
            stages,
        })
    }

    fn report_deleting(&self, binding: &Binding) {
        let kind = binding.key.kind().name_in_messages();
        let message = format!("skip schedule deleting {kind}: {}", binding.key);
        let note = Note {
            severity: Severity::Warning,
            reason: REASON_FAILED,
            message,
        };
        let recorder = self.recorder.of(binding.spec.scheduler());
        let reference = binding_reference(&binding.key, &binding.metadata);
        recorder.record(note.clone().about(reference));
        recorder.record(note.about(template_reference(binding)));
    }
}

/// Makes a decision. A slow decision does not hold up the other tasks of its thread of the runtime.
fn run_decision<T>(is_slow: bool, decide: impl FnOnce() -> T) -> T {
    if is_slow {
        without_blocking_the_runtime(decide)
    } else {
        decide()
    }
}

/// Returns the result of a cycle for the metrics.
pub(super) fn cycle_result(plan: &Plan) -> CycleResult {
    if plan.is_error {
        CycleResult::Error
    } else {
        CycleResult::Scheduled
    }
}
