//! Tests of the estimator client's TLS connections.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;

use berth_scheduler::estimator::{Answer, ClientIdentity, EstimatorOptions, Tls};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, SanType};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;

use crate::fake::{Behaviour, FakeEstimator};
use crate::fixture::{Fixture, cpu, soon};

struct Authority {
    certificate: rcgen::Certificate,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self {
            certificate: params.self_signed(&key).unwrap(),
            issuer: Issuer::new(params, key),
        }
    }

    fn issue(&self, host: IpAddr) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.subject_alt_names = vec![SanType::IpAddress(host)];
        (params.signed_by(&key, &self.issuer).unwrap(), key)
    }

    /// Returns an acceptor with a certificate of this authority. The acceptor requires a client certificate of the same
    /// authority.
    fn acceptor(&self, host: IpAddr) -> TlsAcceptor {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.der().clone()).unwrap();
        let verifier =
            WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone()).build();
        let (certificate, key) = self.issue(host);
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(verifier.unwrap())
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        config.alpn_protocols = vec![b"h2".to_vec()];
        TlsAcceptor::from(Arc::new(config))
    }

    fn write(&self, path: &Path) {
        std::fs::write(path, self.certificate.pem()).unwrap();
    }

    fn identity(&self, folder: &Path) -> ClientIdentity {
        let (certificate, key) = self.issue(LOCAL);
        let paths = ClientIdentity {
            certificate: folder.join("tls.crt"),
            key: folder.join("tls.key"),
        };
        std::fs::write(&paths.certificate, certificate.pem()).unwrap();
        std::fs::write(&paths.key, key.serialize_pem()).unwrap();
        paths
    }
}

const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const OTHER_HOST: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

async fn answer(tls: Tls, acceptor: TlsAcceptor) -> Answer {
    let fixture = Fixture::with(EstimatorOptions {
        tls,
        ..EstimatorOptions::default()
    })
    .await;
    let address = "127.0.0.1:0".parse().unwrap();
    let fake = FakeEstimator::start_at("m1", Behaviour::Answers(5), address, Some(acceptor)).await;
    fixture.join("m1", fake.address).await;
    let answers = fixture.estimate(&cpu("1"), &["m1"]).await;
    answers.get("m1").unwrap().clone()
}

#[tokio::test]
async fn both_sides_verify_certificates() {
    let (authority, folder) = (Authority::new(), tempfile::tempdir().unwrap());
    let ca = folder.path().join("ca.crt");
    authority.write(&ca);
    let identity = Some(authority.identity(folder.path()));
    let verified = Tls::Verified {
        ca: ca.clone(),
        identity: identity.clone(),
    };
    let got = answer(verified.clone(), authority.acceptor(LOCAL)).await;
    assert_eq!(got, Answer::Fresh(5));

    let refused = answer(verified.clone(), authority.acceptor(OTHER_HOST)).await;
    assert!(
        refused.to_string().contains("not valid for name"),
        "{refused}"
    );
    let refused = answer(verified, Authority::new().acceptor(LOCAL)).await;
    assert!(
        refused.to_string().contains("invalid peer certificate"),
        "{refused}"
    );
    let unknown = Tls::Verified { ca, identity: None };
    let refused = answer(unknown, authority.acceptor(LOCAL)).await;
    assert_eq!(
        refused.value(),
        None,
        "the server requires a client certificate: {refused}"
    );
    let refused = answer(Tls::Plain, authority.acceptor(LOCAL)).await;
    assert_eq!(refused.value(), None, "the server requires TLS: {refused}");

    let unverified = Tls::Unverified { identity };
    let got = answer(unverified, authority.acceptor(OTHER_HOST)).await;
    assert_eq!(got, Answer::Fresh(5));
}

#[tokio::test]
async fn files_are_read_for_every_connection() {
    let (authority, folder) = (Authority::new(), tempfile::tempdir().unwrap());
    let ca = folder.path().join("ca.crt");
    Authority::new().write(&ca);
    let identity = Some(authority.identity(folder.path()));
    let fixture = Fixture::with(EstimatorOptions {
        tls: Tls::Verified {
            ca: ca.clone(),
            identity,
        },
        ..EstimatorOptions::default()
    })
    .await;
    let address = "127.0.0.1:0".parse().unwrap();
    let acceptor = Some(authority.acceptor(LOCAL));
    let fake = FakeEstimator::start_at("m1", Behaviour::Answers(5), address, acceptor).await;
    fixture.join("m1", fake.address).await;
    let answers = fixture.estimate(&cpu("1"), &["m1"]).await;
    assert_eq!(
        answers.get("m1").unwrap().value(),
        None,
        "the CA file contains the certificate of another authority"
    );
    authority.write(&ca);
    assert!(soon(fixture.client.connections().until_up("m1")).await);
    let answers = fixture.estimate(&cpu("1"), &["m1"]).await;
    assert_eq!(answers.get("m1"), Some(&Answer::Fresh(5)));
}
