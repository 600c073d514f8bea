//! The requirements of a pod template on nodes, decoded from a request.

use berth_api::node_requirements::NodeRequirements;
use berth_estimator_protocol::kubernetes_types::DecodeError;
use berth_estimator_protocol::wire::pb;

/// Decodes the claim of a request.
///
/// # Errors
/// When the bytes of the affinity or of a toleration are malformed.
pub(crate) fn decode(claim: Option<&pb::NodeClaim>) -> Result<NodeRequirements, DecodeError> {
    let Some(claim) = claim else {
        return Ok(NodeRequirements::default());
    };
    Ok(NodeRequirements::of_parts(
        claim.node_selector.clone(),
        claim.decode_affinity()?.as_ref(),
        claim.decode_tolerations()?,
    ))
}
