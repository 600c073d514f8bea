//! The certificate authority of a server: serving and client certificates, the TLS configuration, and random tokens.
//! `credentials` stores the keys.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, SanType,
};
use ring::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::authentication::certificate::ClientCertificates;
use crate::authentication::service_account::SigningError;

/// An error of creating or using keys and certificates.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The generation of a key or certificate failed.
    #[error("failed to generate a certificate")]
    Generate(#[from] rcgen::Error),
    /// The TLS library refused the keys or certificates.
    #[error("failed to set up TLS")]
    Configure(#[from] rustls::Error),
    /// The certificate of the certificate authority cannot be used.
    #[error("the certificate of the authority cannot be used: {0}")]
    Authority(String),
    /// The signing key for service account tokens cannot be used.
    #[error("the key for service account tokens cannot be used")]
    SigningKey,
    /// A private key cannot be read.
    #[error("it is not a private key")]
    Key,
    /// No random bytes are available.
    #[error("failed to get random bytes")]
    Random,
    /// A file of the server's secrets is damaged.
    #[error(
        "cannot use {}: {message}: put the file back, or remove {} to generate new keys and tokens, and then \
         write every kubeconfig again", path.display(), folder.display()
    )]
    Damaged {
        /// The damaged file.
        path: PathBuf,
        /// The problem of the file.
        message: String,
        /// The folder of the file.
        folder: PathBuf,
    },
    /// A file of the server's secrets cannot be read or written.
    #[error("cannot read or write the secrets of the server in {}: {source}", path.display())]
    File {
        /// The file or its folder.
        path: PathBuf,
        /// The I/O error.
        #[source]
        source: std::io::Error,
    },
}

impl From<SigningError> for TlsError {
    fn from(_: SigningError) -> Self {
        Self::SigningKey
    }
}

/// A client certificate and its private key, in PEM format.
#[derive(Clone)]
pub struct ClientCertificate {
    /// The certificate.
    pub certificate_pem: String,
    /// The private key of the certificate.
    pub key_pem: String,
}

impl std::fmt::Debug for ClientCertificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientCertificate").finish_non_exhaustive()
    }
}

/// The certificate authority of a server.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) certificate_pem: String,
}

fn named(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}

/// Generates a private key in PEM format.
pub(crate) fn new_key() -> Result<String, TlsError> {
    Ok(KeyPair::generate()?.serialize_pem())
}

fn authority_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = named("berth-ca");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::CrlSign,
        KeyUsagePurpose::DigitalSignature,
    ];
    params
}

/// Creates the self-signed certificate of a certificate authority, in PEM format.
pub(crate) fn authority_certificate(key_pem: &str) -> Result<String, TlsError> {
    let key = KeyPair::from_pem(key_pem)?;
    Ok(authority_params().self_signed(&key)?.pem())
}

/// Converts a private key from PEM to PKCS #8.
pub(crate) fn pkcs8(key_pem: &str) -> Result<Vec<u8>, TlsError> {
    Ok(KeyPair::from_pem(key_pem)
        .map_err(|_| TlsError::Key)?
        .serialize_der())
}

/// Returns the reason for which a self-signed certificate does not match a key, or `None` if it matches.
pub(crate) fn mismatch(key_pem: &str, certificate_pem: &str) -> Option<String> {
    let Ok(key) = KeyPair::from_pem(key_pem) else {
        return Some(TlsError::Key.to_string());
    };
    let not_a_certificate = || Some("it is not a certificate".to_owned());
    let Ok(der) = CertificateDer::from_pem_slice(certificate_pem.as_bytes()) else {
        return not_a_certificate();
    };
    let Ok((_, certificate)) = X509Certificate::from_der(&der) else {
        return not_a_certificate();
    };
    // The signature covers the whole certificate, so this check also finds damage in the certificate.
    let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, key.public_key_raw());
    let signed = certificate.tbs_certificate.as_ref();
    let signature = &certificate.signature_value.data;
    let fits = public.verify(signed, signature).is_ok();
    (!fits).then(|| "it does not fit its key, or is damaged".to_owned())
}

impl Authority {
    pub(crate) fn new(key_pem: &str, certificate_pem: String) -> Result<Self, TlsError> {
        let key = KeyPair::from_pem(key_pem)?;
        Ok(Self {
            issuer: Issuer::new(authority_params(), key),
            certificate_pem,
        })
    }

    /// Returns the TLS configuration of a server at an address, and the checker of its optional client certificates.
    pub(crate) fn serve(
        &self,
        address: SocketAddr,
    ) -> Result<(Arc<ServerConfig>, ClientCertificates), TlsError> {
        let key = KeyPair::generate()?;
        let names = [
            "localhost",
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
        ];
        let mut serving = CertificateParams::new(names.map(str::to_owned))?;
        serving.distinguished_name = named("berth-apiserver");
        serving.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let mut addresses = vec![
            IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(Ipv6Addr::LOCALHOST),
        ];
        if !address.ip().is_unspecified() && !addresses.contains(&address.ip()) {
            addresses.push(address.ip());
        }
        serving
            .subject_alt_names
            .extend(addresses.into_iter().map(SanType::IpAddress));
        let certificate = serving.signed_by(&key, &self.issuer)?;

        let refused = |error: &dyn std::fmt::Display| TlsError::Authority(error.to_string());
        let own = CertificateDer::from_pem_slice(self.certificate_pem.as_bytes())
            .map_err(|e| refused(&e))?;
        let mut roots = RootCertStore::empty();
        roots.add(own)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let clients = WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone())
            .build()
            .map_err(|e| refused(&e))?;
        let clients = ClientCertificates::new(clients);
        let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let mut server = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(Arc::new(clients.clone()))
            .with_single_cert(vec![certificate.der().clone()], private)?;
        server.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok((Arc::new(server), clients))
    }

    /// Issues a client certificate for a user and at most one group.
    pub(crate) fn client(
        &self,
        user: &str,
        group: Option<&str>,
    ) -> Result<ClientCertificate, TlsError> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name = named(user);
        if let Some(group) = group {
            params
                .distinguished_name
                .push(DnType::OrganizationName, group);
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        Ok(ClientCertificate {
            certificate_pem: params.signed_by(&key, &self.issuer)?.pem(),
            key_pem: key.serialize_pem(),
        })
    }
}

/// Number of random bytes in a bearer token.
pub(crate) const TOKEN_BYTES: usize = 32;

/// Generates a random bearer token.
pub(crate) fn token() -> Result<String, TlsError> {
    use base64::Engine;
    let mut bytes = [0_u8; TOKEN_BYTES];
    rustls::crypto::ring::default_provider()
        .secure_random
        .fill(&mut bytes)
        .map_err(|_| TlsError::Random)?;
    Ok(base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes))
}
