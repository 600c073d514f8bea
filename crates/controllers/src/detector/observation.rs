//! What informers tell the owner of the state.

use std::sync::Arc;

use kube::api::DynamicObject;

use super::claim::PolicyKind;
use super::desired_binding::BindingKind;
use super::resource_type::ResourceType;

/// Where an observation comes from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Source {
    /// Resource templates of a kind.
    Templates(Arc<ResourceType>),
    /// Policies of a kind.
    Policies(PolicyKind),
    /// Bindings of a kind.
    Bindings(BindingKind),
    /// Override policies of a kind.
    Overrides(PolicyKind),
}

/// What was observed.
#[derive(Clone, Debug)]
pub(super) enum Observation {
    /// All objects are about to be listed.
    ListStarted,
    /// One of them.
    Listed(Box<DynamicObject>),
    /// That was all: what was not listed is gone.
    ListDone,
    /// An object is new or changed.
    Applied(Box<DynamicObject>),
    /// An object is gone.
    Deleted(Box<DynamicObject>),
}

/// A message to the owner of the state.
#[derive(Clone, Debug)]
pub(super) enum Message {
    /// The kinds that the server serves now.
    Served(Vec<ResourceType>),
    /// Something was observed.
    Observed(Source, Observation),
}
