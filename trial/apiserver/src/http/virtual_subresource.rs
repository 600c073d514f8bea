//! HTTP handling of subresources that are not stored: tokens, bindings, evictions, and the pod subresources that only a
//! kubelet can serve.

use axum::body::Body;
use http::{Method, Response, header};

use super::accept::{self, ResponseKind};
use super::render::Form;
use super::route::Target;
use super::{RequestContext, body, finish, header_text};
use crate::error::ApiError;
use crate::resource::Subresource;
use crate::{registry, verbs};

/// A subresource that is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VirtualSubresource {
    /// A token of a service account.
    Token,
    /// The assignment of a pod to a node.
    Binding,
    /// The eviction of a pod.
    Eviction,
    /// Logs, commands and connections of a pod, which only a kubelet can serve.
    Kubelet,
}

impl VirtualSubresource {
    /// Returns the subresource with this name if the target's resource has the subresource.
    pub(super) fn parse(name: &str, target: &Target) -> Option<Self> {
        let is_pod = target.resource.is("", "pods");
        match name {
            "token" if target.resource.is("", "serviceaccounts") => Some(Self::Token),
            "binding" if is_pod => Some(Self::Binding),
            "eviction" if is_pod => Some(Self::Eviction),
            _ if is_pod && verbs::kubelet::serves(name) => Some(Self::Kubelet),
            _ => None,
        }
    }

    /// Handles a request for the subresource.
    pub(super) async fn handle(
        self,
        context: RequestContext<'_>,
        body: Body,
        target: Target,
    ) -> Result<Response<Body>, ApiError> {
        let method = &context.parts.method;
        let content_type = context.content_type();
        let accept = header_text(context.parts, &header::ACCEPT);
        let in_flight = &context.shared.in_flight;
        let mut call = context.call(target)?;
        if self == Self::Kubelet {
            return Err(verbs::kubelet::refuse(&call));
        }
        if *method != Method::POST {
            return Err(ApiError::method_not_allowed());
        }
        accept::negotiate(accept, ResponseKind::Review)?;
        let bytes = body::receive(body, in_flight.limits.request_timeout).await?;
        let _permit = in_flight.enter(&call.identity, method)?;
        let result = match self {
            Self::Kubelet => Err(ApiError::method_not_allowed()),
            Self::Token => verbs::token_request::create(&call, &content_type, &bytes),
            Self::Binding => {
                call.subresource = Some(Subresource::Binding);
                verbs::pod_binding::create(&call, &content_type, &bytes).await
            }
            Self::Eviction => {
                call.resource = registry::eviction().clone();
                verbs::eviction::create(&call, &content_type, &bytes).await
            }
        };
        finish(&call, Form::full(), result)
    }
}
