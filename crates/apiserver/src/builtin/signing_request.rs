//! CertificateSigningRequests: who asks is what the server says, not what the request says.

use serde_json::{Value, json};

use crate::identity::Identity;
use crate::registry::Resource;

pub(crate) fn is_one(resource: &Resource) -> bool {
    resource.is("certificates.k8s.io", "certificatesigningrequests")
}

/// Writes down who asks.
pub(crate) fn asked_by(identity: &Identity, value: &mut Value) {
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
