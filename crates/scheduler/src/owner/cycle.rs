//! The scheduling cycle: does a binding need scheduling, where does it go, what became of the write.

use std::sync::Arc;
use std::time::Instant;

use berth_api::canonical::placement_json;
use berth_core::Request;

use super::estimates::Round;
use super::references::{binding_reference, template_reference};
use super::{Finished, Owner};
use crate::binding::{Binding, BindingKey};
use crate::condition::Reason;
use crate::events::{Note, NoteType};
use crate::filter;
use crate::group_in_use::group_in_use;
use crate::metrics::{CycleResult, Incoming, StepTimes};
use crate::need::{ScheduleType, schedule_type};
use crate::plan::{Plan, REASON_FAILED};
use crate::queue::Verdict;
use crate::writer::Report;

/// How many decisions are made between two looks at the inbox.
const DECISIONS_PER_TURN: usize = 64;

impl Owner {
    /// Decides as long as there is something to decide and room for its writes.
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
            self.cycle(&key, now, None);
        }
    }

    /// One cycle of a key; `earlier` is what the estimators have been asked for it so far.
    pub(super) fn cycle(&mut self, key: &BindingKey, now: Instant, earlier: Option<Round>) {
        let Some(binding) = self.bindings.get(key).map(|entry| entry.binding.clone()) else {
            self.end(key, Verdict::Done, now);
            return;
        };
        if binding.deleting() {
            self.say_deleting(&binding);
            self.end(key, Verdict::Done, now);
            return;
        }
        // It may have been suspended, or handed over, while it was in the queue.
        if !filter::in_charge(&binding, &self.scheduler_name) {
            self.end(key, Verdict::Done, now);
            return;
        }
        let round = match earlier {
            Some(round) => round.for_now(&binding),
            None => Round::first(&binding, now),
        };
        let began = round.began;
        let Some((plan, schedule_type)) = self.plan(&binding, round) else {
            return;
        };
        if plan.is_empty() {
            if plan.verdict != Verdict::Done {
                self.metrics.incoming(Incoming::ScheduleAttemptFailure);
            }
            if let Some(schedule_type) = schedule_type {
                self.metrics
                    .cycle(cycle_result(&plan), schedule_type, began.elapsed());
            }
            self.end(key, plan.verdict, now);
            return;
        }
        self.assume(&binding, &plan, now);
        let writer = self.writer.clone();
        let key = key.clone();
        self.writes.spawn(async move {
            let resource = template_reference(&binding);
            let report = writer.write(binding, &plan).await;
            let schedule_type = schedule_type.unwrap_or(ScheduleType::Reconcile);
            Finished {
                key,
                resource,
                plan,
                report,
                schedule_type,
                began,
            }
        });
    }

    /// The processing of a key is over.
    fn end(&mut self, key: &BindingKey, verdict: Verdict, now: Instant) {
        self.metrics.ended(key, verdict == Verdict::Retry, now);
        self.queue.done(key, verdict, now);
    }

    /// From here on the next decisions count with this one.
    fn assume(&mut self, binding: &Binding, plan: &Plan, now: Instant) {
        let Some(targets) = &plan.targets else { return };
        if let Some(groups) = &mut self.groups {
            groups.assigning(
                &binding.key,
                targets.iter().map(|target| target.name.clone()).collect(),
            );
        }
        if let Some(assumptions) = &mut self.assumptions {
            assumptions.decided(binding, targets, now);
        }
    }

    /// A write has ended: what was assumed of it is known now.
    fn settle(&mut self, key: &BindingKey, landed: bool) {
        if let Some(groups) = &mut self.groups {
            groups.settled(key);
        }
        if let Some(assumptions) = &mut self.assumptions {
            if landed {
                assumptions.landed(key);
            } else {
                assumptions.failed(key);
            }
        }
    }

    /// What one cycle of a binding writes, and why it ran; `None` where the estimators are asked first.
    fn plan(&mut self, binding: &Binding, round: Round) -> Option<(Plan, Option<ScheduleType>)> {
        let Some(placement) = &binding.spec.placement else {
            // Nothing can be decided until the binding gets one, and that is an update.
            return Some((Plan::nothing(Verdict::Done), None));
        };
        let json = match placement_json(placement) {
            Ok(json) => json,
            Err(error) => {
                let plan = Plan::failure(
                    binding,
                    Reason::SchedulerError,
                    error.to_string(),
                    Verdict::Wait,
                );
                return Some((plan, None));
            }
        };
        let leaving = |name: &str| self.leaving.contains(name);
        let Some(why) = schedule_type(
            binding,
            placement,
            &json,
            self.multiple_pod_templates,
            leaving,
        ) else {
            let members = &self.members;
            let cluster = |name: &str| members.get(name).map(|member| member.cluster.clone());
            let group = group_in_use(binding, placement, cluster);
            return Some((Plan::observe_only(binding, group), None));
        };
        let key = &binding.key;
        let plan = match Request::new(
            key.namespace.as_deref(),
            &key.name,
            &binding.spec,
            &binding.status,
        ) {
            Ok(request) => {
                let request = match &self.groups {
                    Some(groups) => {
                        let bindings = &self.bindings;
                        let find =
                            |key: &BindingKey| bindings.get(key).map(|entry| entry.binding.clone());
                        request.with_peers(groups.peers(binding, find))
                    }
                    None => request,
                };
                let now = Instant::now();
                let assumptions = self.assumptions.as_ref();
                let assumed = assumptions
                    .map(|assumptions| assumptions.assumed(now))
                    .unwrap_or_default();
                let snapshot = self.snapshot.get_or_insert_with(|| self.fleet.snapshot());
                let engine = &mut self.engine;
                let metrics = &self.metrics;
                let mut decide = || {
                    let mut times = StepTimes::default();
                    let decision = engine.decide(snapshot, &request, &assumed, Some(&mut times));
                    metrics.steps(times);
                    decision.outcome
                };
                let outcome = match &mut self.accurate {
                    None => decide(),
                    Some(accurate) => {
                        let (outcome, wanted) = accurate.desk.decide(round.answers.clone(), decide);
                        let assumptions = self.assumptions.as_ref();
                        if let Some(wanted) = wanted
                            && accurate.ask(binding, wanted, round, assumptions).is_ok()
                        {
                            return None;
                        }
                        outcome
                    }
                };
                Plan::of(binding, &json, &outcome)
            }
            // Only a change of the binding can help, and that is an update.
            Err(error) => Plan::failure(
                binding,
                Reason::SchedulerError,
                error.to_string(),
                Verdict::Done,
            ),
        };
        Some((plan, Some(why)))
    }

    pub(super) fn finish(&mut self, finished: Result<Finished, tokio::task::JoinError>) {
        let now = Instant::now();
        let finished = match finished {
            Ok(finished) => finished,
            Err(error) => {
                tracing::error!(%error, "a write ended abnormally");
                return;
            }
        };
        self.record(&finished);
        let Finished {
            key,
            plan,
            report,
            schedule_type,
            began,
            ..
        } = finished;
        self.settle(&key, report.result_landed());
        let mut not_before = None;
        let verdict = match report {
            Report::Written(binding) => {
                let own = binding.generation();
                self.remember_if_present(*binding, own);
                // Events that came while we wrote were about our own write, unless the object is newer.
                if self
                    .bindings
                    .get(&key)
                    .is_none_or(|entry| entry.binding.generation() <= own)
                {
                    self.queue.calm(&key);
                }
                self.metrics
                    .cycle(cycle_result(&plan), schedule_type, began.elapsed());
                plan.verdict
            }
            Report::Conflict { current, .. } => {
                tracing::debug!(binding = %key, "somebody else wrote first; deciding again");
                match current {
                    Some(current) => {
                        self.remember_if_present(*current, 0);
                        Verdict::Again
                    }
                    None => Verdict::Retry,
                }
            }
            Report::Gone => Verdict::Done,
            Report::Refused { status, binding } => self.refused(&key, &status, *binding),
            Report::Unreachable {
                error,
                after,
                binding,
            } => {
                tracing::warn!(binding = %key, error, "cannot write a result; trying again");
                not_before = after.map(|after| now + after);
                if let Some(binding) = binding {
                    let own = binding.generation();
                    self.remember_if_present(*binding, own);
                }
                self.metrics
                    .cycle(CycleResult::Error, schedule_type, began.elapsed());
                Verdict::Retry
            }
            Report::NotLeading => Verdict::Retry,
        };
        if verdict == Verdict::Retry || verdict == Verdict::Wait {
            self.metrics.incoming(Incoming::ScheduleAttemptFailure);
        }
        self.end(&key, verdict, now);
        if let Some(at) = not_before {
            self.queue.postpone(&key, at);
        }
    }

    /// The API server refuses the result: the binding says so.
    fn refused(
        &mut self,
        key: &BindingKey,
        status: &kube::core::Status,
        binding: Binding,
    ) -> Verdict {
        let quota = status.code == 403 && status.reason == "QuotaExceeded";
        let reason = if quota {
            Reason::QuotaExceeded
        } else {
            Reason::SchedulerError
        };
        tracing::warn!(binding = %key, error = status.message, "the API server refuses a result");
        let plan = Plan::failure(&binding, reason, status.message.clone(), Verdict::Retry);
        if plan.is_empty() {
            return Verdict::Retry;
        }
        let writer = self.writer.clone();
        let key = key.clone();
        self.writes.spawn(async move {
            let began = Instant::now();
            let resource = template_reference(&binding);
            let report = match writer.write(Arc::new(binding), &plan).await {
                // Refusing the refusal too leads nowhere: the key backs off.
                Report::Refused { status, .. } => Report::Unreachable {
                    error: status.message.clone(),
                    after: None,
                    binding: None,
                },
                report => report,
            };
            Finished {
                key,
                resource,
                plan,
                report,
                schedule_type: ScheduleType::Reconcile,
                began,
            }
        });
        Verdict::Retry
    }

    /// Records the events of a plan whose writes have landed. Where only the answer to the last one is
    /// missing, it may have landed and the next cycle may find nothing left to do: then as well.
    pub(super) fn record(&self, finished: &Finished) {
        let reference = match &finished.report {
            Report::Written(binding)
            | Report::Unreachable {
                binding: Some(binding),
                ..
            } => binding_reference(&finished.key, &binding.metadata),
            Report::Unreachable { .. } if finished.plan.result.is_none() => {
                match self.bindings.get(&finished.key) {
                    Some(entry) => binding_reference(&finished.key, &entry.binding.metadata),
                    None => return,
                }
            }
            _ => return,
        };
        for note in &finished.plan.notes {
            self.recorder.record(&reference, note.clone());
            self.recorder.record(&finished.resource, note.clone());
        }
    }

    fn say_deleting(&self, binding: &Binding) {
        let kind = match &binding.key.namespace {
            Some(_) => "resourceBinding",
            None => "clusterResourceBinding",
        };
        let message = format!("skip schedule deleting {kind}: {}", binding.key);
        let note = Note {
            note_type: NoteType::Warning,
            reason: REASON_FAILED,
            message,
        };
        self.recorder.record(
            &binding_reference(&binding.key, &binding.metadata),
            note.clone(),
        );
        self.recorder.record(&template_reference(binding), note);
    }
}

fn cycle_result(plan: &Plan) -> CycleResult {
    let failed = plan.verdict == Verdict::Retry
        || plan
            .status
            .as_ref()
            .and_then(|status| status.scheduled.as_ref())
            .is_some_and(|scheduled| {
                !matches!(scheduled.reason, Reason::Success | Reason::NoClusterFit)
            });
    if failed {
        CycleResult::Error
    } else {
        CycleResult::Scheduled
    }
}
