//! Keys and certificates of one instance: made at start, kept in memory.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, SanType,
};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// Why no certificate could be made.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// Key or certificate generation failed.
    #[error("failed to generate a certificate")]
    Generate(#[from] rcgen::Error),
    /// The TLS library refused the result.
    #[error("failed to set up TLS")]
    Configure(#[from] rustls::Error),
    /// No random numbers.
    #[error("failed to get random bytes")]
    Random,
}

/// What clients need to trust the server, and what the server needs to be trusted.
pub(crate) struct Identity {
    pub(crate) ca_pem: String,
    pub(crate) server: Arc<ServerConfig>,
}

fn named(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}

/// Makes a CA and a serving certificate for `address`.
pub(crate) fn generate(address: SocketAddr) -> Result<Identity, TlsError> {
    let ca_key = KeyPair::generate()?;
    let mut ca = CertificateParams::default();
    ca.distinguished_name = named("berth-ca");
    ca.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    ca.key_usages = vec![
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::CrlSign,
        KeyUsagePurpose::DigitalSignature,
    ];
    let ca_certificate = ca.self_signed(&ca_key)?;
    let issuer = Issuer::new(ca, ca_key);

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
    let addresses = [
        IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(Ipv6Addr::LOCALHOST),
        address.ip(),
    ];
    serving
        .subject_alt_names
        .extend(addresses.map(SanType::IpAddress));
    let certificate = serving.signed_by(&key, &issuer)?;

    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let mut server = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], private)?;
    server.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Identity {
        ca_pem: ca_certificate.pem(),
        server: Arc::new(server),
    })
}

/// A bearer token of 32 random bytes.
pub(crate) fn token() -> Result<String, TlsError> {
    use base64::Engine;
    let mut bytes = [0_u8; 32];
    rustls::crypto::ring::default_provider()
        .secure_random
        .fill(&mut bytes)
        .map_err(|_| TlsError::Random)?;
    Ok(base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes))
}
