//! The verification of TLS servers.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, DigitallySignedStruct, Error, OtherError, RootCertStore, SignatureScheme,
};

/// A verifier that trusts a list of certificates.
///
/// A server may present a trusted certificate itself, even if this certificate is the one of an authority. `openssl req
/// -x509` issues such certificates, and Go accepts them. rustls refuses them, because an authority must not be a
/// server. The dates and names of such certificates are verified in any case.
#[derive(Debug)]
pub struct ServerVerifier {
    chains: Arc<WebPkiServerVerifier>,
    trusted: Vec<CertificateDer<'static>>,
}

impl ServerVerifier {
    /// Creates a verifier that trusts these certificates.
    ///
    /// # Errors
    /// When a certificate is malformed, or there is none.
    pub fn new(
        provider: Arc<CryptoProvider>,
        trusted: Vec<CertificateDer<'static>>,
    ) -> Result<Self, Error> {
        let mut roots = RootCertStore::empty();
        for certificate in &trusted {
            roots.add(certificate.clone())?;
        }
        let chains = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .map_err(|error| Error::General(error.to_string()))?;
        Ok(Self { chains, trusted })
    }
}

/// Reports whether the only problem of a certificate is that it is the one of an authority. The dates of the
/// certificate are verified before.
fn is_authority_as_server(error: &Error) -> bool {
    let Error::InvalidCertificate(CertificateError::Other(OtherError(cause))) = error else {
        return false;
    };
    cause.downcast_ref::<webpki::Error>() == Some(&webpki::Error::CaUsedAsEndEntity)
}

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = self.chains.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        match verified {
            Err(error) if is_authority_as_server(&error) => {
                if !self.trusted.contains(end_entity) {
                    return Err(CertificateError::UnknownIssuer.into());
                }
                let certificate = ParsedCertificate::try_from(end_entity)?;
                rustls::client::verify_server_name(&certificate, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chains
            .verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chains
            .verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chains.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

    use super::*;

    /// 2030-01-01, in seconds.
    const NOW: u64 = 1_893_456_000;

    fn authority(until: i32) -> (CertificateParams, KeyPair) {
        let mut params = CertificateParams::new(vec!["api.example".to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(until, 1, 1);
        (params, KeyPair::generate().unwrap())
    }

    fn verify(
        trusted: &CertificateDer<'static>,
        presented: &CertificateDer<'static>,
        name: &str,
    ) -> Result<(), String> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = ServerVerifier::new(provider, vec![trusted.clone()]).unwrap();
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let now = UnixTime::since_unix_epoch(Duration::from_secs(NOW));
        let result = verifier.verify_server_cert(presented, &[], &name, &[], now);
        result.map(drop).map_err(|error| error.to_string())
    }

    #[test]
    fn a_trusted_certificate_may_be_the_one_of_an_authority() {
        let (params, key) = authority(2040);
        let own = params.self_signed(&key).unwrap().der().clone();
        assert_eq!(verify(&own, &own, "api.example"), Ok(()));
        let wrong_name = verify(&own, &own, "other.example").unwrap_err();
        assert!(wrong_name.contains("other.example"), "{wrong_name}");

        let (params, key) = authority(2025);
        let expired = params.self_signed(&key).unwrap().der().clone();
        let error = verify(&expired, &expired, "api.example").unwrap_err();
        assert!(error.contains("expired"), "{error}");
    }

    #[test]
    fn only_the_trusted_certificate_itself_may_be_the_one_of_an_authority() {
        let (params, key) = authority(2040);
        let own = params.self_signed(&key).unwrap().der().clone();
        let issuer = Issuer::new(params, key);
        let (params, key) = authority(2040);
        let other = params.self_signed(&key).unwrap().der().clone();
        assert!(verify(&own, &other, "api.example").is_err());
        let (params, key) = authority(2040);
        let signed = params.signed_by(&key, &issuer).unwrap().der().clone();
        let error = verify(&own, &signed, "api.example").unwrap_err();
        assert!(error.contains("UnknownIssuer"), "{error}");
        let mut params = CertificateParams::new(vec!["api.example".to_owned()]).unwrap();
        params.is_ca = IsCa::NoCa;
        let key = KeyPair::generate().unwrap();
        let signed = params.signed_by(&key, &issuer).unwrap().der().clone();
        assert_eq!(verify(&own, &signed, "api.example"), Ok(()));
    }
}
