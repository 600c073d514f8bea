//! Access control for the endpoints of metrics, configuration and debugging.

use std::fmt::Debug;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use futures::future::BoxFuture;

use crate::serving_certificate::ServingCertificate;

/// The decision whether a caller may read a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Permission {
    /// The caller may read the path.
    Allowed,
    /// The token belongs to no known user.
    Unauthenticated,
    /// The user with this name may not read the path.
    Forbidden(String),
}

/// An authorizer of callers, which identifies a caller by the bearer token.
pub trait Authorizer: Debug + Send + Sync + 'static {
    /// Decides whether the owner of the token may read the path. Returns an error if no decision is possible.
    fn decide(&self, token: String, path: String)
    -> BoxFuture<'static, Result<Permission, String>>;
}

/// The access control for `/metrics`, `/configz` and the debug endpoints.
#[derive(Clone, Debug, Default)]
pub enum Access {
    /// Plain HTTP for all callers, as in Karmada's components. Only callers on this machine may read `/configz` and the
    /// debug endpoints.
    #[default]
    Open,
    /// TLS at the address of the metrics, for callers that the authorizer allows. The address of the probes serves only
    /// the probes.
    Authorized {
        /// The certificate of the server.
        certificate: ServingCertificate,
        /// The authorizer of the callers.
        authorizer: Arc<dyn Authorizer>,
    },
}

/// Forwards a request if the authorizer allows the caller.
pub(crate) async fn authorize(
    State(authorizer): State<Arc<dyn Authorizer>>,
    request: Request,
    next: Next,
) -> Response {
    let Some(token) = bearer_token(&request) else {
        return unauthenticated();
    };
    let path = request.uri().path().to_owned();
    match authorizer.decide(token, path.clone()).await {
        Ok(Permission::Allowed) => next.run(request).await,
        Ok(Permission::Unauthenticated) => unauthenticated(),
        Ok(Permission::Forbidden(user)) => {
            let text = format!("user {user:?} cannot get path {path:?}\n");
            (StatusCode::FORBIDDEN, text).into_response()
        }
        Err(error) => {
            tracing::warn!(%error, path, "cannot check the permission of a caller");
            let text = "the API server cannot check the permission of the caller\n";
            (StatusCode::INTERNAL_SERVER_ERROR, text).into_response()
        }
    }
}

fn unauthenticated() -> Response {
    let text = "present the bearer token of a user or service account\n";
    let header = [(WWW_AUTHENTICATE, "Bearer")];
    (StatusCode::UNAUTHORIZED, header, text).into_response()
}

fn bearer_token(request: &Request) -> Option<String> {
    let value = request.headers().get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then(|| token.to_owned())
}
