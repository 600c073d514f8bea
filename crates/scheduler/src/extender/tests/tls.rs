//! Tests of TLS: authorities, server names, client certificates, and renewed certificate files.

use std::sync::Arc;

use berth_test_servers::{Authority, Clients};
use http_body_util::Full;
use hyper::Response;
use hyper::body::Bytes;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rcgen::KeyPair;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::fake::config;
use super::harness::{Harness, everywhere, soon};

/// Starts an extender that serves TLS with a certificate for `name`, and returns its URL. Only cluster `m1` passes the
/// extender's filter.
async fn extender(authority: &Authority, name: &str, clients: Clients) -> String {
    let server = authority.server(&[name], clients);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/s", listener.local_addr().unwrap());
    let acceptor = TlsAcceptor::from(Arc::new(server));
    tokio::spawn(async move {
        while let Ok((tcp, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(tcp).await else {
                    return;
                };
                let answer = service_fn(async |_| {
                    let body = json!({ "clusterNames": ["m1"] }).to_string();
                    Ok::<_, hyper::Error>(Response::new(Full::new(Bytes::from(body))))
                });
                let _ = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), answer)
                    .await;
            });
        }
    });
    url
}

async fn filter(url: &str, tls: Value) -> Result<Vec<String>, String> {
    let fields = json!({ "filterVerb": "filter", "enableHTTPS": true, "tlsConfig": tls });
    Harness::new(&[config(url, fields)])
        .decide(&everywhere())
        .await
        .clusters()
}

#[tokio::test]
async fn certificates_are_verified_unless_insecure() {
    let (authority, other) = (Authority::new(), Authority::new());
    let url = extender(&authority, "127.0.0.1", Clients::All).await;
    assert_eq!(
        filter(&url, json!({ "caData": authority.bundle() }))
            .await
            .unwrap(),
        ["m1"]
    );
    for untrusted in [json!({ "caData": other.bundle() }), json!({})] {
        let error = filter(&url, untrusted).await.unwrap_err();
        assert!(error.contains("invalid peer certificate"), "{error}");
    }
    assert_eq!(
        filter(&url, json!({ "insecure": true })).await.unwrap(),
        ["m1"]
    );
}

#[tokio::test]
async fn the_server_name_can_differ_from_the_url() {
    let authority = Authority::new();
    let url = extender(&authority, "extender.example", Clients::All).await;
    let error = filter(&url, json!({ "caData": authority.bundle() }))
        .await
        .unwrap_err();
    assert!(error.contains("certificate not valid for name"), "{error}");
    let named = json!({ "caData": authority.bundle(), "serverName": "extender.example" });
    assert_eq!(filter(&url, named).await.unwrap(), ["m1"]);
}

#[tokio::test]
async fn client_certificates_are_sent() {
    let authority = Authority::new();
    let url = extender(&authority, "127.0.0.1", Clients::Certified).await;
    assert!(
        filter(&url, json!({ "caData": authority.bundle() }))
            .await
            .is_err()
    );
    let (certificate, key) = authority.issue(&["scheduler"]);
    let folder = tempfile::tempdir().unwrap();
    let (cert_file, key_file) = (
        folder.path().join("cert.pem"),
        folder.path().join("key.pem"),
    );
    std::fs::write(&cert_file, certificate.pem()).unwrap();
    std::fs::write(&key_file, key.serialize_pem()).unwrap();
    let identified =
        json!({ "caData": authority.bundle(), "certFile": cert_file, "keyFile": key_file });
    assert_eq!(filter(&url, identified).await.unwrap(), ["m1"]);
}

#[tokio::test]
async fn renewed_files_are_used_without_a_restart() {
    let (before, after) = (Authority::new(), Authority::new());
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let write = |authority: &Authority| {
        let (certificate, key) = authority.issue(&["scheduler"]);
        std::fs::write(file("ca.pem"), authority.pem()).unwrap();
        std::fs::write(file("cert.pem"), certificate.pem()).unwrap();
        std::fs::write(file("key.pem"), key.serialize_pem()).unwrap();
    };
    write(&before);
    let url = extender(&after, "127.0.0.1", Clients::Certified).await;
    let tls = json!({ "caFile": file("ca.pem"), "certFile": file("cert.pem"), "keyFile": file("key.pem") });
    let fields = json!({ "filterVerb": "filter", "enableHTTPS": true, "tlsConfig": tls });
    let mut harness = Harness::new(&[config(&url, fields)]);
    let refused = harness.decide(&everywhere()).await.clusters();
    assert!(refused.is_err(), "{refused:?}");
    // The key is renewed first. It does not match the old certificate.
    std::fs::write(
        file("key.pem"),
        KeyPair::generate().unwrap().serialize_pem(),
    )
    .unwrap();
    let began = std::time::Instant::now();
    while began.elapsed() < std::time::Duration::from_millis(1200) {
        assert!(harness.decide(&everywhere()).await.clusters().is_err());
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    write(&after);
    let passing = soon(async {
        loop {
            if let Ok(passing) = harness.decide(&everywhere()).await.clusters() {
                return passing;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    });
    assert_eq!(passing.await, ["m1"]);
}

#[test]
fn unreadable_files_are_rejected_at_load() {
    let fields = json!({ "filterVerb": "f", "tlsConfig": { "caFile": "/does/not/exist.pem" } });
    let metrics = crate::extender::ExtenderMetrics::default();
    let error =
        crate::extender::Extenders::new(&[config("https://x", fields)], &metrics).unwrap_err();
    let error = error.to_string();
    assert!(
        error.starts_with("extenders[0].tlsConfig: cannot use /does/not/exist.pem: "),
        "{error}"
    );
}
