//! The scheduling cycle of a binding, up to the write of its result. The cycle checks whether the binding needs
//! scheduling, and selects its clusters. A cycle makes one decision. In a decision, the engine makes one attempt for
//! each affinity term, until a term is feasible.
//!
//! [`Scheduler::run_cycle`] shows the phases of a cycle, and [`Scheduler::cycle_outcome`] the phases of its decision.
//! The module `cycle_end` contains the phases after the write.

use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_api::{Binding, BindingKey};
use berth_component_base::blocking::without_blocking_the_runtime;
use berth_engine::Decision;
use berth_telemetry::Span;

use super::Scheduler;
use super::cycle_outcome::CycleOutcome;
use super::cycle_span::cycle_span;
use super::external_answers::{Answered, RequestOutcome, Round};
use super::in_flight::{Cycle, ReservedDecision};
use super::leadership::Leading;
use super::log_lines;
use super::permit::PermitOutcome;
use super::post_filter::{VictimSearch, VictimSearchOutcome};
use super::quotas::refusal;
use super::schedule_request::ScheduleRequest;
use crate::framework::plugin_calls::ExtensionPoints;
use crate::framework::{Decided, DecisionFate};
use crate::metrics::{CycleResult, Incoming, Stages};
use crate::queue::Verdict;
use crate::recorded_decision::{Inputs, RecordedDecision};
use crate::rules::plan::Plan;
use crate::rules::schedule_trigger::ScheduleType;

/// Maximum number of cycles between two checks of the input channels.
const CYCLES_PER_TURN: usize = 64;

/// Duration of a decision after which the next decision does not hold a thread of the runtime. Plugins, such as
/// `Expression`, may take long.
const SLOW_DECISION: Duration = Duration::from_millis(50);

/// A decision that lacks no answers.
struct FinalDecision {
    trigger: ScheduleType,
    /// Canonical JSON of the placement.
    json: String,
    inputs: Inputs,
    decision: Decision,
    preemption: VictimSearchOutcome,
    points: Arc<ExtensionPoints>,
    /// The stages of the decision and their durations, if they are traced.
    stages: Stages,
    made_at: Instant,
}

impl Scheduler {
    /// Runs the cycles of ready keys while the limits of pending writes and estimates allow it.
    pub(super) fn run_ready_cycles(&mut self, leading: &mut Leading, now: Instant) {
        for _ in 0..CYCLES_PER_TURN {
            if !self.may_run_cycle(leading) {
                return;
            }
            let Some((key, since)) = leading.queue.pop_with_age() else {
                return;
            };
            self.records
                .metrics
                .taken(&key, now.saturating_duration_since(since), now);
            self.run_cycle(leading, &key, now, None);
        }
    }

    /// Reports whether a key is ready and its cycle may start.
    pub(super) fn may_run_cycle(&self, leading: &Leading) -> bool {
        self.cache.lists.all_complete()
            && leading.writes.has_capacity()
            && self.answers.has_capacity()
            && leading.queue.has_ready()
    }

    /// Continues the cycle of a key with the answers of estimators and extenders.
    pub(super) fn resume_cycle(&mut self, leading: &mut Leading, answered: Answered) {
        let Answered { key, round } = answered;
        let now = Instant::now();
        match round {
            Some(round) => self.run_cycle(leading, &key, now, Some(round)),
            None => self.end_cycle(leading, &key, Verdict::Retry, now),
        }
    }

