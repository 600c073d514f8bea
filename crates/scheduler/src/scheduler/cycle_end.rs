//! The end of a scheduling cycle: the results of writes and evictions, and the decisions of Permit plugins.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use berth_api::{Binding, BindingKey};
use berth_engine::{PluginError, Point, ScheduledReason};
use tokio::task::JoinError;

use super::Scheduler;
use super::event_hints::requeue_for_plugins;
use super::eviction::FinishedEviction;
use super::in_flight::{Cycle, ReservedDecision};
use super::leadership::Leading;
use super::log_lines::WriteAnswer;
use super::permit::Parked;
use super::writes::FinishedWrite;
use crate::framework::DecisionFate;
use crate::framework::plugin_messages::{PermitDecision, PluginMessage};
use crate::metrics::{CycleResult, Incoming};
use crate::queue::Verdict;
use crate::rules::plan::Plan;
use crate::writer::Report;

impl Scheduler {
    /// Handles the result of a write, which ends the cycle. The comments number the phases.
    pub(super) fn handle_write_result(
        &mut self,
        leading: &mut Leading,
        finished: Result<FinishedWrite, JoinError>,
    ) {
        let now = Instant::now();
        let finished = match finished {
            Ok(finished) => finished,
            Err(error) => {
                tracing::error!(%error, "a write task panicked");
                return;
            }
        };
        // 1. The events. They refer to the binding as it was before this result.
        finished.record_events(&self.records.events, &self.cache.bindings);
        let fate = finished.fate();
        let FinishedWrite {
            cycle,
            plan,
            report,
            decision,
            ..
        } = finished;
        let key = cycle.key().clone();
        let Cycle {
            schedule_type,
            began,
            ..
        } = cycle;
        // 2. The end of the assumption. If the decision was not stored, its capacity and its reservations are free before
        //    the watch events of phase 4 queue other bindings.
        self.keep_unknown_usage(&key, &report);
        self.complete_decision(leading, &key, fate);
        if let Some(mut decision) = decision
            && fate == DecisionFate::Dropped
        {
            decision.unreserve();
        }
        // 3. The verdict. A written binding enters the cache from the response, which is earlier than its watch event.
        let mut not_before = None;
        let verdict = match report {
            Report::Written(binding) => {
                let own = binding.generation();
                self.cache.apply_written(&self.config, *binding, own);
                // Unless a newer generation is known, the events that arrived during the write resulted from the write.
                let stored = self.cache.bindings.get(&key);
                if stored.is_none_or(|stored| stored.generation() <= own) {
                    leading.queue.clear_pending(&key);
                }
                self.records.written(&key, &plan, schedule_type, began);
                plan.verdict
            }
            Report::Conflict { current, .. } => {
                tracing::debug!(binding = %key, "conflict with another writer; deciding again");
                match current {
                    Some(current) => {
                        self.cache.apply_written(&self.config, *current, 0);
                        Verdict::Again
                    }
                    None => Verdict::Retry,
                }
            }
            Report::Gone => Verdict::Done,
            Report::Stopped(error) => {
                tracing::warn!(binding = %key, %error, "a plugin stopped the write of a result");
                self.end_write(leading, &key);
                return self.report_stopped(leading, cycle, &error, now);
            }
            Report::Refused {
                status, binding, ..
            } => self.report_refused(leading, &key, &status, *binding),
            Report::Failed {
                error,
                answered,
                after,
                binding,
                ..
            } => {
                let answer = if answered {
                    WriteAnswer::Error
                } else {
                    WriteAnswer::None
                };
                self.records.lines.write_failed(&key, &error, answer);
                not_before = after.map(|after| now + after);
                if let Some(binding) = binding {
                    let own = binding.generation();
                    self.cache.apply_written(&self.config, *binding, own);
                }
                self.records
                    .metrics
                    .cycle(CycleResult::Error, schedule_type, began.elapsed());
                Verdict::Retry
            }
            Report::NotLeading { .. } => Verdict::Retry,
        };
        // 4. The watch events that arrived during the write. They come before the end of the processing, so that a change
        //    of the binding leads to another cycle whatever the verdict is.
        self.end_write(leading, &key);
        if matches!(
            verdict,
            Verdict::Retry | Verdict::Wait | Verdict::WaitForEstimates
        ) {
            self.records
                .metrics
                .incoming(Incoming::ScheduleAttemptFailure);
        }
        // 5. The end of the processing, after which the key may be ready, delayed or gone.
        self.end_cycle(leading, &key, verdict, now);
        if let Some(at) = not_before {
            leading.queue.postpone(&key, at);
        }
    }

