//! The certificate that new TLS connections use. It can be replaced while connections are open.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

/// An error of a certificate or key that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// There is no certificate.
    #[error("the chain has no certificate in PEM format")]
    NoCertificate,
    /// The certificates cannot be read.
    #[error("cannot read the certificates: {0}")]
    Certificate(rustls::pki_types::pem::Error),
    /// The private key cannot be read.
    #[error("the key is not a private key in PEM format: {0}")]
    Key(rustls::pki_types::pem::Error),
    /// The key does not fit the certificate, or is of an unsupported type.
    #[error("the certificate and its key cannot be used together: {0}")]
    Pair(#[from] rustls::Error),
}

/// The serving certificate. Clones are cheap and share the certificate. While there is no certificate, TLS handshakes
/// fail.
#[derive(Clone, Debug, Default)]
pub struct ServingCertificate(Arc<ArcSwapOption<CertifiedKey>>);

impl ServingCertificate {
    /// Creates a serving certificate from a chain and its key, both PEM.
    ///
    /// # Errors
    /// When the chain or the key cannot be used.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, CertificateError> {
        let serving = Self::default();
        serving.replace(chain, key)?;
        Ok(serving)
    }

    /// Reports whether there is a certificate.
    pub fn is_present(&self) -> bool {
        self.0.load().is_some()
    }

    /// Replaces the certificate. Open connections keep the old certificate.
    ///
    /// # Errors
    /// When the new certificate cannot be used. The current certificate stays.
    pub fn replace(&self, chain: &[u8], key: &[u8]) -> Result<(), CertificateError> {
        self.0.store(Some(Arc::new(certified_key(chain, key)?)));
        Ok(())
    }
}

impl ResolvesServerCert for ServingCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.load_full()
    }
}

/// Returns the rustls provider of cryptographic algorithms.
pub fn provider() -> CryptoProvider {
    rustls::crypto::ring::default_provider()
}

fn certified_key(chain: &[u8], key: &[u8]) -> Result<CertifiedKey, CertificateError> {
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(chain)
        .collect::<Result<_, _>>()
        .map_err(CertificateError::Certificate)?;
    if chain.is_empty() {
        return Err(CertificateError::NoCertificate);
    }
    let key = PrivateKeyDer::from_pem_slice(key).map_err(CertificateError::Key)?;
    Ok(CertifiedKey::from_der(chain, key, &provider())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (String, String) {
        let pair = rcgen::generate_simple_self_signed(["webhook".to_owned()]).unwrap();
        (pair.cert.pem(), pair.signing_key.serialize_pem())
    }

    #[test]
    fn unusable_certificates_are_refused_with_the_reason() {
        let (certificate, key) = pair();
        let (_, other) = pair();
        for (certificate, key, expected) in [
            (certificate.as_str(), key.as_str(), None),
            ("", key.as_str(), Some("the chain has no certificate")),
            (certificate.as_str(), "", Some("the key is not")),
            (
                certificate.as_str(),
                other.as_str(),
                Some("the certificate and its key cannot be used together"),
            ),
        ] {
            let result = ServingCertificate::from_pem(certificate.as_bytes(), key.as_bytes());
            match (result, expected) {
                (Ok(_), None) => {}
                (Err(error), Some(expected)) => {
                    assert!(error.to_string().starts_with(expected), "{error}");
                }
                (result, expected) => assert_eq!(result.is_ok(), expected.is_none()),
            }
        }
    }
}