    /// Runs the cycle of a key until its write starts. `earlier` contains the answers that earlier rounds received for
    /// the key. The comments number the phases.
    fn run_cycle(
        &mut self,
        leading: &mut Leading,
        key: &BindingKey,
        now: Instant,
        earlier: Option<Round>,
    ) {
        // 1. The newest state of the binding. The queue contains only keys, so that several changes of a binding need
        //    one cycle.
        let Some(binding) = self.binding_in_charge(key) else {
            self.end_cycle(leading, key, Verdict::Done, now);
            return;
        };
        // 2. The answers of earlier rounds. They are about one generation: the answers to another request may differ.
        let round = match earlier {
            Some(round) => round.for_generation_of(&binding),
            None => Round::first(&binding, now),
        };
        let began = round.began;
        // 3. The decision. Without an outcome, it lacks answers, and the cycle resumes when they arrive. Meanwhile the
        //    key stays in processing, so that the binding has no second cycle.
        let Some(outcome) = self.cycle_outcome(leading, &binding, round) else {
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
        // 4. The end of a cycle without a write: the binding already contains everything that the plan would write, so
        //    no result of a write would end the cycle.
        if plan.is_empty() {
            if plan.verdict != Verdict::Done {
                self.records
                    .metrics
                    .incoming(Incoming::ScheduleAttemptFailure);
            }
            if let Some(schedule_type) = trigger {
                self.records
                    .metrics
                    .cycle(cycle_result(&plan), schedule_type, began.elapsed());
            }
            self.end_cycle(leading, key, plan.verdict, now);
            return;
        }
        // 5. The assumption. It precedes the write, because the next decision does not wait for the write and must not
        //    use the same capacity. It precedes Reserve and Permit, whose plugins see the decided clusters in the state.
        self.cache.assume(&binding, &plan, now);
        let cycle = Cycle {
            binding,
            schedule_type: trigger.unwrap_or(ScheduleType::Reconcile),
            began,
            span,
        };
        // 6. Reserve and Permit, if plugins take part in the write. They run on this task, so that they see one decision
        //    after the other, and a decision that they stop uses no slot of the writes.
        let allowed = match decision {
            None => None,
            Some(decision) => {
                let (outcome, messages) = leading.parked.reserve_and_permit(decision, now);
                self.handle_plugin_messages(leading, messages, now);
                match outcome {
                    PermitOutcome::Allowed(decision) => Some(decision),
                    PermitOutcome::Waiting(decision, waits_for) => {
                        leading.parked.park(decision, cycle, plan, waits_for);
                        return;
                    }
                    PermitOutcome::Stopped(error) => {
                        self.complete_decision(leading, key, DecisionFate::Dropped);
                        self.report_stopped(leading, cycle, &error, now);
                        return;
                    }
                }
            }
        };
        // 7. The write, in a task of its own. `handle_write_result` ends the cycle.
        self.write_plan(leading, cycle, plan, allowed);
    }

    /// Returns the newest state of a binding that this scheduler may schedule. While the key was queued, the binding may
    /// have been deleted, suspended, or assigned to another scheduler.
    fn binding_in_charge(&self, key: &BindingKey) -> Option<Arc<Binding>> {
        let Some(binding) = self.cache.bindings.get(key) else {
            tracing::debug!(binding = %key, "not scheduled: the binding was deleted");
            return None;
        };
        if binding.deleting() {
            tracing::debug!(binding = %key, "not scheduled: the binding is being deleted");
            self.records.deleting(binding);
            return None;
        }
        if !self.config.frameworks.in_charge(binding) {
            tracing::debug!(binding = %key, "not scheduled: the binding is suspended, or has another scheduler");
            return None;
        }
        Some(Arc::clone(binding))
    }

    /// Ends the processing of a key.
    pub(super) fn end_cycle(
        &mut self,
        leading: &mut Leading,
        key: &BindingKey,
        verdict: Verdict,
        now: Instant,
    ) {
        self.records
            .metrics
            .ended(key, verdict == Verdict::Retry, now);
        leading.queue.done(key, verdict, now);
        if let Some(quotas) = &mut self.cache.quotas {
            quotas.cycle_ended(key);
        }
    }

    /// Writes a plan in a separate task.
    pub(super) fn write_plan(
        &mut self,
        leading: &mut Leading,
        cycle: Cycle,
        plan: Plan,
        decision: Option<ReservedDecision>,
    ) {
        self.cache.bindings.begin_write(cycle.key());
        leading.writes.spawn(&self.writer, cycle, plan, decision);
    }

    /// Returns the outcome of a cycle, or `None` if the cycle resumes when the requested answers arrive. The comments
    /// number the phases of the decision.
    fn cycle_outcome(
        &mut self,
        leading: &mut Leading,
        binding: &Arc<Binding>,
        round: Round,
    ) -> Option<CycleOutcome> {
        // 1. The trigger, without which the binding keeps its clusters. It comes first, because most cycles have none:
        //    every change of a binding starts a cycle.
        let ScheduleRequest {
            trigger,
            request,
            json,
        } = match ScheduleRequest::new(binding, &self.config, &self.cache) {
            Ok(request) => request,
            Err(outcome) => return Some(*outcome),
        };
        // 2. The gate. PreEnqueue plugins see the bindings that need a decision, and the snapshot of this decision.
        let snapshot = self.cache.snapshot();
        let Some(framework) = self.config.frameworks.of_mut(binding) else {
            return Some(CycleOutcome::of(Plan::nothing(Verdict::Done), None));
        };
        let points = Arc::clone(&framework.points);
        if let Some(gated) = points.gate(binding) {
            tracing::debug!(binding = %binding.key, "not scheduled: a PreEnqueue plugin keeps the binding");
            return Some(CycleOutcome::gated(binding, trigger, &gated));
        }
        // 3. The decision, and the search for victims if the binding does not fit. Both use the same answers, and change
        //    nothing: if answers are missing, both are discarded.
        let (made_at, assumes_capacity) = (Instant::now(), framework.assumes_capacity);
        let taken = self
            .cache
            .book
            .taken_for(binding, assumes_capacity, made_at);
        let taken = Arc::new(taken);
        let mut times = self.records.metrics.clock();
        let search = VictimSearch {
            binding,
            request: &request,
            snapshot: &snapshot,
            book: &self.cache.book,
            assumes_capacity,
            now: made_at,
            plugin_state: &self.cache.plugin_state,
            points: &points,
        };
        let (engine, extenders) = (&mut framework.engine, self.config.extenders.as_ref());
        let ((decision, preemption), mut round, missing) =
            self.answers.decide(extenders, round, || {
                run_decision(leading.last_decision, || {
                    let mut decision = engine.decide(&snapshot, &request, &taken, Some(&mut times));
                    let preemption = search.run(engine, &decision.outcome, &mut decision.state);
                    (decision, preemption)
                })
            });
        leading.last_decision = made_at.elapsed();
        let mut stages = Stages::new();
        if berth_telemetry::is_enabled() {
            stages = times.stages();
        }
        self.records.metrics.decision(times);
        // 4. The missing answers. The decision shows which answers are missing, because only the clusters that pass the
        //    filters need estimates.
        if let Some(missing) = missing {
            let book = &self.cache.book;
            match self
                .answers
                .request(extenders, binding, &snapshot, missing, round, book)
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
        // 5. The effects of a decision that is final.
        let decision = FinalDecision {
            trigger,
            json,
            inputs: round.into_inputs(request, snapshot, taken),
            decision,
            preemption,
            points,
            stages,
            made_at,
        };
        Some(self.conclude(leading, binding, decision))
    }

    /// Records a final decision, starts its evictions, and returns the outcome of its cycle.
    fn conclude(
        &mut self,
        leading: &mut Leading,
        binding: &Arc<Binding>,
        decision: FinalDecision,
    ) -> CycleOutcome {
        let FinalDecision {
            trigger,
            json,
            inputs,
            decision: Decision { outcome, state },
            preemption,
            points,
            stages,
            made_at,
        } = decision;
        log_lines::decided(&binding.key, trigger, &outcome, made_at);
        let (mut remark, note) = (preemption.remark(), preemption.note());
        let mut plan = Plan::with_remark(binding, &json, &outcome, remark.as_deref(), note);
        if let Err(exceeded) = self.check_quotas(binding, &plan) {
            plan = refusal(binding, &exceeded);
            remark = Some(exceeded.to_string());
        }
        if preemption.has_failed() && plan.verdict == Verdict::Wait {
            plan.verdict = Verdict::Retry;
        }
        if plan.verdict == Verdict::Wait && inputs.estimates.unit().is_some() {
            plan.verdict = Verdict::WaitForEstimates;
        }
        // The removal of a result needs no Reserve or Permit plugin.
        let takes_part = outcome.result.is_ok() && points.take_part_in_writes();
        let targets = plan.targets.as_ref().filter(|_| takes_part);
        let reserved = targets.map(|targets| ReservedDecision {
            decided: Decided {
                binding: Arc::clone(binding),
                targets: Arc::clone(targets),
                snapshot: Arc::clone(&inputs.snapshot),
            },
            state,
            points,
        });
        let configuration = self.config.number;
        self.records.decision(RecordedDecision {
            remark,
            ..RecordedDecision::new(trigger, binding, configuration, inputs, outcome)
        });
        // The capacity of the victims is reserved before their evictions free it.
        self.cache
            .book
            .reserve(binding, preemption.reserved_placement(), made_at);
        // A search that found no victims while a decision was pending is repeated after the write of this decision.
        if matches!(preemption, VictimSearchOutcome::NoVictims)
            && self.cache.plugin_state.has_decisions()
        {
            leading.preemption_retries.add(binding);
        }
        leading
            .evictions
            .evict(&self.writer, &self.cache.bindings, binding, preemption);
        CycleOutcome {
            plan,
            trigger: Some(trigger),
            decision: reserved,
            stages,
        }
    }
}

/// Makes a decision. After a slow decision, does not hold up the other tasks of its thread of the runtime.
fn run_decision<T>(last_decision: Duration, decide: impl FnOnce() -> T) -> T {
    if last_decision > SLOW_DECISION {
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
