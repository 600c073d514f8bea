//! FederatedResourceQuotas and ClusterQueues: the refusal of decisions that exceed a limit, and the retries when there is
//! room.

use std::sync::Arc;
use std::time::Instant;

use berth_api::federated_quota::QuotaExceeded;
use berth_api::{Binding, BindingKey, FederatedResourceQuota};
use berth_engine::ScheduledReason;

use super::Scheduler;
use super::leadership::Leading;
use crate::metrics::Incoming;
use crate::queue::Verdict;
use crate::quota_book::{LimitExceeded, ListedQuotas};
use crate::rules::plan::Plan;
use crate::watch::WatchEvent;
use crate::watch::list_progress::Source;
use crate::writer::Report;

impl Scheduler {
    /// Checks the clusters of a plan. If a quota refuses them, records that the binding waits for room. A plan without
    /// new clusters needs no room.
    pub(super) fn check_quotas(
        &mut self,
        binding: &Arc<Binding>,
        plan: &Plan,
    ) -> Result<(), Box<LimitExceeded>> {
        let Some(quotas) = &mut self.cache.quotas else {
            return Ok(());
        };
        quotas.concluded(&binding.key);
        let Some(targets) = &plan.targets else {
            return Ok(());
        };
        let checked = quotas.check(binding, targets);
        if checked.is_err() {
            quotas.refused(binding, targets);
        }
        checked
    }

    /// Keeps counting a decision whose write may have succeeded or may still succeed.
    pub(super) fn keep_unknown_usage(&mut self, key: &BindingKey, report: &Report) {
        if report.is_conclusive() {
            return;
        }
        self.cache.book.result_unknown(key);
        if let Some(quotas) = &mut self.cache.quotas {
            let known = self.cache.bindings.get(key);
            quotas.result_unknown(key, known.map(|known| &**known));
        }
    }

    /// Schedules the bindings that waited for room in a quota and that fit now.
    pub(super) fn requeue_within_quotas(&mut self, leading: &mut Leading, now: Instant) {
        let Some(quotas) = &mut self.cache.quotas else {
            return;
        };
        for key in quotas.take_ready() {
            let binding = self.cache.bindings.get(&key);
            let in_charge = binding.filter(|binding| self.config.frameworks.in_charge(binding));
            if let Some(binding) = in_charge {
                // In the lane of new bindings, so that the priority alone decides which binding gets the room.
                let rank = self.config.frameworks.rank(binding);
                leading.queue.reconcile(&key, rank, now);
                self.records.metrics.incoming(Incoming::QuotaChanged);
            } else {
                quotas.cycle_ended(&key);
            }
        }
    }

    pub(super) fn handle_quota_event(&mut self, event: WatchEvent<FederatedResourceQuota>) {
        let Some(quotas) = &mut self.cache.quotas else {
            return;
        };
        let bindings = self.cache.bindings.iter().map(|(_, binding)| &**binding);
        if quotas.handle_event(event, bindings) == ListedQuotas::Complete {
            self.cache.lists.complete(Source::Quotas);
            self.report_readiness();
        }
    }
}

/// Returns the plan that reports a refusal. The binding keeps its clusters, and waits until the usage falls or a quota
/// changes.
pub(super) fn refusal(binding: &Binding, exceeded: &LimitExceeded) -> Plan {
    let reason = ScheduledReason::QuotaExceeded;
    let plan = Plan::failure(binding, reason, exceeded.to_string(), Verdict::Wait);
    match exceeded {
        LimitExceeded::Quota(quota) => plan.with_event_message(&denial(quota)),
        LimitExceeded::Queue(_) => plan,
    }
}

/// Returns the message of Karmada's Event about a refused binding. In Karmada, the admission webhook refuses the write of
/// the scheduler, and the Event contains the error of the API server.
fn denial(exceeded: &QuotaExceeded) -> String {
    format!("admission webhook \"resourcebinding.karmada.io\" denied the request: {exceeded}")
}

#[cfg(test)]
mod tests {
    use berth_api::ResourceBinding;
    use berth_api::quantity::Quantity;
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_event_about_a_quota_has_the_prefix_of_a_webhook() {
        let object = json!({ "metadata": { "namespace": "shop", "name": "web" }, "spec": { "resource": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" } } });
        let binding = serde_json::from_value::<ResourceBinding>(object)
            .unwrap()
            .into();
        let exceeded = QuotaExceeded {
            namespace: "shop".to_owned(),
            quota: "team".to_owned(),
            resource: "cpu".to_owned(),
            requested: Quantity::from_integer(2),
            limit: Quantity::from_integer(1),
        };
        let plan = refusal(&binding, &exceeded.clone().into());
        let condition = plan.status.unwrap().scheduled.unwrap();
        assert_eq!(condition.message, exceeded.to_string());
        let event = &plan.notes[0].message;
        let prefix = "admission webhook \"resourcebinding.karmada.io\" denied the request: ";
        assert_eq!(event.strip_prefix(prefix), Some(&*exceeded.to_string()));
    }
}
