//! Who makes a request: a client certificate, the administrator's token, the token of a service account, or
//! nobody. Knows nothing of what they may do.

pub(crate) mod certificate;
pub(crate) mod impersonation;
pub(crate) mod service_account;

use http::{Extensions, HeaderMap, header};

use crate::error::{ApiError, Reason};
use crate::identity::Identity;
use crate::store::Store;
use certificate::Shown;
use service_account::{Refused, Signer};

/// What tokens are checked against, and what goes along with them.
pub(crate) struct Authenticator {
    /// The administrator's.
    token: String,
    pub(crate) accounts: Signer,
    /// The certificate that clients check the server against, PEM.
    authority: String,
}

impl std::fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authenticator").finish_non_exhaustive()
    }
}

/// A token that was recognised.
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

    /// The certificate that holders of tokens check the server against.
    pub(crate) fn authority(&self) -> &str {
        &self.authority
    }

    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    /// The maker of a request. A connection with a client certificate has put what that proves into the extensions,
    /// and a client within the process its identity.
    pub(crate) fn identify(
        &self,
        store: &Store,
        extensions: &Extensions,
        headers: &HeaderMap,
    ) -> Result<Identity, ApiError> {
        let shown = extensions.get::<Shown>();
        let proven = shown.and_then(Shown::identity);
        if let Some(identity) = extensions.get::<Identity>().or(proven) {
            return Ok(identity.clone());
        }
        let refused = || ApiError::new(Reason::Unauthorized, "Unauthorized");
        match headers.get(header::AUTHORIZATION).and_then(bearer) {
            Some(token) => {
                let found = self.bearer(store, token, &[]);
                found.map(|b| b.identity).map_err(|_| refused())
            }
            None if shown.is_some() => Err(refused()),
            None => Ok(Identity::anonymous()),
        }
    }

    /// The holder of a token. Without audiences it must be meant for this server.
    pub(crate) fn bearer(
        &self,
        store: &Store,
        token: &str,
        audiences: &[String],
    ) -> Result<Bearer, Refused> {
        if same(token.as_bytes(), self.token.as_bytes()) {
            let own = vec![service_account::ISSUER.to_owned()];
            return Ok(Bearer {
                identity: Identity::admin(),
                audiences: own,
            });
        }
        self.accounts.verify(store, token, audiences)
    }
}

/// The token of an `Authorization` header; other schemes prove nothing here.
fn bearer(value: &http::HeaderValue) -> Option<&str> {
    let mut parts = value.to_str().ok()?.trim().split(' ');
    let (scheme, token) = (parts.next()?, parts.next()?);
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// Compares without telling through timing where the difference is.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |acc, (x, y)| acc | (x ^ y)) == 0
}
