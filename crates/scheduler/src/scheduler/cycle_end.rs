//! The handling of the result of a binding's write, which ends the scheduling cycle.

use std::sync::Arc;
use std::time::Instant;

use berth_api::{Binding, BindingKey};
use berth_engine::ScheduledReason;
use berth_telemetry::Span;

use super::Scheduler;
use super::cycle::cycle_result;
use super::in_flight::Cycle;
use super::object_references::{binding_reference, template_reference};
use super::writes::{FinishedWrite, failed_on_panic};
use crate::metrics::{CycleResult, Incoming};
use crate::queue::Verdict;
use crate::rules::plan::{Plan, REASON_SUCCEEDED};
use crate::rules::schedule_trigger::ScheduleType;
use crate::writer::Report;

impl Scheduler {
    pub(super) fn handle_write_result(
        &mut self,
        finished: Result<FinishedWrite, tokio::task::JoinError>,
    ) {
        let now = Instant::now();
        let finished = match finished {
            Ok(finished) => finished,
            Err(error) => {
                tracing::error!(%error, "a write task panicked");
                return;
            }
        };
        self.record_write_events(&finished);
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
        self.complete_decision(&key, report.result_landed());
        if let Some(mut decision) = decision
            && !report.result_landed()
        {
            decision.unreserve();
        }
        let mut not_before = None;
        let verdict = match report {
            Report::Written(binding) => {
                let own = binding.generation();
                self.cache_written(*binding, own);
                // Unless a newer generation is known, the events that arrived during the write resulted from the write.
                if self
                    .bindings
                    .get(&key)
                    .is_none_or(|stored| stored.generation() <= own)
                {
                    self.queue.clear_pending(&key);
                }
                self.metrics
                    .cycle(cycle_result(&plan), schedule_type, began.elapsed());
                plan.verdict
            }
            Report::Conflict { current, .. } => {
                tracing::debug!(binding = %key, "conflict with another writer; deciding again");
                match current {
                    Some(current) => {
                        self.cache_written(*current, 0);
                        Verdict::Again
                    }
                    None => Verdict::Retry,
                }
            }
            Report::Gone => Verdict::Done,
            Report::Stopped(error) => {
                tracing::warn!(binding = %key, %error, "a plugin stopped the write of a result");
                self.end_write(&key);
                return self.report_stopped(cycle, &error, now);
            }
            Report::Refused {
                status, binding, ..
            } => self.report_refused(&key, &status, *binding),
            Report::Failed {
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
                    self.cache_written(*binding, own);
                }
                self.metrics
                    .cycle(CycleResult::Error, schedule_type, began.elapsed());
                Verdict::Retry
            }
            Report::NotLeading { .. } => Verdict::Retry,
        };
        self.end_write(&key);
        if verdict == Verdict::Retry || verdict == Verdict::Wait {
            self.metrics.incoming(Incoming::ScheduleAttemptFailure);
        }
        self.end_cycle(&key, verdict, now);
        if let Some(at) = not_before {
            self.queue.postpone(&key, at);
        }
    }

    /// Reports in the condition of a binding that the API server rejected the write of its result.
    fn report_refused(
        &mut self,
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
        let writer = self.writer.clone();
        self.writes.spawn(async move {
            let resource = template_reference(&binding);
            let cycle = Cycle {
                binding: Arc::new(binding),
                schedule_type: ScheduleType::Reconcile,
                began: Instant::now(),
                span: Span::default(),
            };
            let report = match failed_on_panic(writer.write(cycle.binding.clone(), &plan)).await {
                // Do not report that the API server rejected the condition as well. The key is retried after its
                // backoff.
                Report::Refused { status, .. } => Report::Failed {
                    error: status.message.clone(),
                    answered: true,
                    after: None,
                    binding: None,
                },
                report => report,
            };
            FinishedWrite {
                cycle,
                resource,
                plan,
                report,
                decision: None,
            }
        });
        Verdict::Retry
    }

    /// Records the events of a plan after its writes succeeded. The events are also recorded if only the last write
    /// failed. That write may have succeeded without a response, and the next cycle would then write nothing and record
    /// no event.
    pub(super) fn record_write_events(&self, finished: &FinishedWrite) {
        let key = finished.cycle.key();
        let reference = match &finished.report {
            Report::Written(binding)
            | Report::Failed {
                binding: Some(binding),
                ..
            } => binding_reference(key, &binding.metadata),
            Report::Failed { .. } if finished.plan.result.is_none() => {
                match self.bindings.get(key) {
                    Some(stored) => binding_reference(key, &stored.metadata),
                    None => return,
                }
            }
            _ => return,
        };
        let recorder = self.recorder.of(finished.cycle.binding.spec.scheduler());
        for note in &finished.plan.notes {
            let of_binding = note.clone().about(reference.clone());
            // The binding shows its clusters in its spec.
            if note.reason == REASON_SUCCEEDED {
                recorder.record_routine(of_binding);
            } else {
                recorder.record(of_binding);
            }
            recorder.record(note.clone().about(finished.resource.clone()));
        }
    }
}
