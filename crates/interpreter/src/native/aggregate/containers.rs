//! Aggregation of the container statuses of a Pod. Pods of one name in several members have the same containers, so
//! that the template has one status for each of its containers: the worst of all members. Containers that a member
//! adds, such as sidecars of a service mesh, are left out, because the API server would refuse the status after a
//! restart of such a container.

use berth_api::binding::AggregatedStatusItem;
use serde_json::{Value, json};

use super::reports;

/// Returns the statuses in a list, such as `containerStatuses`, of all members. `containers` is the field with the
/// specs of these containers.
pub(super) fn statuses(
    template: &Value,
    items: &[AggregatedStatusItem],
    list: &str,
    containers: &str,
) -> Vec<Value> {
    let spec = template.get("spec").unwrap_or(&Value::Null);
    let old = template.pointer(&format!("/status/{list}"));
    let old = old.and_then(Value::as_array);
    let specs = spec[containers].as_array().into_iter().flatten();
    specs
        .filter_map(|container| {
            let name = &container["name"];
            let is_own = |status: &&Value| status["name"] == *name;
            let reported = reports(items).filter_map(|(_, report)| report.get(list)?.as_array());
            let own: Vec<&Value> = reported.flatten().filter(is_own).collect();
            let worst = own
                .iter()
                .map(|status| &status["state"])
                .max_by_key(|s| badness(s))?;
            let mut ready = own.iter().all(|status| status["ready"] == true);
            let mut state = if worst.is_object() { worst } else { &json!({}) };
            let ended = old.into_iter().flatten().find(is_own);
            let ended = ended.map(|old| &old["state"]);
            if let Some(ended) = ended.filter(|ended| !ended["terminated"].is_null())
                && state["terminated"].is_null()
                && !restarts(container, spec, ended)
            {
                // The API server refuses another state.
                (ready, state) = (false, ended);
            }
            Some(
                json!({ "name": name, "image": "", "imageID": "", "restartCount": 0,
                "lastState": {}, "ready": ready, "state": state }),
            )
        })
        .collect()
}

/// Returns a number that is greater for a worse state.
fn badness(state: &Value) -> u8 {
    match state["terminated"]["exitCode"].as_i64() {
        Some(code) if code != 0 => 3,
        Some(_) => 0,
        None if state["running"].is_null() => 2,
        None => 1,
    }
}

/// Reports whether a terminated container may run again.
fn restarts(container: &Value, spec: &Value, ended: &Value) -> bool {
    let own = match &container["restartPolicyRules"] {
        Value::Null => container["restartPolicy"].as_str(),
        _ => Some("Always"),
    };
    match own.or_else(|| spec["restartPolicy"].as_str()) {
        Some("Never") => false,
        Some("OnFailure") => ended["terminated"]["exitCode"] != 0,
        _ => true,
    }
}
