//! Tests of the estimator client's TLS connections.

use std::path::Path;
use std::sync::Arc;

use berth_scheduler::estimator::{Answer, ClientIdentity, EstimatorOptions, Tls};
use berth_test_servers::{Authority, Clients};
use tokio_rustls::TlsAcceptor;

use crate::fake::{Behaviour, FakeEstimator};
use crate::fixture::{Fixture, cpu, soon};

/// Returns an acceptor with a certificate of the authority. The acceptor requires a client certificate of the same
/// authority.
fn acceptor(authority: &Authority, host: &str) -> TlsAcceptor {
    let mut config = authority.server(&[host], Clients::Certified);
    config.alpn_protocols = vec![b"h2".to_vec()];
    TlsAcceptor::from(Arc::new(config))
}

/// Writes a client certificate of the authority and its key into the folder.
fn identity(authority: &Authority, folder: &Path) -> ClientIdentity {
    let (certificate, key) = authority.issue(&[LOCAL]);
    let paths = ClientIdentity {
        certificate: folder.join("tls.crt"),
        key: folder.join("tls.key"),
    };
    std::fs::write(&paths.certificate, certificate.pem()).unwrap();
    std::fs::write(&paths.key, key.serialize_pem()).unwrap();
    paths
}

const LOCAL: &str = "127.0.0.1";
const OTHER_HOST: &str = "192.0.2.1";

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
    std::fs::write(&ca, authority.pem()).unwrap();
    let identity = Some(identity(&authority, folder.path()));
    let verified = Tls::Verified {
        ca: ca.clone(),
        identity: identity.clone(),
    };
    let got = answer(verified.clone(), acceptor(&authority, LOCAL)).await;
    assert_eq!(got, Answer::Fresh(5));

    let refused = answer(verified.clone(), acceptor(&authority, OTHER_HOST)).await;
    assert!(
        refused.to_string().contains("not valid for name"),
        "{refused}"
    );
    let refused = answer(verified, acceptor(&Authority::new(), LOCAL)).await;
    assert!(
        refused.to_string().contains("invalid peer certificate"),
        "{refused}"
    );
    let unknown = Tls::Verified { ca, identity: None };
    let refused = answer(unknown, acceptor(&authority, LOCAL)).await;
    assert_eq!(
        refused.value(),
        None,
        "the server requires a client certificate: {refused}"
    );
    let refused = answer(Tls::Plain, acceptor(&authority, LOCAL)).await;
    assert_eq!(refused.value(), None, "the server requires TLS: {refused}");

    let unverified = Tls::Unverified { identity };
    let got = answer(unverified, acceptor(&authority, OTHER_HOST)).await;
    assert_eq!(got, Answer::Fresh(5));
}

#[tokio::test]
async fn files_are_read_for_every_connection() {
    let (authority, folder) = (Authority::new(), tempfile::tempdir().unwrap());
    let ca = folder.path().join("ca.crt");
    std::fs::write(&ca, Authority::new().pem()).unwrap();
    let identity = Some(identity(&authority, folder.path()));
    let fixture = Fixture::with(EstimatorOptions {
        tls: Tls::Verified {
            ca: ca.clone(),
            identity,
        },
        ..EstimatorOptions::default()
    })
    .await;
    let address = "127.0.0.1:0".parse().unwrap();
    let acceptor = Some(acceptor(&authority, LOCAL));
    let fake = FakeEstimator::start_at("m1", Behaviour::Answers(5), address, acceptor).await;
    fixture.join("m1", fake.address).await;
    let answers = fixture.estimate(&cpu("1"), &["m1"]).await;
    assert_eq!(
        answers.get("m1").unwrap().value(),
        None,
        "the CA file contains the certificate of another authority"
    );
    std::fs::write(&ca, authority.pem()).unwrap();
    assert!(soon(fixture.client.connections().until_up("m1")).await);
    let answers = fixture.estimate(&cpu("1"), &["m1"]).await;
    assert_eq!(answers.get("m1"), Some(&Answer::Fresh(5)));
}