    /// Reports in the condition of a binding that the API server rejected the write of its result.
    fn report_refused(
        &self,
        leading: &mut Leading,
        key: &BindingKey,
        status: &kube::core::Status,
        binding: Binding,
    ) -> Verdict {
        let quota = status.code == 403 && status.reason == "QuotaExceeded";
        let reason = if quota {
            ScheduledReason::QuotaExceeded
        } else {
            ScheduledReason::SchedulerError
        };
        tracing::warn!(binding = %key, error = status.message, "the API server refuses a result");
        let plan = Plan::failure(&binding, reason, status.message.clone(), Verdict::Retry);
        if plan.is_empty() {
            return Verdict::Retry;
        }
        leading.writes.spawn_refusal(&self.writer, binding, plan);
        Verdict::Retry
    }

    /// Completes an assumed decision. After a successful write, its clusters may become victims, so retries the bindings
    /// of a higher priority for which a search found no victims. The bindings are retried after their backoff, so that
    /// a busy control plane does not cause permanent searches.
    pub(super) fn complete_decision(
        &mut self,
        leading: &mut Leading,
        key: &BindingKey,
        fate: DecisionFate,
    ) {
        self.cache.complete(key, fate);
        if fate == DecisionFate::Stored
            && let Some(binding) = self.cache.bindings.get(key)
        {
            let now = Instant::now();
            let priority = binding.spec.priority();
            for key in leading.preemption_retries.take_above(priority) {
                leading.queue.back_off(&key, now);
            }
        }
    }

    /// Handles the result of an eviction, and requeues the victim or the preempting binding.
    pub(super) fn handle_eviction_result(
        &mut self,
        leading: &mut Leading,
        finished: Result<FinishedEviction, JoinError>,
    ) {
        let now = Instant::now();
        let finished = match finished {
            Ok(finished) => finished,
            Err(error) => {
                tracing::error!(%error, "an eviction task panicked");
                return;
            }
        };
        finished.record_events(&self.records.events);
        let FinishedEviction {
            preemptor,
            victim,
            report,
            ..
        } = finished;
        match report {
            Report::Written(binding) => {
                self.cache.apply_written(&self.config, *binding, 0);
                // The victim needs another cluster. Queue it here, because its watch event is not newer than this
                // object and is ignored.
                if let Some(binding) = self.cache.bindings.get(&victim.key)
                    && self.config.frameworks.passes(binding)
                {
                    let rank = self.config.frameworks.rank(binding);
                    leading.queue.push(&victim.key, rank, now);
                }
            }
            Report::Conflict { current, .. } => {
                if let Some(current) = current {
                    self.cache.apply_written(&self.config, *current, 0);
                }
                // A new search may find other victims.
                leading.queue.activate(&preemptor.key, now);
            }
            Report::Gone => leading.queue.activate(&preemptor.key, now),
            Report::Failed { after, .. } => {
                leading.queue.back_off(&preemptor.key, now);
                if let Some(after) = after {
                    leading.queue.postpone(&preemptor.key, now + after);
                }
            }
            Report::Refused { .. } | Report::Stopped(_) | Report::NotLeading { .. } => {
                leading.queue.back_off(&preemptor.key, now);
            }
        }
    }

