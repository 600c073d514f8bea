//! What informers tell the owner of the state.

use std::sync::Arc;

use super::claim::PolicyKind;
use crate::binding_key::BindingKind;
use crate::informer::Observation;
use crate::resource_type::ResourceType;

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
