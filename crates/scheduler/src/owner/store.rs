//! From a decision to its write: what plugins have to say in between, and the task that stores it.

use std::sync::Arc;
use std::time::Instant;

use k8s_openapi::api::core::v1::ObjectReference;

use super::Owner;
use super::permit::{Held, Passage};
use super::references::template_reference;
use crate::binding::{Binding, BindingKey};
use crate::framework::Bound;
use crate::need::ScheduleType;
use crate::plan::Plan;
use crate::writer::{Report, Writer};

/// A cycle of a binding.
#[derive(Clone, Debug)]
pub(super) struct Cycle {
    pub(super) binding: Arc<Binding>,
    pub(super) schedule_type: ScheduleType,
    pub(super) began: Instant,
}

impl Cycle {
    pub(super) fn key(&self) -> &BindingKey {
        &self.binding.key
    }
}

/// A plan that was carried out.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) cycle: Cycle,
    pub(super) resource: ObjectReference,
    pub(super) plan: Plan,
    pub(super) report: Report,
    /// What plugins have books of.
    pub(super) held: Option<Held>,
}

impl Owner {
    /// Lets the plugins between a decision and its write speak, and stores it where they agree.
    pub(super) fn carry_out(&mut self, cycle: Cycle, plan: Plan, held: Option<Held>, now: Instant) {
        let Some(held) = held else {
            return self.store(cycle, plan, None);
        };
        match self.reserve(held, now) {
            Passage::Through(held) => self.store(cycle, plan, Some(held)),
            Passage::Waits(held, waits_for) => self.park(held, cycle, plan, waits_for),
            Passage::Stopped(error) => {
                self.settle(cycle.key(), false);
                self.stopped(cycle, &error, now);
            }
        }
    }

    /// Carries out a plan in a task of its own.
    pub(super) fn store(&mut self, cycle: Cycle, plan: Plan, held: Option<Held>) {
        if let Some(entry) = self.bindings.get_mut(cycle.key()) {
            entry.writing = true;
        }
        let writer = self.writer.clone();
        self.writes.spawn(async move {
            let resource = template_reference(&cycle.binding);
            let mut held = held;
            let report = match &mut held {
                None => writer.write(cycle.binding.clone(), &plan).await,
                Some(held) => bind(&writer, &cycle, &plan, held).await,
            };
            Finished {
                cycle,
                resource,
                plan,
                report,
                held,
            }
        });
    }
}

/// Stores a decision with the plugins that a profile has for that.
async fn bind(writer: &Writer, cycle: &Cycle, plan: &Plan, held: &mut Held) -> Report {
    let report = match held.points.bind(&held.decided, &mut held.state).await {
        Err(error) => return Report::Stopped(error),
        Ok(Bound::Skip) => writer.write(cycle.binding.clone(), plan).await,
        Ok(Bound::Stored) => writer.complete(cycle.binding.clone(), plan).await,
    };
    if report.result_landed() {
        held.points
            .post_bind(&held.decided, &mut held.state, &report)
            .await;
    }
    report
}
