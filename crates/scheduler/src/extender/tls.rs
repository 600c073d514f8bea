//! TLS towards an extender.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt as _;

use crate::any_certificate::AnyCertificate;

/// How connections are secured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tls {
    pub(super) trust: Trust,
    pub(super) identity: Option<Identity>,
    /// The name in the extender's certificate, where it is not that of the URL.
    pub(super) server_name: Option<String>,
}

/// Whose certificates are taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    /// Those that the system trusts.
    System,
    /// Those signed by one of these.
    Authorities(Pem),
    /// Any.
    Anybody,
}

/// Our own certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) certificate: Pem,
    pub(super) key: Pem,
}

/// Certificates or a key in PEM.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Pem {
    File(PathBuf),
    Data(Vec<u8>),
}

impl std::fmt::Debug for Pem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
            // It may be a key.
            Self::Data(_) => f.write_str("Data(..)"),
        }
    }
}

impl std::fmt::Display for Pem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Data(_) => f.write_str("the data given"),
        }
    }
}

/// Why connections cannot be secured.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file or data holds no certificates or no key.
    #[error("cannot use {what}: {source}")]
    Pem {
        /// The file, or that it is data.
        what: String,
        /// What is wrong with it.
        source: rustls::pki_types::pem::Error,
    },
    /// No certificates.
    #[error("no certificates in {0}")]
    Empty(String),
    /// The server name is none.
    #[error("{0:?} is no name of a server")]
    ServerName(String),
    /// Certificates or keys that do not work.
    #[error("cannot set up TLS: {0}")]
    Configure(#[from] rustls::Error),
}

impl Tls {
    /// Returns what the files hold now, to compare it with what they held; a file that cannot be read holds nothing.
    pub(super) fn contents(&self) -> Vec<Option<Vec<u8>>> {
        let authorities = match &self.trust {
            Trust::Authorities(pem) => Some(pem),
            Trust::System | Trust::Anybody => None,
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

    /// The configuration of connections, from what the files hold now.
    pub(super) fn client_config(&self) -> Result<ClientConfig, TlsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()?;
        let builder = match &self.trust {
            Trust::System => builder.with_platform_verifier()?,
            Trust::Authorities(pem) => {
                let mut roots = RootCertStore::empty();
                for certificate in certificates(pem)? {
                    roots.add(certificate)?;
                }
                builder.with_root_certificates(roots)
            }
            Trust::Anybody => builder
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

    pub(super) fn server_name(&self) -> Result<Option<ServerName<'static>>, TlsError> {
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
