//! Flags of the controllers of FederatedResourceQuotas.

use std::time::Duration;

use berth_api::feature_gates::FeatureGates;
use berth_component_base::go_duration::go_duration;
use berth_controllers::federated_quota::{QuotaOptions, StatusController, SyncController};
use clap::Args;

use super::selection::{Controller, Selection};

/// Flags of the controllers of FederatedResourceQuotas, with Karmada's names and defaults.
#[derive(Args, Clone, Debug)]
pub struct QuotaArgs {
    /// Interval between recalculations of the usage of all FederatedResourceQuotas
    #[arg(long, value_name = "DURATION", default_value = "5m0s", value_parser = positive_duration)]
    pub federated_resource_quota_sync_period: Duration,
}

impl Default for QuotaArgs {
    fn default() -> Self {
        Self {
            federated_resource_quota_sync_period: Duration::from_mins(5),
        }
    }
}

fn positive_duration(text: &str) -> Result<Duration, String> {
    let duration = go_duration(text)?;
    if duration.is_zero() {
        return Err("must be greater than 0".to_owned());
    }
    Ok(duration)
}

impl QuotaArgs {
    /// Returns the options of the selected controllers.
    pub(super) fn options(&self, selection: &Selection, gates: FeatureGates) -> QuotaOptions {
        let status = if gates.quota_enforcement {
            StatusController::Bindings
        } else {
            StatusController::SumOfMembers
        };
        let enforces =
            gates.quota_enforcement && selection.has(Controller::FederatedResourceQuotaEnforcement);
        QuotaOptions {
            sync: selection
                .has(Controller::FederatedResourceQuotaSync)
                .then_some(SyncController),
            status: selection
                .has(Controller::FederatedResourceQuotaStatus)
                .then_some(status),
            enforcement: enforces.then_some(self.federated_resource_quota_sync_period),
            routine_events: gates.routine_events,
        }
    }
}

#[cfg(test)]
mod tests {
    use berth_api::feature_gates;

    use super::*;

    #[test]
    fn the_gate_selects_the_source_of_the_usage() {
        let options = |controllers: &str, gates: &str| {
            let selection = controllers.parse().unwrap();
            let gates = feature_gates::parse(gates).unwrap();
            let options = QuotaArgs::default().options(&selection, gates);
            (
                options.sync.is_some(),
                options.status,
                options.enforcement.is_some(),
            )
        };
        let gate = "FederatedQuotaEnforcement=true";
        let (sum, bindings) = (StatusController::SumOfMembers, StatusController::Bindings);
        assert_eq!(options("*", ""), (true, Some(sum), false));
        assert_eq!(options("*", gate), (true, Some(bindings), true));
        let without = "*,-federatedResourceQuotaSync,-federatedResourceQuotaEnforcement";
        assert_eq!(options(without, gate), (false, Some(bindings), false));
        assert_eq!(
            options("-federatedResourceQuotaStatus,*", gate),
            (true, None, true)
        );
    }

    #[test]
    fn the_interval_is_positive() {
        assert_eq!(positive_duration("1m"), Ok(Duration::from_mins(1)));
        assert!(positive_duration("0s").is_err());
        assert!(positive_duration("-1s").is_err());
    }
}
