//! The fields of CertificateSigningRequests that the server sets: the requester, and the times of conditions.

use serde_json::{Value, json};

use super::set;
use crate::clock;
use crate::identity::Identity;
use crate::resource::{Resource, Subresource};

pub(crate) fn is_signing_request(resource: &Resource) -> bool {
    resource.is("certificates.k8s.io", "certificatesigningrequests")
}

/// Writes the identity of the requester into the spec.
pub(crate) fn record_requester(identity: &Identity, value: &mut Value) {
    let Some(spec) = value["spec"].as_object_mut() else {
        return;
    };
    let extra = &identity.extra;
    for (field, known, is_empty) in [
        ("username", json!(identity.user), identity.user.is_empty()),
        ("uid", json!(identity.uid), identity.uid.is_empty()),
        ("groups", json!(identity.groups), identity.groups.is_empty()),
        ("extra", json!(extra), extra.is_empty()),
    ] {
        if is_empty {
            spec.remove(field);
        } else {
            spec.insert(field.to_owned(), known);
        }
    }
}

/// Sets the times of conditions. The conditions `Approved` and `Denied` change only through the approval subresource;
/// an update of the status keeps them.
pub(super) fn set_condition_times(
    value: &mut Value,
    old: &Value,
    subresource: Option<Subresource>,
) {
    let before = old["status"]["conditions"].as_array();
    let conditions = value.pointer_mut("/status/conditions");
    let conditions = conditions.and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten() {
        let same = |other: &&Value| other["type"] == condition["type"];
        let known = before.into_iter().flatten().find(same);
        let decided = matches!(condition["type"].as_str(), Some("Approved" | "Denied"));
        if let Some(known) = known.filter(|_| decided && subresource == Some(Subresource::Status)) {
            *condition = known.clone();
            continue;
        }
        let now = json!(clock::now());
        let since = known
            .filter(|known| known["status"] == condition["status"])
            .map(|known| known["lastTransitionTime"].clone())
            .filter(|since| !since.is_null());
        set(condition, "lastUpdateTime", now.clone());
        set(condition, "lastTransitionTime", since.unwrap_or(now));
    }
}
