//! What informers tell the owner of the state.

use std::sync::Arc;

use super::claim::PolicyKind;
use super::desired_binding::BindingKind;
use super::resource_type::ResourceType;
use crate::informer::Observation;

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

/// A message to the owner of the state.
#[derive(Clone, Debug)]
pub(super) enum Message {
    /// The kinds that the server serves now.
    Served(Vec<ResourceType>),
    /// Something was observed.
    Observed(Source, Observation),
}
