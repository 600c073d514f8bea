//! A certificate authority for tests.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

/// A certificate authority with a new key.
#[derive(Debug)]
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// The clients that a server accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clients {
    /// All clients.
    All,
    /// Only clients with a certificate of the authority of the server.
    Certified,
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

impl Authority {
    /// Creates an authority.
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// Returns the certificate of the authority in PEM format.
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// Returns the certificate as the base64 text of a `caBundle`.
    pub fn bundle(&self) -> String {
        STANDARD.encode(self.pem())
    }

    /// Issues a certificate for these names and IP addresses.
    pub fn issue(&self, names: &[&str]) -> (Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let params = CertificateParams::new(names).unwrap();
        (params.signed_by(&key, &self.0).unwrap(), key)
    }

    /// Returns the TLS configuration of a server with a certificate for these names and IP addresses.
    pub fn server(&self, names: &[&str], clients: Clients) -> ServerConfig {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = match clients {
            Clients::All => builder.with_no_client_auth(),
            Clients::Certified => {
                let mut roots = RootCertStore::empty();
                roots.add(self.0.der().clone()).unwrap();
                let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider);
                builder.with_client_cert_verifier(verifier.build().unwrap())
            }
        };
        let (certificate, key) = self.issue(names);
        let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        builder
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap()
    }
}
