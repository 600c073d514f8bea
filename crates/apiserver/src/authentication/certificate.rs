//! Client certificates: the common name is the user, the organisations are the groups.
//!
//! TLS lets anybody in who has the key of the certificate that they show. Whether our own authority signed it is asked
//! here, so that a stranger is told by an answer, and may have a token besides.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::identity::{ANONYMOUS, AUTHENTICATED, Identity};

/// What the certificate of a connection proves.
#[derive(Debug, Clone)]
pub(crate) enum Shown {
    /// Who it is, until the certificate ends: seconds since 1970.
    Somebody { identity: Identity, until: i64 },
    /// Nothing: it is not of our authority, or not for clients, or its time is over.
    Stranger,
}

impl Shown {
    /// Who it is now.
    pub(crate) fn identity(&self) -> Option<&Identity> {
        let now = jiff::Timestamp::now().as_second();
        match self {
            Self::Somebody { identity, until } if now <= *until => Some(identity),
            _ => None,
        }
    }
}

/// Asks clients for a certificate, and checks what they show.
#[derive(Debug, Clone)]
pub(crate) struct Clients {
    authority: Arc<dyn ClientCertVerifier>,
}

impl Clients {
    /// By what `authority` accepts.
    pub(crate) fn new(authority: Arc<dyn ClientCertVerifier>) -> Self {
        Self { authority }
    }

    /// What a chain of certificates proves, if it names somebody.
    pub(crate) fn judge(&self, chain: &[CertificateDer<'_>]) -> Option<Shown> {
        let (own, others) = chain.split_first()?;
        let checked = self
            .authority
            .verify_client_cert(own, others, UnixTime::now());
        match checked {
            Ok(_) => somebody(own),
            Err(_) => Some(Shown::Stranger),
        }
    }
}

impl ClientCertVerifier for Clients {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.authority.root_hint_subjects()
    }

    /// Nothing is concluded from it here: see [`Clients::judge`].
    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authority
            .verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authority
            .verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.authority.supported_verify_schemes()
    }
}

/// Who a good certificate stands for; none if it names nobody.
fn somebody(certificate: &CertificateDer<'_>) -> Option<Shown> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    let user = parsed
        .subject()
        .iter_common_name()
        .find_map(|n| n.as_str().ok())?
        .to_owned();
    let mut groups: Vec<String> = parsed
        .subject()
        .iter_organization()
        .filter_map(|n| n.as_str().ok())
        .map(str::to_owned)
        .collect();
    if user != ANONYMOUS {
        groups.push(AUTHENTICATED.to_owned());
    }
    let digest = ring::digest::digest(&ring::digest::SHA256, certificate);
    let hex = digest
        .as_ref()
        .iter()
        .fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
    let extra = [(
        "authentication.kubernetes.io/credential-id".to_owned(),
        vec![format!("X509SHA256={hex}")],
    )];
    let identity = Identity {
        user,
        groups,
        extra: extra.into(),
        ..Identity::default()
    };
    let until = parsed.validity().not_after.timestamp();
    (!identity.user.is_empty()).then_some(Shown::Somebody { identity, until })
}
