//! What became of a write, and what follows from it.

use std::sync::Arc;
use std::time::Instant;

use super::Owner;
use super::cycle::cycle_result;
use super::references::{binding_reference, template_reference};
use super::store::{Cycle, Finished};
use crate::binding::{Binding, BindingKey};
use crate::condition::Reason;
use crate::metrics::{CycleResult, Incoming};
use crate::need::ScheduleType;
use crate::plan::Plan;
use crate::queue::Verdict;
use crate::writer::Report;

impl Owner {
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
            cycle,
            plan,
            report,
            held,
            ..
        } = finished;
        let key = cycle.key().clone();
        let Cycle {
            schedule_type,
            began,
            ..
        } = cycle;
        self.settle(&key, report.result_landed());
        if let Some(mut held) = held
            && !report.result_landed()
        {
            held.unreserve();
        }
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
            Report::Stopped(error) => {
                tracing::warn!(binding = %key, %error, "a plugin stopped the write of a result");
                self.catch_up(&key);
                return self.stopped(cycle, &error, now);
            }
            Report::Refused { status, binding } => self.refused(&key, &status, *binding),
            Report::Unreachable {
                error,
                answered,
                after,
                binding,
            } => {
                if answered {
                    tracing::warn!(binding = %key, error, "cannot write a result; trying again");
                } else {
                    tracing::debug!(binding = %key, error, "cannot write a result; trying again");
                }
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
        self.catch_up(&key);
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
        self.writes.spawn(async move {
            let resource = template_reference(&binding);
            let cycle = Cycle {
                binding: Arc::new(binding),
                schedule_type: ScheduleType::Reconcile,
                began: Instant::now(),
            };
            let report = match writer.write(cycle.binding.clone(), &plan).await {
                // Refusing the refusal too leads nowhere: the key backs off.
                Report::Refused { status, .. } => Report::Unreachable {
                    error: status.message.clone(),
                    answered: true,
                    after: None,
                    binding: None,
                },
                report => report,
            };
            Finished {
                cycle,
                resource,
                plan,
                report,
                held: None,
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
            } => binding_reference(finished.cycle.key(), &binding.metadata),
            Report::Unreachable { .. } if finished.plan.result.is_none() => {
                match self.bindings.get(finished.cycle.key()) {
                    Some(entry) => binding_reference(finished.cycle.key(), &entry.binding.metadata),
                    None => return,
                }
            }
            _ => return,
        };
        let recorder = self.recorder.of(finished.cycle.binding.spec.scheduler());
        for note in &finished.plan.notes {
            recorder.record(note.clone().about(reference.clone()));
            recorder.record(note.clone().about(finished.resource.clone()));
        }
    }
}
