//! The gang of a binding, derived from the labels of the binding and of its template.

use std::sync::Arc;

use berth_api::Binding;

use crate::template::{Lookup, Templates};

/// The label with the name of the gang.
const GROUP: &str = "podGroup";
/// The label with the minimum number of members.
const MIN_AVAILABLE: &str = "minAvailable";

/// The namespace and the name of a gang.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct GangName {
    pub(super) namespace: Option<Arc<str>>,
    pub(super) group: Arc<str>,
}

/// The gang of a binding, or the reason why the binding has none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Membership {
    /// The binding belongs to no gang.
    Alone,
    /// The binding belongs to this gang with this minimum number of members.
    Member(GangName, usize),
    /// The labels are invalid for this reason.
    Wrong(String),
    /// The template has not been read yet.
    NotKnown,
    /// The template does not exist, or the watch has not reported it yet.
    NoTemplate,
    /// The template cannot be read for this reason.
    Unreadable(String),
}

/// Returns the gang that the binding's own labels name, and its minimum number of members.
pub(crate) fn gang_by_labels(binding: &Binding) -> Option<(String, usize)> {
    let own = |name: &str| binding.metadata.labels.as_ref()?.get(name);
    let Membership::Member(gang, min) = Membership::new(binding, own(GROUP), own(MIN_AVAILABLE))
    else {
        return None;
    };
    let name = match gang.namespace {
        Some(namespace) => format!("{namespace}/{}", gang.group),
        None => gang.group.to_string(),
    };
    Some((name, min))
}

impl Membership {
    /// Returns the current membership of a binding.
    pub(super) fn of(binding: &Binding, templates: &Templates) -> Self {
        let own = |name: &str| binding.metadata.labels.as_ref()?.get(name);
        if let (Some(group), Some(min)) = (own(GROUP), own(MIN_AVAILABLE)) {
            return Self::new(binding, Some(group), Some(min));
        }
        match templates.of(binding) {
            Lookup::Pending => Self::NotKnown,
            Lookup::Absent => Self::NoTemplate,
            Lookup::Unreadable(why) => Self::Unreadable(why),
            Lookup::Known(template) => {
                let label = |name| own(name).or_else(|| template.labels.get(name));
                Self::new(binding, label(GROUP), label(MIN_AVAILABLE))
            }
        }
    }

    fn new(binding: &Binding, group: Option<&String>, min: Option<&String>) -> Self {
        let (Some(group), Some(min)) = (group.filter(|group| !group.is_empty()), min) else {
            return Self::Alone;
        };
        match min.parse::<usize>() {
            Ok(0 | 1) => Self::Alone,
            Ok(min) => Self::Member(
                GangName {
                    namespace: binding.key.namespace.clone(),
                    group: group.as_str().into(),
                },
                min,
            ),
            Err(_) => Self::Wrong(format!(
                "label {MIN_AVAILABLE} is {min:?}: it must be a whole number"
            )),
        }
    }
}