    /// Handles messages of plugins. A rejection may cause further messages, which are handled as well.
    pub(super) fn handle_plugin_messages(
        &mut self,
        leading: &mut Leading,
        messages: Vec<PluginMessage>,
        now: Instant,
    ) {
        let mut messages = VecDeque::from(messages);
        while let Some(message) = messages.pop_front() {
            let (plugin, key, decision) = match message {
                PluginMessage::Requeue(keys) => {
                    let (config, bindings) = (&self.config, &self.cache.bindings);
                    requeue_for_plugins(config, bindings, Some(&mut leading.queue), &keys, now);
                    continue;
                }
                PluginMessage::Decide {
                    plugin,
                    key,
                    decision,
                } => (plugin, key, decision),
            };
            match decision {
                PermitDecision::Allow => {
                    if let Some(parked) = leading.parked.allow(&plugin, &key) {
                        let Parked {
                            cycle,
                            plan,
                            decision,
                            ..
                        } = parked;
                        self.write_plan(leading, cycle, plan, Some(decision));
                    }
                }
                PermitDecision::Reject(reason) => {
                    messages.extend(self.reject(leading, &key, &plugin, reason, now));
                }
            }
        }
    }

    /// Rejects a parked decision. Returns the plugins' messages about other decisions.
    fn reject(
        &mut self,
        leading: &mut Leading,
        key: &BindingKey,
        plugin: &Arc<str>,
        reason: String,
        now: Instant,
    ) -> Vec<PluginMessage> {
        let Some((parked, messages)) = leading.parked.revert(key, &mut self.cache) else {
            return Vec::new();
        };
        self.retry_after_release(leading, &parked.decision, now);
        let error = PluginError::unschedulable(reason).of(plugin, Point::Permit);
        self.report_stopped(leading, parked.cycle, &error, now);
        messages
    }

    /// Rejects the parked decisions whose deadlines have passed.
    pub(super) fn reject_overdue_permits(&mut self, leading: &mut Leading, now: Instant) {
        let overdue = leading.parked.overdue(now);
        if !overdue.is_empty() {
            self.handle_plugin_messages(leading, overdue, now);
        }
    }

    /// Moves the waiting bindings that may use the capacity of a rejected decision to backoff. With an immediate retry,
    /// two decisions that alternately reject each other would keep the scheduler busy.
    fn retry_after_release(
        &self,
        leading: &mut Leading,
        rejected: &ReservedDecision,
        now: Instant,
    ) {
        if !self.cache.book.assumes_capacity() {
            return;
        }
        let binding = &rejected.decided.binding;
        let waiting: Vec<BindingKey> = leading.queue.delayed_keys().cloned().collect();
        for key in waiting {
            let Some(other) = self.cache.bindings.get(&key) else {
                continue;
            };
            let mut permits = rejected.points.permit.iter();
            if permits.all(|permit| permit.point.gains(binding, other)) {
                leading.queue.back_off(&key, now);
            }
        }
    }

    /// Drops the parked decision of a binding that has changed.
    pub(super) fn drop_outdated_decision(
        &mut self,
        leading: &mut Leading,
        binding: &Binding,
        now: Instant,
    ) {
        let Some(parked) = leading.parked.get(&binding.key) else {
            return;
        };
        let decided = &parked.decision.decided.binding;
        let same = decided.metadata.uid == binding.metadata.uid
            && decided.generation() == binding.generation()
            && !binding.deleting();
        if !same {
            self.drop_parked(leading, &binding.key, now);
        }
    }

    /// Drops a parked decision. The condition of its binding stays unchanged. The binding is decided again if it still
    /// exists.
    pub(super) fn drop_parked(&mut self, leading: &mut Leading, key: &BindingKey, now: Instant) {
        let Some((_, messages)) = leading.parked.revert(key, &mut self.cache) else {
            return;
        };
        leading.queue.done(key, Verdict::Again, now);
        self.handle_plugin_messages(leading, messages, now);
    }

    /// Reports in the condition of a binding that a plugin stopped its scheduling cycle.
    pub(super) fn report_stopped(
        &mut self,
        leading: &mut Leading,
        cycle: Cycle,
        error: &PluginError,
        now: Instant,
    ) {
        let Some(binding) = self.cache.bindings.get(cycle.key()).cloned() else {
            leading.queue.done(cycle.key(), Verdict::Done, now);
            return;
        };
        let plan = Plan::stopped(&binding, error);
        if plan.is_empty() {
            self.records
                .metrics
                .incoming(Incoming::ScheduleAttemptFailure);
            leading.queue.done(cycle.key(), plan.verdict, now);
            return;
        }
        let cycle = Cycle { binding, ..cycle };
        self.write_plan(leading, cycle, plan, None);
    }
}
