//! The `Scheduled` condition of a binding, which reports the result of a scheduling cycle.

use berth_api::binding::BindingStatus;
use berth_api::well_known::CONDITION_SCHEDULED;
use berth_api::{condition, condition_message};
use berth_engine::ScheduledReason;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// Message of the condition after a success.
pub const SUCCESS_MESSAGE: &str = "Binding has been scheduled successfully.";

/// Desired `Scheduled` condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scheduled {
    /// Reason of the condition.
    pub reason: ScheduledReason,
    /// Message of the condition.
    pub message: String,
}

impl Scheduled {
    /// Creates the condition after a success.
    pub fn success() -> Self {
        Self {
            reason: ScheduledReason::Success,
            message: SUCCESS_MESSAGE.to_owned(),
        }
    }

    /// Creates the condition after a success in which only `placed` of `replicas` replicas fit.
    pub fn placed(placed: i64, replicas: i64) -> Self {
        let waiting = replicas - placed;
        let verb = if waiting == 1 { "waits" } else { "wait" };
        Self {
            reason: ScheduledReason::Success,
            message: format!(
                "{SUCCESS_MESSAGE} Placed {placed} of {replicas} replicas; {waiting} {verb} for room."
            ),
        }
    }

    /// Creates the condition after a failure.
    pub fn failed(reason: ScheduledReason, message: String) -> Self {
        let message = condition_message::truncate(message);
        Self { reason, message }
    }

    fn is_success(&self) -> bool {
        self.reason == ScheduledReason::Success
    }

    fn status(&self) -> &'static str {
        if self.is_success() { "True" } else { "False" }
    }

    /// Reports whether the stored condition has the same status, reason and message.
    pub fn is_stored(&self, status: &BindingStatus) -> bool {
        condition::scheduled(&status.conditions).is_some_and(|condition| {
            condition.status == self.status()
                && condition.reason == self.reason.as_str()
                && condition.message == self.message
        })
    }

    /// Returns the stored conditions after this condition is added or replaced. The transition time changes only if the
    /// status of the condition changes.
    pub fn merged_into(&self, status: &BindingStatus, now: jiff::Timestamp) -> Vec<Condition> {
        let mut conditions = status.conditions.clone();
        condition::set(
            &mut conditions,
            CONDITION_SCHEDULED,
            self.is_success().into(),
            self.reason.as_str(),
            &self.message,
            now,
        );
        conditions
    }
}

/// Reports whether a stored condition is one of [`Scheduled::placed`].
pub fn reports_waiting(condition: &Condition) -> bool {
    let remark = condition.message.strip_prefix(SUCCESS_MESSAGE);
    remark.is_some_and(|remark| !remark.is_empty())
}
