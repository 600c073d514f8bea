//! The note of a simulation without a scheduler configuration.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use berth_api::well_known::{DEFAULT_SCHEDULER, NAMESPACE_SYSTEM};
use serde_json::Value;

use super::live_control_plane::LivePlane;
use crate::control_plane_state::Bindings;
use crate::well_known_types;

/// Key of a scheduler configuration in the data of a ConfigMap.
const KEY: &str = "config.yaml";

/// Returns a note that the simulation uses no scheduler configuration. `config_maps` are the ConfigMaps that contain a
/// configuration. The note lists them, and the schedulers that the bindings name, except the default scheduler.
pub(crate) fn note(bindings: &Bindings, config_maps: &[String]) -> String {
    let mut note = "not simulated: the scheduler's configuration (profiles, Expressions, other plugins, extenders); \
                    --config or --scheduler-url adds it"
        .to_owned();
    if !config_maps.is_empty() {
        let names = config_maps.join(", ");
        let _ = write!(note, "; there is one in ConfigMap {names}");
    }
    let schedulers: BTreeSet<&str> = bindings
        .values()
        .map(|binding| binding.spec.scheduler())
        .filter(|name| *name != DEFAULT_SCHEDULER)
        .collect();
    if !schedulers.is_empty() {
        let names: Vec<&str> = schedulers.into_iter().collect();
        let names = names.join(", ");
        let _ = write!(note, "; bindings name the scheduler or profile {names}");
    }
    note
}

/// Returns the names of the ConfigMaps with a scheduler configuration in the system namespace of a control plane. The
/// list is empty if the ConfigMaps cannot be read.
pub(crate) async fn config_maps(live: &LivePlane) -> Vec<String> {
    let objects = live
        .list(&well_known_types::config_maps(), Some(NAMESPACE_SYSTEM))
        .await;
    let has_configuration = |object: &Value| {
        let text = object["data"][KEY].as_str().unwrap_or_default();
        serde_saphyr::from_str::<Value>(text).is_ok_and(|document| {
            let kind = document["kind"].as_str().unwrap_or_default();
            kind.ends_with("SchedulerConfiguration")
        })
    };
    let objects = objects.unwrap_or_default();
    let named = objects.iter().filter(|object| has_configuration(object));
    named
        .filter_map(|object| object["metadata"]["name"].as_str())
        .map(|name| format!("{NAMESPACE_SYSTEM}/{name}"))
        .collect()
}
