//! The priority of new pods: the value of the PriorityClass of the pod, or of the default PriorityClass.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::error::ApiError;
use crate::store::{Key, Stored};
use crate::table_names;
use crate::verbs::Call;

/// Sets the priority and the preemption policy of a new pod. Refuses a new pod that specifies other values than the
/// PriorityClass. An update that omits a value keeps the stored value.
pub(super) fn assign(
    call: &Call,
    key: &Key,
    value: &mut Value,
    old: Option<&Value>,
) -> Result<(), ApiError> {
    if !call.resource.is("", "pods") {
        return Ok(());
    }
    if let Some(old) = old {
        for field in ["priority", "preemptionPolicy"] {
            let before = &old["spec"][field];
            if value["spec"][field].is_null() && !before.is_null() {
                value["spec"][field] = before.clone();
            }
        }
        return Ok(());
    }
    let refused = |message: String| Err(ApiError::forbidden("", "pods", &key.name, &message));
    let spec = &mut value["spec"];
    let named = spec["priorityClassName"].as_str().unwrap_or_default();
    let store = &call.shared.store;
    let class: Option<Arc<Stored>> = if named.is_empty() {
        default_class(call)
    } else {
        let Some(class) = store.get(table_names::PRIORITY_CLASSES, &Key::new("", named)) else {
            return refused(format!("no PriorityClass with name {named} was found"));
        };
        Some(class)
    };
    let (mut number, mut policy) = (0, "PreemptLowerPriority".to_owned());
    if let Some(class) = class {
        let object = class.value();
        number = object["value"].as_i64().unwrap_or(0);
        if let Some(own) = object["preemptionPolicy"].as_str() {
            own.clone_into(&mut policy);
        }
        spec["priorityClassName"] = json!(&*class.key.name);
    }
    if let Some(given) = spec["priority"].as_i64().filter(|given| *given != number) {
        return refused(format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller \
             computed {number} from the given PriorityClass name"
        ));
    }
    if let Some(given) = spec["preemptionPolicy"]
        .as_str()
        .filter(|given| *given != policy)
    {
        return refused(format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission \
             controller computed {policy} from the given PriorityClass name"
        ));
    }
    spec["priority"] = json!(number);
    spec["preemptionPolicy"] = json!(policy);
    Ok(())
}

/// Returns the default PriorityClass. If several classes are marked as default, returns the class with the lowest
/// value.
fn default_class(call: &Call) -> Option<Arc<Stored>> {
    let all = call
        .shared
        .store
        .list(table_names::PRIORITY_CLASSES, None)
        .items
        .into_iter();
    all.filter_map(|class| {
        let object = class.value();
        let number = object["value"].as_i64().unwrap_or(0);
        (object["globalDefault"] == true).then_some((number, class))
    })
    .min_by_key(|(number, _)| *number)
    .map(|(_, class)| class)
}
