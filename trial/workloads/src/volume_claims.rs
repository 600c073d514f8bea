//! PersistentVolumeClaims: each claim is bound to a volume of the requested size, for any storage class. The volumes do
//! not exist as objects.

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, PersistentVolumeClaimStatus};

use crate::action::Action;
use crate::cache::{Cache, key};
use crate::plan::Plan;
use crate::scope::Scope;

pub(crate) fn plan(cache: &Cache, scope: &Scope, plan: &mut Plan) {
    for claim in cache.claims.iter() {
        if claim.metadata.deletion_timestamp.is_none() && scope.covers(&claim.metadata) {
            plan.of(&claim.metadata).extend(plan_claim(claim));
        }
    }
}

fn plan_claim(claim: &PersistentVolumeClaim) -> Option<Action> {
    let spec = claim.spec.clone().unwrap_or_default();
    if spec.volume_name.is_none_or(|name| name.is_empty()) {
        let volume = format!("pvc-{}", claim.metadata.uid.as_deref().unwrap_or_default());
        return Some(Action::BindClaim(key(claim), volume));
    }
    let known = claim.status.clone().unwrap_or_default();
    if known.phase.as_deref() == Some("Bound") {
        return None;
    }
    let mut claim = claim.clone();
    claim.status = Some(PersistentVolumeClaimStatus {
        phase: Some("Bound".to_owned()),
        access_modes: spec.access_modes,
        capacity: spec.resources.and_then(|resources| resources.requests),
        ..known
    });
    Some(Action::ClaimStatus(Box::new(claim)))
}
