//! Parts of objects that have an endpoint of their own and are not stored: tokens, bindings, evictions, and what a
//! kubelet would answer. What is stored, such as a status, is asked for like the object itself.

use axum::body::Body;
use http::{Method, Response, header};

use super::accept::{self, Asked, Notation, Rendering};
use super::load::Kind;
use super::route::Target;
use super::{Asking, body, header_text, method_not_allowed, respond};
use crate::error::ApiError;
use crate::registry;
use crate::verbs::{self, Subresource};

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
        let accepts = header_text(asking.parts, &header::ACCEPT);
        let (patience, seat) = (asking.shared.load.limits.patience, asking.seat);
        let (query, name) = (asking.query, target.subresource.clone());
        let mut call = asking.call(target, Rendering::Full)?;
        if self != Self::Container && *method != Method::POST {
            return Err(method_not_allowed());
        }
        if self == Self::Container {
            let name = name.as_deref().unwrap_or_default();
            let refused = verbs::container::refuse(&call, name, query);
            return Err(seat.work(refused).await);
        }
        let (_, notation) = accept::negotiate(accepts, Asked::Review)?;
        let bytes = body::read(body, patience, seat).await?;
        let _place = seat.place(Kind::Mutating).await?;
        let work = async {
            let answer = match self {
                Self::Container => Err(method_not_allowed()),
                Self::Token => verbs::token::create(&call, &content_type, &bytes).await,
                Self::Binding => {
                    call.subresource = Some(Subresource::Binding);
                    verbs::binding::create(&call, &content_type, &bytes).await
                }
                Self::Eviction => {
                    call.resource = registry::eviction().clone();
                    verbs::eviction::create(&call, &content_type, &bytes).await
                }
            };
            let answer = call.warned(answer)?;
            Ok::<_, ApiError>(match notation {
                Notation::Json => answer,
                Notation::Yaml => respond::as_yaml(answer).await,
            })
        };
        seat.work(work).await
    }
}
