//! Validation of certificate signing requests and of their status.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use x509_parser::asn1_rs::{FromDer as _, Sequence};
use x509_parser::pem::Pem;

use super::checks::domain_path;
use super::field::Field;
use super::rules::Check::{Between, By, OneOf, Required, Unique};
use super::rules::{Rule, apply};
use crate::resource::Subresource;

const USAGES: &[&str] = &[
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];
/// Conditions that decide a request, and conditions that cannot be removed.
const DECISIONS: [&str; 2] = ["Approved", "Denied"];
const LASTING: [&str; 3] = ["Approved", "Denied", "Failed"];

/// The rules of new requests.
pub(super) const REQUEST: &[Rule] = &[
    ("spec.request", By(request)),
    ("spec.usages", Required),
    ("spec.usages[]", OneOf(USAGES)),
    ("spec.signerName", Required),
    ("spec.signerName", By(signer)),
    ("spec.expirationSeconds", Between(600, i64::MAX)),
];

/// Checks the PEM block of a request. The signer verifies the signature.
fn request(request: &Field<'_>) {
    let bytes = STANDARD.decode(request.text()).unwrap_or_default();
    let block = Pem::iter_from_buffer(&bytes).find_map(Result::ok);
    let block = block.filter(|block| block.label == "CERTIFICATE REQUEST");
    let is_sequence = |der: &[u8]| Sequence::from_der(der).is_ok_and(|(rest, _)| rest.is_empty());
    if !block.is_some_and(|block| is_sequence(&block.contents)) {
        request.invalid("must be a PEM block of type CERTIFICATE REQUEST");
    }
}

fn signer(signer: &Field<'_>) {
    if signer.text() == "kubernetes.io/legacy-unknown" {
        signer.invalid("is not allowed");
    } else if !signer.is_empty() {
        domain_path(signer);
    }
}

/// Checks a change of the status.
pub(super) fn status(request: &Field<'_>, subresource: Subresource) {
    const CONDITION: &[Rule] = &[("type", Required), ("", By(condition_status))];
    let conditions = request.get("status.conditions");
    for condition in conditions.each() {
        apply(CONDITION, &condition);
    }
    Unique("type").apply(&conditions);
    let types = |conditions: &Field<'_>| -> Vec<String> {
        let types = conditions.each();
        types.map(|c| c.text_of("type").to_owned()).collect()
    };
    let now = types(&conditions);
    let before = conditions.old.map(|old| conditions.with(old));
    let before = before.as_ref().map(types).unwrap_or_default();
    let is = |list: &[String], kind: &str| list.iter().any(|known| known == kind);
    if DECISIONS.iter().all(|kind| is(&now, kind)) {
        conditions.invalid("Approved and Denied are mutually exclusive");
    }
    for kind in LASTING {
        let (had, has) = (is(&before, kind), is(&now, kind));
        let decides = DECISIONS.contains(&kind) && subresource != Subresource::Approval;
        if had && !has || decides && has && !had {
            conditions.forbidden(&format!("updates may not add or remove {kind} here"));
        }
    }
    let certificate = request.get("status.certificate");
    let pem = STANDARD.decode(certificate.text()).unwrap_or_default();
    let has_block = String::from_utf8_lossy(&pem).contains("-----BEGIN CERTIFICATE-----");
    if subresource == Subresource::Status && !certificate.is_empty() && !has_block {
        certificate.invalid("must contain at least one CERTIFICATE PEM block");
    }
}

fn condition_status(condition: &Field<'_>) {
    let allowed: &[&str] = if LASTING.contains(&condition.text_of("type")) {
        &["True"]
    } else {
        &["False", "True", "Unknown"]
    };
    let status = condition.get("status");
    if status.is_empty() {
        status.required("");
    } else if !allowed.contains(&status.text()) {
        status.not_supported(allowed);
    }
}
