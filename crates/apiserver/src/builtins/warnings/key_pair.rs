//! Warnings about TLS secrets whose certificate and key are invalid or do not match.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::PrivateKeyDer;
use serde_json::Value;
use x509_parser::asn1_rs::{FromDer as _, Sequence};
use x509_parser::certificate::X509Certificate;
use x509_parser::pem::Pem;
use x509_parser::x509::SubjectPublicKeyInfo;

/// Checks the data of a TLS secret. Keys of unknown types are accepted.
pub(super) fn problem(data: &Value) -> Option<String> {
    mismatch(&pem(&data["tls.crt"]), &pem(&data["tls.key"])).err()
}

/// Returns the decoded value of a secret.
fn pem(value: &Value) -> Vec<u8> {
    STANDARD
        .decode(value.as_str().unwrap_or_default())
        .unwrap_or_default()
}

fn mismatch(certificate: &[u8], key: &[u8]) -> Result<(), String> {
    let certificate = certificate_of(certificate)?;
    let key = key_of(key)?;
    let (_, certificate) = X509Certificate::from_der(&certificate.contents)
        .map_err(|_| "x509: malformed certificate".to_owned())?;
    if Sequence::from_der(&key.contents).is_err() {
        return Err("tls: failed to parse private key".to_owned());
    }
    let public = PrivateKeyDer::try_from(&*key.contents)
        .ok()
        .and_then(|key| any_supported_type(&key).ok())
        .and_then(|key| Some(key.public_key()?.into_owned()));
    let Some(public) = public else {
        return Ok(());
    };
    let Ok((_, public)) = SubjectPublicKeyInfo::from_der(&public) else {
        return Ok(());
    };
    let certified = certificate.public_key();
    if public.algorithm.algorithm != certified.algorithm.algorithm {
        return Err("tls: private key type does not match public key type".to_owned());
    }
    if public.subject_public_key.data != certified.subject_public_key.data {
        return Err("tls: private key does not match public key".to_owned());
    }
    Ok(())
}

/// Returns the first certificate of a PEM text.
fn certificate_of(text: &[u8]) -> Result<Pem, String> {
    first(text, |label| label == "CERTIFICATE").map_err(|others| match &*others {
        [] => "tls: failed to find any PEM data in certificate input".to_owned(),
        [one] if one.ends_with("PRIVATE KEY") => {
            "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may \
             have been switched"
                .to_owned()
        }
        _ => format!(
            "tls: failed to find \"CERTIFICATE\" PEM block in certificate input after skipping PEM blocks of the \
             following types: [{}]",
            others.join(" ")
        ),
    })
}

/// Returns the first private key of a PEM text.
fn key_of(text: &[u8]) -> Result<Pem, String> {
    let is_key = |label: &str| label == "PRIVATE KEY" || label.ends_with(" PRIVATE KEY");
    first(text, is_key).map_err(|others| match &*others {
        [] => "tls: failed to find any PEM data in key input".to_owned(),
        [one] if one == "CERTIFICATE" => {
            "tls: found a certificate rather than a key in the PEM for the private key".to_owned()
        }
        _ => format!(
            "tls: failed to find PEM block with type ending in \"PRIVATE KEY\" in key input after skipping PEM blocks \
             of the following types: [{}]",
            others.join(" ")
        ),
    })
}

/// Returns the first block with a wanted label, or the labels of all blocks.
fn first(text: &[u8], is_wanted: impl Fn(&str) -> bool) -> Result<Pem, Vec<String>> {
    let mut others = Vec::new();
    for block in Pem::iter_from_buffer(text).filter_map(Result::ok) {
        if is_wanted(&block.label) {
            return Ok(block);
        }
        others.push(block.label);
    }
    Err(others)
}
