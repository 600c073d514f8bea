//! [`Tls`]: the certificates that a client accepts from servers, and the certificate that it presents.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls_platform_verifier::BuilderVerifierExt as _;

use crate::any_certificate::AnyCertificate;
use crate::server_verifier::ServerVerifier;

/// TLS settings of connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// The certificates that the client accepts.
    pub trust: Trust,
    /// The certificate that the client presents.
    pub identity: Option<Identity>,
    /// The name in the server's certificate, if it differs from the URL's host.
    pub server_name: Option<String>,
}

/// The certificates that a client accepts from a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Certificates that the system trusts.
    System,
    /// Certificates of these authorities.
    Authorities(Pem),
    /// Any certificate.
    Any,
}

/// The client certificate with its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The certificate chain.
    pub certificate: Pem,
    /// The private key.
    pub key: Pem,
}

/// Certificates or a key in PEM.
#[derive(Clone, PartialEq, Eq)]
pub enum Pem {
    /// A file.
    File(PathBuf),
    /// The text itself.
    Data(Vec<u8>),
}

impl std::fmt::Debug for Pem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
            // The data may be a private key.
            Self::Data(_) => f.write_str("Data(..)"),
        }
    }
}

impl std::fmt::Display for Pem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Data(_) => f.write_str("inline data"),
        }
    }
}

/// The reason why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file or inline data cannot be read as certificates or as a key.
    #[error("cannot use {what}: {source}")]
    Pem {
        /// The file, or `inline data`.
        what: String,
        /// The cause.
        source: rustls::pki_types::pem::Error,
    },
    /// A file or inline data contains no certificate.
    #[error("no certificates in {0}")]
    Empty(String),
    /// The server name is invalid.
    #[error("{0:?} is not a valid server name")]
    ServerName(String),
    /// The certificates or the key cannot be used.
    #[error("cannot set up TLS: {0}")]
    Configure(#[from] rustls::Error),
}

impl TlsError {
    /// Returns the cause, for messages that name the setting themselves.
    pub fn cause(&self) -> String {
        match self {
            Self::Pem { source, .. } => source.to_string(),
            Self::Empty(_) => "it contains no certificate".to_owned(),
            Self::ServerName(_) => self.to_string(),
            Self::Configure(source) => source.to_string(),
        }
    }
}

impl Tls {
    /// Returns settings that accept these certificates. The client presents no certificate.
    pub fn trusting(trust: Trust) -> Self {
        Self {
            trust,
            identity: None,
            server_name: None,
        }
    }

    /// Returns the current contents of the certificate and key files, with `None` for a file that cannot be read. The
    /// caller compares the contents to detect changes.
    pub fn contents(&self) -> Vec<Option<Vec<u8>>> {
        let authorities = match &self.trust {
            Trust::Authorities(pem) => Some(pem),
            Trust::System | Trust::Any => None,
        };
        let identity = self.identity.iter();
        let identity = identity.flat_map(|identity| [&identity.certificate, &identity.key]);
        let files = authorities
            .into_iter()
            .chain(identity)
            .filter_map(|pem| match pem {
                Pem::File(path) => Some(path),
                Pem::Data(_) => None,
            });
        files.map(|path| std::fs::read(path).ok()).collect()
    }

    /// Creates the TLS configuration from the current contents of the files.
    ///
    /// # Errors
    /// When a file cannot be read, or the certificates or the key cannot be used.
    pub fn client_config(&self) -> Result<ClientConfig, TlsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()?;
        let builder = match &self.trust {
            Trust::System => builder.with_platform_verifier()?,
            Trust::Authorities(pem) => {
                let verifier = ServerVerifier::new(provider, certificates(pem)?)?;
                builder
                    .dangerous()
                    .with_custom_certificate_verifier(Arc::new(verifier))
            }
            Trust::Any => builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(AnyCertificate::new(provider))),
        };
        Ok(match &self.identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let chain = certificates(&identity.certificate)?;
                builder.with_client_auth_cert(chain, key(&identity.key)?)?
            }
        })
    }

    pub(crate) fn server_name(&self) -> Result<Option<ServerName<'static>>, TlsError> {
        let parse = |name: &String| {
            ServerName::try_from(name.clone()).map_err(|_| TlsError::ServerName(name.clone()))
        };
        self.server_name.as_ref().map(parse).transpose()
    }
}

fn certificates(pem: &Pem) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read: Result<Vec<_>, _> = match pem {
        Pem::File(path) => CertificateDer::pem_file_iter(path).and_then(Iterator::collect),
        Pem::Data(data) => CertificateDer::pem_slice_iter(data).collect(),
    };
    let certificates = read.map_err(|source| unusable(pem, source))?;
    if certificates.is_empty() {
        return Err(TlsError::Empty(pem.to_string()));
    }
    Ok(certificates)
}

fn key(pem: &Pem) -> Result<PrivateKeyDer<'static>, TlsError> {
    let read = match pem {
        Pem::File(path) => PrivateKeyDer::from_pem_file(path),
        Pem::Data(data) => PrivateKeyDer::from_pem_slice(data),
    };
    read.map_err(|source| unusable(pem, source))
}

fn unusable(pem: &Pem, source: rustls::pki_types::pem::Error) -> TlsError {
    TlsError::Pem {
        what: pem.to_string(),
        source,
    }
}
