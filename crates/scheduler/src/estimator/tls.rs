//! The TLS configuration of connections to estimators. The files are read again for every connection.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::options::{ClientIdentity, Tls};
use berth_https_client::{AnyCertificate, ServerVerifier};

/// The reason why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub(super) enum TlsError {
    /// A file cannot be read as certificates or a key.
    #[error("cannot use {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: rustls::pki_types::pem::Error,
    },
    /// A file contains no certificates.
    #[error("no certificates in {}", .0.display())]
    Empty(PathBuf),
    /// The certificates or keys are unusable.
    #[error("cannot set up TLS: {0}")]
    Configure(#[from] rustls::Error),
}

/// Returns the TLS configuration, or `None` for connections in plain text.
pub(super) fn client_config(tls: &Tls) -> Result<Option<Arc<ClientConfig>>, TlsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()?;
    let (builder, identity) = match tls {
        Tls::Plain => return Ok(None),
        Tls::Verified { ca, identity } => {
            let verifier = Arc::new(ServerVerifier::new(provider, certificates(ca)?)?);
            let builder = builder.dangerous();
            (builder.with_custom_certificate_verifier(verifier), identity)
        }
        Tls::Unverified { identity } => {
            let verifier = Arc::new(AnyCertificate::new(provider));
            let builder = builder.dangerous();
            (builder.with_custom_certificate_verifier(verifier), identity)
        }
    };
    let mut config = match identity {
        None => builder.with_no_client_auth(),
        Some(ClientIdentity { certificate, key }) => {
            let private = PrivateKeyDer::from_pem_file(key).map_err(|source| TlsError::File {
                path: key.clone(),
                source,
            })?;
            builder.with_client_auth_cert(certificates(certificate)?, private)?
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(Some(Arc::new(config)))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let unusable = |source| TlsError::File {
        path: path.to_owned(),
        source,
    };
    let certificates = CertificateDer::pem_file_iter(path).map_err(unusable)?;
    let certificates: Vec<_> = certificates.collect::<Result<_, _>>().map_err(unusable)?;
    if certificates.is_empty() {
        return Err(TlsError::Empty(path.to_owned()));
    }
    Ok(certificates)
}
