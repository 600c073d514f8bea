//! Client certificates: the common name is the user, and the organisations are the groups.
//!
//! The TLS handshake accepts any certificate whose private key the client has. This module checks the signature of the
//! certificate after the handshake. Therefore a client with a certificate of another authority gets an HTTP response,
//! and may authenticate with a token instead.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::identity::{ANONYMOUS, AUTHENTICATED, Identity};

/// The result of checking the client certificate of a connection.
#[derive(Debug, Clone)]
pub(crate) enum PresentedCertificate {
    /// The certificate is valid. `until` is the time of its expiry in seconds of the Unix epoch.
    Valid { identity: Identity, until: i64 },
    /// The certificate is expired, not for client authentication, or signed by another authority.
    Invalid,
}

impl PresentedCertificate {
    /// Returns the identity in the certificate, or `None` if the certificate is invalid or has expired.
    pub(crate) fn identity(&self) -> Option<&Identity> {
        let now = jiff::Timestamp::now().as_second();
        match self {
            Self::Valid { identity, until } if now <= *until => Some(identity),
            _ => None,
        }
    }
}

/// The TLS verifier that requests an optional client certificate, and the check of this certificate.
#[derive(Debug, Clone)]
pub(crate) struct ClientCertificates {
    authority: Arc<dyn ClientCertVerifier>,
}

impl ClientCertificates {
    /// Creates a checker that accepts the certificates that `authority` accepts.
    pub(crate) fn new(authority: Arc<dyn ClientCertVerifier>) -> Self {
        Self { authority }
    }

    /// Checks a certificate chain. Returns `None` if the chain is empty, or if the certificate names no user.
    pub(crate) fn check(&self, chain: &[CertificateDer<'_>]) -> Option<PresentedCertificate> {
        let (own, others) = chain.split_first()?;
        let checked = self
            .authority
            .verify_client_cert(own, others, UnixTime::now());
        match checked {
            Ok(_) => identity_of(own),
            Err(_) => Some(PresentedCertificate::Invalid),
        }
    }
}

impl ClientCertVerifier for ClientCertificates {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.authority.root_hint_subjects()
    }

    /// Accepts every certificate, because [`ClientCertificates::check`] verifies the certificate after the handshake.
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

/// Returns the identity in a valid certificate, or `None` if the certificate names no user.
fn identity_of(certificate: &CertificateDer<'_>) -> Option<PresentedCertificate> {
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
    (!identity.user.is_empty()).then_some(PresentedCertificate::Valid { identity, until })
}
