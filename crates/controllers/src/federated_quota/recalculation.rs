//! The recalculation of a quota's usage from the stored bindings, as a pure function.
//!
//! Admission charges a binding to the quota *before* the API server stores the binding. Between the two writes, a list
//! of the bindings does not show the charge: a controller that simply wrote the sum of the list would undo the charge,
//! and the quota could be exceeded. The following rules make that impossible.
//!
//! 1. The quota is read first, then the bindings are listed from a consistent read, and the result is written with the
//!    resourceVersion that was read. A charge after the read of the quota therefore causes a conflict, and a binding that
//!    was stored before the read is in the list.
//! 2. What remains are charges before the read whose bindings are stored after the list. API servers end a request after
//!    a time limit, and [`IN_FLIGHT`] is longer. If the usage has not changed for this time, each charge is either in the
//!    list or was never stored, and the sum of the list is exact ([`Charges::Stored`]).
//! 3. Otherwise ([`Charges::InFlight`]), the usage is lowered only by the usage of bindings whose deletion was observed
//!    and not subtracted before. All other charges stay.
//! 4. A resource that the quota did not limit at its last recalculation has no charges from before. Charges since then
//!    are added to the sum of the list. The result may be too high until rule 2 applies, but never too low.
//!
//! Raising the usage is always safe. Each change of the usage is followed by an exact recalculation after [`IN_FLIGHT`]:
//! it removes the charge of a binding that was never stored, and restores the usage of a binding that was to shrink and
//! was not stored.

use std::time::Duration;

use berth_api::FederatedResourceQuota;
use berth_api::federated_quota::{Amounts, used};

/// Time after a charge at which the request that caused the charge has ended. API servers end requests after one minute
/// (`--request-timeout`).
pub(super) const IN_FLIGHT: Duration = Duration::from_secs(70);

/// The requests that caused the charges in the usage of a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Charges {
    /// All requests have ended, and their bindings are stored or refused.
    Stored,
    /// Some requests may not have ended.
    InFlight,
}

/// Returns the new usage of a quota. `bound` is the usage of all bindings in a list that is newer than the quota, and
/// `freed` is the usage of deleted bindings that the usage of the quota still contains.
pub(super) fn recalculated(
    quota: &FederatedResourceQuota,
    bound: &Amounts,
    freed: &Amounts,
    charges: Charges,
) -> Amounts {
    let bound = bound.only(&quota.spec.overall);
    if charges == Charges::Stored {
        return bound;
    }
    let status = quota.status.as_ref();
    let limited_before = status.map(|status| &status.overall);
    let limited_before = limited_before.cloned().unwrap_or_default();
    let used = used(quota).only(&quota.spec.overall);
    let known = used.only(&limited_before);
    let charged_since = used - known.clone();
    let remaining = (known - freed.only(&limited_before)).positive();
    let bound_before = bound.only(&limited_before);
    let newly_limited = bound - bound_before.clone();
    bound_before.max(&remaining) + newly_limited + charged_since
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn quota(limited_before: &Value, used: &Value) -> FederatedResourceQuota {
        serde_json::from_value(json!({
            "metadata": { "namespace": "shop", "name": "team" },
            "spec": { "overall": { "cpu": "100", "memory": "100Gi" } },
            "status": { "overall": limited_before, "overallUsed": used },
        }))
        .unwrap()
    }

    fn amounts(list: Value) -> Amounts {
        Amounts::of(&serde_json::from_value(list).unwrap())
    }

    #[test]
    fn charges_in_flight_are_kept_and_deleted_bindings_are_subtracted() {
        let limited = json!({ "cpu": "100", "memory": "100Gi" });
        let cpu = |number: &str| json!({ "cpu": number });
        for (about, charges, before, used, bound, freed, expected) in [
            (
                "nothing changed",
                Charges::InFlight,
                &limited,
                cpu("5"),
                cpu("5"),
                json!({}),
                cpu("5"),
            ),
            (
                "charge in flight",
                Charges::InFlight,
                &limited,
                cpu("5"),
                cpu("3"),
                json!({}),
                cpu("5"),
            ),
            (
                "leaked charge",
                Charges::Stored,
                &limited,
                cpu("5"),
                cpu("3"),
                json!({}),
                cpu("3"),
            ),
            (
                "deleted binding",
                Charges::InFlight,
                &limited,
                cpu("5"),
                cpu("3"),
                cpu("2"),
                cpu("3"),
            ),
            (
                "deleted binding beside a charge in flight",
                Charges::InFlight,
                &limited,
                cpu("9"),
                cpu("3"),
                cpu("2"),
                cpu("7"),
            ),
            (
                "deletion that was subtracted before",
                Charges::InFlight,
                &limited,
                cpu("3"),
                cpu("3"),
                cpu("2"),
                cpu("3"),
            ),
            (
                "usage before the quota",
                Charges::InFlight,
                &json!({}),
                json!({}),
                cpu("4"),
                json!({}),
                cpu("4"),
            ),
            (
                "charge in flight to a new quota",
                Charges::InFlight,
                &json!({}),
                cpu("2"),
                cpu("4"),
                json!({}),
                cpu("6"),
            ),
            (
                "new limit of memory",
                Charges::InFlight,
                &json!({ "cpu": "100" }),
                cpu("5"),
                json!({ "cpu": "3", "memory": "4Gi" }),
                json!({}),
                json!({ "cpu": "5", "memory": "4Gi" }),
            ),
            (
                "resource without a limit",
                Charges::Stored,
                &limited,
                json!({ "cpu": "5", "pods": "2" }),
                json!({ "cpu": "3", "pods": "7" }),
                json!({}),
                cpu("3"),
            ),
        ] {
            let quota = quota(before, &used);
            let found = recalculated(&quota, &amounts(bound), &amounts(freed), charges);
            assert_eq!(found, amounts(expected), "{about}");
        }
    }

    proptest! {
        /// A history of bindings: each one is charged, then stored, then deleted, and a deletion is observed later. A
        /// recalculation at any time keeps the charges of all bindings that are stored or may still be stored.
        #[test]
        fn a_recalculation_never_undoes_a_charge(
            bindings in prop::collection::vec((1..100_i64, 0..4_u8), 0..12),
        ) {
            let mut sums = [0, 0, 0, 0];
            for (cpu, state) in bindings {
                sums[usize::from(state)] += cpu;
            }
            let [in_flight, stored, observed, unobserved] = sums;
            let cpu = |number: i64| json!({ "cpu": number.to_string() });
            let limited = json!({ "cpu": "100" });
            let quota = quota(&limited, &cpu(in_flight + stored + observed + unobserved));
            let found = recalculated(
                &quota,
                &amounts(cpu(stored)),
                &amounts(cpu(observed)),
                Charges::InFlight,
            );
            prop_assert_eq!(found, amounts(cpu(in_flight + stored + unobserved)));
        }
    }
}
