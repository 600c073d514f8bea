//! Enforcement of FederatedResourceQuotas: charges the change of a ResourceBinding to the quotas of its namespace.
//!
//! A binding is charged after all other rules have allowed it. `status.overallUsed` of a quota is written with the
//! resourceVersion that the decision is based on, so that concurrent charges, also by other replicas, never exceed a
//! limit together. The arithmetic is in [`berth_api::federated_quota`].
//!
//! If the API server does not store the binding afterwards, the charge remains until the controllers recompute the
//! usage.

use std::fmt;

use berth_api::federated_quota::{Amounts, Charge, charge, delta, patch_used};
use berth_api::{FederatedResourceQuota, ResourceBinding};
use berth_apimachinery::api_error::{api_error_message, has_code};
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use serde::Deserialize as _;

use crate::review::{AdmissionRequest, Operation};
use crate::verdict::{DenialReason, Verdict};

/// Maximum number of attempts to charge one quota while other charges change it.
const MAX_ATTEMPTS: usize = 16;

/// Charges bindings to quotas on a control plane.
#[derive(Clone)]
pub struct QuotaCharges {
    client: Client,
}

impl fmt::Debug for QuotaCharges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuotaCharges").finish_non_exhaustive()
    }
}

/// The reason for which a charge is refused or fails.
#[derive(Debug, thiserror::Error)]
enum ChargeError {
    /// A quota refuses the change.
    #[error("{0}")]
    Exceeded(String),
    /// The API server refuses or fails to serve a request.
    #[error("{0}")]
    Internal(String),
}

impl From<ChargeError> for Verdict {
    fn from(error: ChargeError) -> Self {
        match error {
            ChargeError::Exceeded(message) => Self::denied(DenialReason::QuotaExceeded, message),
            ChargeError::Internal(message) => Self::denied(DenialReason::InternalError, message),
        }
    }
}

/// The parameters of the writes. The writes of a dry run are dry runs, too.
fn parameters(request: &AdmissionRequest) -> PatchParams {
    PatchParams {
        dry_run: request.dry_run.unwrap_or_default(),
        field_manager: Some("berth-webhook".to_owned()),
        ..PatchParams::default()
    }
}

impl QuotaCharges {
    /// Returns charges to the quotas on the control plane of a client.
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// Charges a write of a ResourceBinding that all other rules allow, and returns the final verdict.
    pub(crate) async fn review(&self, request: &AdmissionRequest) -> Verdict {
        let is_write = matches!(request.operation, Operation::Create | Operation::Update);
        if !is_write || !request.sub_resource.is_empty() {
            return Verdict::allowed();
        }
        let change = match change(request) {
            Ok(change) => change,
            Err(error) => return Verdict::denied(DenialReason::BadRequest, error.to_string()),
        };
        if change.is_empty() {
            return Verdict::allowed();
        }
        match self.charge_all(request, &change).await {
            Ok(()) => Verdict::allowed(),
            Err(error) => error.into(),
        }
    }

    async fn charge_all(
        &self,
        request: &AdmissionRequest,
        change: &Amounts,
    ) -> Result<(), ChargeError> {
        let quotas: Api<FederatedResourceQuota> =
            Api::namespaced(self.client.clone(), &request.namespace);
        let listed = match quotas.list(&ListParams::default()).await {
            Ok(listed) => listed.items,
            // The control plane does not serve the kind.
            Err(error) if has_code(&error, 404) => return Ok(()),
            Err(error) => {
                let message = api_error_message(&error);
                let message = format!("failed to list FederatedResourceQuotas: {message}");
                return Err(ChargeError::Internal(message));
            }
        };
        // Most refusals are found before a quota is written.
        for quota in &listed {
            if let Charge::Exceeded(refusal) = charge(change, quota) {
                return Err(ChargeError::Exceeded(refusal.to_string()));
            }
        }
        let parameters = parameters(request);
        let mut charged = Vec::new();
        for quota in listed {
            let name = quota.name_any();
            match charge_one(&quotas, &parameters, quota, change).await {
                Ok(()) => charged.push(name),
                Err(error) => {
                    for name in charged {
                        refund(&quotas, &parameters, &name, change).await;
                    }
                    return Err(error);
                }
            }
        }
        Ok(())
    }
}

/// Returns the change of the usage by a write. A stored binding that cannot be read must not prevent its correction.
fn change(request: &AdmissionRequest) -> Result<Amounts, serde_json::Error> {
    let old = request.old_object.as_ref();
    let old = old.and_then(|old| ResourceBinding::deserialize(old).ok());
    let object = request.object.as_ref().unwrap_or(&serde_json::Value::Null);
    let new = ResourceBinding::deserialize(object)?;
    Ok(delta(old.as_ref().map(|old| &old.spec), &new.spec))
}

/// Charges a change to one quota. After a conflict, the decision is repeated for the new usage.
async fn charge_one(
    quotas: &Api<FederatedResourceQuota>,
    parameters: &PatchParams,
    mut quota: FederatedResourceQuota,
    change: &Amounts,
) -> Result<(), ChargeError> {
    let name = quota.name_any();
    let mut last = None;
    for _ in 0..MAX_ATTEMPTS {
        let used = match charge(change, &quota) {
            Charge::Unaffected => return Ok(()),
            Charge::Used(used) => used,
            Charge::Exceeded(refusal) => return Err(ChargeError::Exceeded(refusal.to_string())),
        };
        let patch = Patch::Merge(patch_used(&quota, &used));
        match quotas.patch_status(&name, parameters, &patch).await {
            Ok(_) => return Ok(()),
            Err(error) if has_code(&error, 404) => return Ok(()),
            Err(error) if has_code(&error, 409) => last = Some(error),
            Err(error) => return Err(failed(&quota, &error)),
        }
        quota = match quotas.get_opt(&name).await {
            Ok(Some(current)) => current,
            Ok(None) => return Ok(()),
            Err(error) => return Err(failed(&quota, &error)),
        };
    }
    let cause = last.map(|error| api_error_message(&error));
    Err(ChargeError::Internal(format!(
        "failed to apply FederatedResourceQuota updates after multiple retries: {}",
        cause.unwrap_or_default()
    )))
}

fn failed(quota: &FederatedResourceQuota, error: &kube::Error) -> ChargeError {
    ChargeError::Internal(format!(
        "cannot update the usage of FederatedResourceQuota {}/{}: {}",
        quota.namespace().unwrap_or_default(),
        quota.name_any(),
        api_error_message(error)
    ))
}

/// Takes a charge back, because another quota refuses the change. If that fails, the controllers correct the usage.
async fn refund(
    quotas: &Api<FederatedResourceQuota>,
    parameters: &PatchParams,
    name: &str,
    change: &Amounts,
) {
    let refunded = match quotas.get_opt(name).await {
        Ok(Some(quota)) => charge_one(quotas, parameters, quota, &change.times(-1)).await,
        Ok(None) => Ok(()),
        Err(error) => Err(ChargeError::Internal(api_error_message(&error))),
    };
    if let Err(error) = refunded {
        tracing::warn!(quota = name, %error, "cannot take back the charge of a refused binding");
    }
}

#[cfg(test)]
mod tests;
