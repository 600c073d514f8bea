//! Commands and arguments of containers.

use berth_api::override_policy::{CommandArgsOverrider, OverriderOperator};
use serde_json::{Value, json};

use super::containers_of;

/// Which list of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum List {
    /// `command`
    Command,
    /// `args`
    Args,
}

/// Appends to a list of the named container, or takes values out of it. The list is made where it is absent.
pub(super) fn apply(resource: &mut Value, list: List, overrider: &CommandArgsOverrider) {
    let field = match list {
        List::Command => "command",
        List::Args => "args",
    };
    let containers = containers_of(resource)
        .and_then(|place| resource.pointer_mut(place))
        .and_then(Value::as_array_mut);
    for container in containers.into_iter().flatten() {
        if container.get("name") != Some(&json!(overrider.container_name)) {
            continue;
        }
        let present = container.get(field).and_then(Value::as_array);
        let mut values = present.cloned().unwrap_or_default();
        match overrider.operator {
            OverriderOperator::Add => {
                values.extend(overrider.value.iter().map(|value| json!(value)));
            }
            OverriderOperator::Remove => {
                values.retain(|value| !overrider.value.iter().any(|gone| value == gone));
            }
            OverriderOperator::Replace | OverriderOperator::Other(_) => {}
        }
        if let Some(container) = container.as_object_mut() {
            container.insert(field.to_owned(), Value::Array(values));
        }
    }
}
