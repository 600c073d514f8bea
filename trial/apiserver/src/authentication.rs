//! Authentication of requests by client certificate, the administrator's token or a service account token. Requests
//! without these credentials are anonymous.
//!
//! This module must not know which requests an identity may send: see `authorization`.

pub(crate) mod certificate;
pub(crate) mod impersonation;
pub(crate) mod service_account;

use http::{Extensions, HeaderMap, header};

use crate::error::{ApiError, Reason};
use crate::identity::Identity;
use crate::store::Store;
use certificate::PresentedCertificate;
use service_account::{Signer, TokenError};

/// The checker of the credentials in requests.
pub(crate) struct Authenticator {
    /// The token of the administrator.
    token: String,
    pub(crate) accounts: Signer,
    /// The CA certificate of the server in PEM format.
    authority: String,
}

impl std::fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authenticator").finish_non_exhaustive()
    }
}

/// The identity and the audiences of a valid token.
#[derive(Debug, Clone)]
pub(crate) struct Bearer {
    pub(crate) identity: Identity,
    pub(crate) audiences: Vec<String>,
}

impl Authenticator {
    pub(crate) fn new(token: String, accounts: Signer, authority: String) -> Self {
        Self {
            token,
            accounts,
            authority,
        }
    }

    /// Returns the CA certificate of the server in PEM format.
    pub(crate) fn authority(&self) -> &str {
        &self.authority
    }

    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    /// Returns the identity of the client that sent a request. The extensions of a request contain the
    /// [`PresentedCertificate`] of its connection, or the [`Identity`] of an in-process client.
    pub(crate) fn identify(
        &self,
        store: &Store,
        extensions: &Extensions,
        headers: &HeaderMap,
    ) -> Result<Identity, ApiError> {
        let certificate = extensions.get::<PresentedCertificate>();
        let proven = certificate.and_then(PresentedCertificate::identity);
        if let Some(identity) = extensions.get::<Identity>().or(proven) {
            return Ok(identity.clone());
        }
        let refused = || ApiError::new(Reason::Unauthorized, "Unauthorized");
        match headers.get(header::AUTHORIZATION).and_then(bearer) {
            Some(token) => {
                let found = self.bearer(store, token, &[]);
                found.map(|b| b.identity).map_err(|_| refused())
            }
            None if certificate.is_some() => Err(refused()),
            None => Ok(Identity::anonymous()),
        }
    }

    /// Returns the identity and the audiences of a token. If `audiences` is empty, the token needs the audience of this
    /// server.
    pub(crate) fn bearer(
        &self,
        store: &Store,
        token: &str,
        audiences: &[String],
    ) -> Result<Bearer, TokenError> {
        if constant_time_eq(token.as_bytes(), self.token.as_bytes()) {
            let own = vec![service_account::ISSUER.to_owned()];
            return Ok(Bearer {
                identity: Identity::admin(),
                audiences: own,
            });
        }
        self.accounts.verify(store, token, audiences)
    }
}

/// Returns the token of an `Authorization` header with the bearer scheme.
fn bearer(value: &http::HeaderValue) -> Option<&str> {
    let mut parts = value.to_str().ok()?.trim().split(' ');
    let (scheme, token) = (parts.next()?, parts.next()?);
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// Compares two byte strings in constant time.
fn constant_time_eq(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |acc, (x, y)| acc | (x ^ y)) == 0
}
