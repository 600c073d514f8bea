//! Device classes, and the names of resources by which pods request their devices.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;
use k8s_openapi::api::resource::v1::DeviceClass;

use super::selectors::Selectors;

/// A device class.
#[derive(Debug)]
pub(super) struct Class {
    pub(super) selectors: Selectors,
    extended_resource: Option<String>,
    created: Option<Timestamp>,
}

impl Class {
    pub(super) fn of(class: &DeviceClass) -> Self {
        Self {
            selectors: Selectors::of(class),
            extended_resource: class.spec.extended_resource_name.clone(),
            created: class.metadata.creation_timestamp.as_ref().map(|it| it.0),
        }
    }
}

/// Returns the class for each extended resource that a class names. If several classes name the same resource, the
/// newest class counts, and among classes of the same age the first one by name.
pub(super) fn by_extended_resource(classes: &BTreeMap<String, Class>) -> HashMap<String, String> {
    let mut newest_first: Vec<(&String, &Class)> = classes.iter().collect();
    newest_first.sort_by_key(|(_, class)| Reverse(class.created));
    let mut chosen = HashMap::new();
    for (name, class) in newest_first {
        if let Some(resource) = &class.extended_resource {
            chosen
                .entry(resource.clone())
                .or_insert_with(|| name.clone());
        }
    }
    chosen
}
