//! Entry points of the fuzz targets.

use berth_api::override_policy::Overriders;
use serde_json::Value;

/// Applies overriders to a resource. Reports whether all of them could be applied.
pub fn apply_overriders(resource: &mut Value, overriders: &Overriders) -> bool {
    crate::overrides::apply_overriders(resource, overriders).is_ok()
}
