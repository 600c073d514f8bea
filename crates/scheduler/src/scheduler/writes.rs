//! The Bind phase of a scheduling cycle: the tasks that write decisions to the API server.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use berth_api::Binding;
use berth_events::EventRecorder;
use berth_telemetry::Span;
use futures::FutureExt as _;
use k8s_openapi::api::core::v1::ObjectReference;
use tokio::task::{JoinError, JoinSet};

use super::bindings::Bindings;
use super::in_flight::{Cycle, ReservedDecision};
use super::object_references::{binding_reference, template_reference};
use crate::framework::{Bound, DecisionFate};
use crate::rules::plan::{Plan, REASON_SUCCEEDED};
use crate::rules::schedule_trigger::ScheduleType;
use crate::writer::{Progress, Report, Writer};

/// Maximum number of concurrent writes.
const WRITES_IN_FLIGHT: usize = 64;

/// A finished write of a plan.
#[derive(Debug)]
pub(super) struct FinishedWrite {
    pub(super) cycle: Cycle,
    /// Reference to the binding's template.
    resource: ObjectReference,
    pub(super) plan: Plan,
    pub(super) report: Report,
    /// The decision, if plugins take part in its write.
    pub(super) decision: Option<ReservedDecision>,
}

/// The tasks that write plans.
#[derive(Debug, Default)]
pub(super) struct Writes(JoinSet<FinishedWrite>);

impl Writes {
    /// Reports whether another write may start.
    pub(super) fn has_capacity(&self) -> bool {
        self.0.len() < WRITES_IN_FLIGHT
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Writes a plan in a separate task.
    pub(super) fn spawn(
        &mut self,
        writer: &Writer,
        cycle: Cycle,
        plan: Plan,
        mut decision: Option<ReservedDecision>,
    ) {
        let writer = writer.clone();
        self.0.spawn(async move {
            let began = Instant::now();
            let resource = template_reference(&cycle.binding);
            let write = async {
                match &mut decision {
                    None => writer.write(cycle.binding.clone(), &plan).await,
                    Some(decision) => bind(&writer, &cycle, &plan, decision).await,
                }
            };
            let report = failed_on_panic(Box::pin(write)).await;
            cycle.span.record_child_since("write", began);
            FinishedWrite {
                cycle,
                resource,
                plan,
                report,
                decision,
            }
        });
    }

    /// Writes the condition of a binding whose result the API server rejected, in a separate task.
    pub(super) fn spawn_refusal(&mut self, writer: &Writer, binding: Binding, plan: Plan) {
        let writer = writer.clone();
        self.0.spawn(async move {
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
                    progress: Progress::Nothing,
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
    }

    /// Waits for the next finished write. Returns `None` if no write is pending.
    pub(super) async fn join_next(&mut self) -> Option<Result<FinishedWrite, JoinError>> {
        self.0.join_next().await
    }

    /// Returns a finished write, if there is one.
    pub(super) fn try_join_next(&mut self) -> Option<Result<FinishedWrite, JoinError>> {
        self.0.try_join_next()
    }
}

impl FinishedWrite {
    /// Returns whether the clusters of the plan are stored.
    pub(super) fn fate(&self) -> DecisionFate {
        if self.report.result_landed() {
            DecisionFate::Stored
        } else {
            DecisionFate::Dropped
        }
    }

    /// Records the events of a plan after its writes succeeded. The events are also recorded if only the last write
    /// failed. That write may have succeeded without a response, and the next cycle would then write nothing and record
    /// no event.
    pub(super) fn record_events(&self, events: &EventRecorder, bindings: &Bindings) {
        let key = self.cycle.key();
        let reference = match &self.report {
            Report::Written(binding)
            | Report::Failed {
                binding: Some(binding),
                ..
            } => binding_reference(key, &binding.metadata),
            Report::Failed { .. } if self.plan.result.is_none() => match bindings.get(key) {
                Some(stored) => binding_reference(key, &stored.metadata),
                None => return,
            },
            _ => return,
        };
        let recorder = events.of(self.cycle.binding.spec.scheduler());
        for note in &self.plan.notes {
            let of_binding = note.clone().about(reference.clone());
            // The binding shows its clusters in its spec.
            if note.reason == REASON_SUCCEEDED {
                recorder.record_routine(of_binding);
            } else {
                recorder.record(of_binding);
            }
            recorder.record(note.clone().about(self.resource.clone()));
        }
    }
}

/// Runs a write. A panic counts as a failed write, so that the binding is scheduled again.
async fn failed_on_panic(write: impl Future<Output = Report>) -> Report {
    let written = AssertUnwindSafe(write).catch_unwind().await;
    written.unwrap_or_else(|_| Report::Failed {
        error: "the write panicked".to_owned(),
        // Logs a warning, as for a response that reports a failure.
        answered: true,
        after: None,
        progress: Progress::Nothing,
        binding: None,
    })
}

/// Runs PreBind, Bind and PostBind of a decision. If no Bind plugin writes the clusters, the built-in writer writes the
/// complete plan. Otherwise the built-in writer writes the rest of the plan.
async fn bind(
    writer: &Writer,
    cycle: &Cycle,
    plan: &Plan,
    decision: &mut ReservedDecision,
) -> Report {
    let ReservedDecision {
        points,
        decided,
        state,
    } = decision;
    let report = match points.bind(decided, state).await {
        Err(error) => return Report::Stopped(error),
        Ok(Bound::Skip) => writer.write(cycle.binding.clone(), plan).await,
        Ok(Bound::Stored) => writer.complete(cycle.binding.clone(), plan).await,
    };
    if report.result_landed() {
        points.post_bind(decided, state, &report).await;
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_a_write_that_failed_and_has_not_landed() {
        let panics = std::future::poll_fn(|_| -> std::task::Poll<Report> { panic!("in a write") });
        let report = failed_on_panic(panics).await;
        assert!(matches!(report, Report::Failed { .. }), "{report:?}");
        assert!(!report.result_landed());
        assert!(
            failed_on_panic(async {
                Report::NotLeading {
                    progress: Progress::Result,
                }
            })
            .await
            .result_landed()
        );
    }
}
