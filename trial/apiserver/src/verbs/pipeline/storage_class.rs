//! The default StorageClass of new persistent volume claims.

use std::cmp::Reverse;

use serde_json::{Value, json};

use crate::table_names;
use crate::verbs::Call;

/// The annotations that mark a default StorageClass.
const DEFAULT: [&str; 2] = [
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
];
/// The annotation by which old claims name their class.
const CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// Sets the storage class of a new claim that names no class. The newest default class takes precedence.
pub(super) fn set_default(call: &Call, claim: &mut Value) {
    if !call.resource.is("", "persistentvolumeclaims")
        || !claim["spec"]["storageClassName"].is_null()
        || !claim["metadata"]["annotations"][CLASS].is_null()
    {
        return;
    }
    let classes = call.shared.store.list(table_names::STORAGE_CLASSES, None);
    let default = classes
        .items
        .iter()
        .filter_map(|class| {
            let metadata = class.value()["metadata"].take();
            let is_default = |name: &&str| metadata["annotations"][*name] == "true";
            let created = metadata["creationTimestamp"].as_str().map(str::to_owned);
            let rank = (created, Reverse(class.key.name.to_string()));
            DEFAULT.iter().any(is_default).then_some(rank)
        })
        .max();
    if let Some((_, Reverse(name))) = default {
        claim["spec"]["storageClassName"] = json!(name);
    }
}
