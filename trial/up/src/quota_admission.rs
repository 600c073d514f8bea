//! Enforcement of FederatedResourceQuotas as a hook of the embedded API server, in place of Karmada's webhook of
//! ResourceBindings.

use berth_api::federated_quota::{Charge, QUOTA_EXCEEDED, charge, delta, with_used};
use berth_api::{FederatedResourceQuota, ResourceBinding};
use berth_apiserver::{Accounts, Admission, AdmissionRequest, Denial, GroupResource, Operation};
use serde::Deserialize as _;
use serde_json::{Value, json};

/// The name of Karmada's webhook of ResourceBindings, which clients find in the message of a refusal.
const WEBHOOK: &str = "resourcebinding.karmada.io";

/// Refuses ResourceBindings that exceed a FederatedResourceQuota, and keeps `status.overallUsed` of the quotas up to
/// date.
#[derive(Clone, Copy, Debug, Default)]
pub struct QuotaAdmission;

impl Admission for QuotaAdmission {
    fn handles(&self, _: &GroupResource<'_>) -> bool {
        false
    }

    fn accounts(&self, request: &AdmissionRequest<'_>) -> Option<Accounts> {
        let is_binding = request.group == "work.karmada.io"
            && request.resource == "resourcebindings"
            && request.subresource.is_none()
            && request.operation != Operation::Delete;
        is_binding.then_some(Accounts {
            group: "policy.karmada.io",
            resource: "federatedresourcequotas",
        })
    }

    fn charge(
        &self,
        request: &AdmissionRequest<'_>,
        object: &Value,
        accounts: &[Value],
    ) -> Result<Vec<Value>, Denial> {
        let unreadable = |error: serde_json::Error| Denial::invalid("spec", error.to_string());
        // A stored binding that cannot be read must not prevent its correction.
        let old = request.old_object;
        let old = old.and_then(|old| ResourceBinding::deserialize(old).ok());
        let new = ResourceBinding::deserialize(object).map_err(unreadable)?;
        let change = delta(old.as_ref().map(|old| &old.spec), &new.spec);
        let mut changed = Vec::new();
        for account in accounts {
            let quota = FederatedResourceQuota::deserialize(account).map_err(unreadable)?;
            match charge(&change, &quota) {
                Charge::Unaffected => {}
                Charge::Used(used) => changed.push(with_used(account, &used)),
                Charge::Exceeded(refusal) => {
                    return Err(Denial::Webhook {
                        name: WEBHOOK,
                        status: json!({
                            "message": refusal.to_string(), "reason": QUOTA_EXCEEDED, "code": 403,
                        }),
                    });
                }
            }
        }
        Ok(changed)
    }
}
