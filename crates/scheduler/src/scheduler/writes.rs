//! The Bind phase of a scheduling cycle: the task that writes a decision to the API server.

use std::panic::AssertUnwindSafe;
use std::time::Instant;

use futures::FutureExt as _;

use k8s_openapi::api::core::v1::ObjectReference;

use super::Scheduler;
use super::in_flight::{Cycle, ReservedDecision};
use super::object_references::template_reference;
use super::permit::PermitOutcome;
use crate::framework::Bound;
use crate::rules::plan::Plan;
use crate::writer::{Report, Writer};

/// A finished write of a plan.
#[derive(Debug)]
pub(super) struct FinishedWrite {
    pub(super) cycle: Cycle,
    /// Reference to the binding's template.
    pub(super) resource: ObjectReference,
    pub(super) plan: Plan,
    pub(super) report: Report,
    /// The decision, if plugins take part in its write.
    pub(super) decision: Option<ReservedDecision>,
}

impl Scheduler {
    /// Runs Reserve and Permit if there is a decision. Writes the plan when all plugins allow the decision.
    pub(super) fn reserve_and_write(
        &mut self,
        cycle: Cycle,
        plan: Plan,
        decision: Option<ReservedDecision>,
        now: Instant,
    ) {
        let Some(decision) = decision else {
            return self.write_plan(cycle, plan, None);
        };
        match self.reserve_and_permit(decision, now) {
            PermitOutcome::Allowed(decision) => self.write_plan(cycle, plan, Some(decision)),
            PermitOutcome::Waiting(decision, waits_for) => {
                self.park(decision, cycle, plan, waits_for);
            }
            PermitOutcome::Stopped(error) => {
                self.complete_decision(cycle.key(), false);
                self.report_stopped(cycle, &error, now);
            }
        }
    }

    /// Writes a plan in a separate task.
    pub(super) fn write_plan(
        &mut self,
        cycle: Cycle,
        plan: Plan,
        mut decision: Option<ReservedDecision>,
    ) {
        self.bindings.begin_write(cycle.key());
        let writer = self.writer.clone();
        self.writes.spawn(async move {
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
}

/// Runs a write. A panic counts as a failed write, so that the binding is scheduled again.
pub(super) async fn failed_on_panic(write: impl Future<Output = Report>) -> Report {
    let written = AssertUnwindSafe(write).catch_unwind().await;
    written.unwrap_or_else(|_| Report::Failed {
        error: "the write panicked".to_owned(),
        // Logs a warning, as for a response that reports a failure.
        answered: true,
        after: None,
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
            failed_on_panic(async { Report::NotLeading { landed: true } })
                .await
                .result_landed()
        );
    }
}
