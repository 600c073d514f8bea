//! Parts of objects that have an endpoint of their own and are not stored: tokens, bindings, evictions, and what a
//! kubelet would answer. What is stored, such as a status, is asked for like the object itself.

use axum::body::Body;
use bytes::Bytes;
use http::{Method, Response};

use super::accept::Rendering;
use super::route::Target;
use super::{Asking, body, method_not_allowed};
use crate::error::ApiError;
use crate::registry;
use crate::verbs::{self, Call, Subresource};

/// Which part of an object is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// A token of a service account.
    Token,
    /// The node that a pod gets.
    Binding,
    /// The end of a pod, budgets permitting.
    Eviction,
    /// What goes on in the containers of a pod.
    Container,
}

impl Part {
    /// The part that a path names, if the resource has it.
    pub(super) fn parse(name: &str, target: &Target) -> Option<Self> {
        let of_pods = target.resource.is("", "pods");
        match name {
            "token" if target.resource.is("", "serviceaccounts") => Some(Self::Token),
            "binding" if of_pods => Some(Self::Binding),
            "eviction" if of_pods => Some(Self::Eviction),
            _ if of_pods && verbs::container::is_part(name) => Some(Self::Container),
            _ => None,
        }
    }

    pub(super) async fn answer(
        self,
        asking: Asking<'_>,
        body: Body,
        target: Target,
    ) -> Result<Response<Body>, ApiError> {
        let method = &asking.parts.method;
        let content_type = asking.content_type();
        let patience = asking.shared.load.limits.patience;
        let mut call = asking.call(target, Rendering::Full)?;
        let create: fn(&Call, &str, &Bytes) -> Result<Response<Body>, ApiError> = match self {
            Self::Container => return Err(verbs::container::refuse(&call)),
            _ if *method != Method::POST => return Err(method_not_allowed()),
            Self::Token => verbs::token::create,
            Self::Binding => {
                call.subresource = Some(Subresource::Binding);
                verbs::binding::create
            }
            Self::Eviction => {
                call.resource = registry::eviction().clone();
                verbs::eviction::create
            }
        };
        let bytes = body::read(body, patience).await?;
        create(&call, &content_type, &bytes)
    }
}
