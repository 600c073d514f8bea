//! The TLS configuration of the server. The serving certificate is loaded again when its files change.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use berth_component_base::certificate_files::{CertificateFiles, FileError};
use berth_component_base::serving_certificate::{ServingCertificate, provider};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig};

/// The files of the server's certificate and of the authority of clients.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The serving certificate.
    pub certificate: CertificateFiles,
    /// The certificates of the authorities that sign client certificates, PEM. If it is `None`, clients need no
    /// certificate.
    pub client_authority: Option<PathBuf>,
}

/// The reason why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The serving certificate cannot be used.
    #[error("{0}; check --grpc-auth-cert-file and --grpc-auth-key-file")]
    Certificate(#[from] FileError),
    /// The certificates of the authorities cannot be used.
    #[error("cannot use --grpc-client-ca-file {}: {reason}", .path.display())]
    ClientAuthority {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The configuration is refused.
    #[error("cannot set up TLS: {0}")]
    Config(#[from] rustls::Error),
}

/// Returns the configuration of the server, and the certificate that it presents.
///
/// # Errors
/// When a file cannot be used.
pub(crate) fn server_config(
    files: &TlsFiles,
) -> Result<(Arc<ServerConfig>, ServingCertificate), TlsError> {
    let certificate = files.certificate.load()?;
    // Karmada's server refuses older versions.
    let builder = ServerConfig::builder_with_provider(Arc::new(provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])?;
    let builder = match &files.client_authority {
        None => builder.with_no_client_auth(),
        Some(path) => builder.with_client_cert_verifier(verifier(path)?),
    };
    let mut config = builder.with_cert_resolver(Arc::new(certificate.clone()));
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok((Arc::new(config), certificate))
}

/// Returns a verifier of client certificates that the authorities in a file have signed.
fn verifier(path: &Path) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let failed = |reason: String| TlsError::ClientAuthority {
        path: path.to_owned(),
        reason,
    };
    let text = std::fs::read(path).map_err(|error| failed(error.to_string()))?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&text) {
        let certificate = certificate.map_err(|error| failed(error.to_string()))?;
        roots
            .add(certificate)
            .map_err(|error| failed(error.to_string()))?;
    }
    let builder =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::new(provider()));
    builder.build().map_err(|error| failed(error.to_string()))
}
