//! Validation of certificate signing requests and of their status.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use x509_parser::asn1_rs::{FromDer as _, Sequence};
use x509_parser::pem::Pem;

use super::field::Field;
use super::rules::Check::{Between, By, Required, RequiredOneOf};
use super::rules::{Rule, apply};
use crate::error::Cause;
use crate::names;
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
    ("spec.usages", By(usages)),
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

fn usages(usages: &Field<'_>) {
    let mut known = Vec::new();
    for usage in usages.each() {
        if !USAGES.contains(&usage.text()) {
            usage.not_supported(USAGES);
        } else if known.contains(&usage.text()) {
            usage.duplicate();
        }
        known.push(usage.text());
    }
}

/// Checks a signer name: a domain, a slash, and a name.
fn signer(signer: &Field<'_>) {
    const LONGEST: usize = 571;
    let parts: Vec<&str> = signer.text().split('/').collect();
    match parts.as_slice() {
        _ if signer.is_empty() => {}
        ["kubernetes.io", "legacy-unknown"] => signer.invalid("is not allowed"),
        [domain, name] => {
            let valid = domain.contains('.')
                && domain
                    .split('.')
                    .all(|label| names::dns_label(label).is_none())
                && name
                    .split('.')
                    .all(|label| names::subdomain(label).is_none());
            if !valid {
                signer.invalid("must consist of a domain and a name of valid labels");
            }
            if signer.text().len() > LONGEST {
                signer.report(Cause::too_long(signer.path.as_str(), LONGEST as u64));
            }
        }
        _ => signer.invalid("must be of the form 'example.com/signer-name'"),
    }
}

/// Checks a change of the status.
pub(super) fn status(request: &Field<'_>, subresource: Subresource) {
    const CONDITION: &[Rule] = &[("type", Required), ("", By(condition_status))];
    let conditions = request.get("status.conditions");
    let mut types: Vec<&str> = Vec::new();
    for condition in conditions.each() {
        apply(CONDITION, &condition);
        let kind = condition.get("type");
        let decides = |kind: &str| DECISIONS.contains(&kind);
        let mut others = types.iter().filter(|other| **other != kind.text());
        if decides(kind.text()) && others.any(|other| decides(other)) {
            conditions.invalid("Approved and Denied are mutually exclusive");
        } else if types.contains(&kind.text()) {
            kind.duplicate();
        }
        types.push(kind.text());
    }
    let before = conditions.old.map(|old| conditions.with(old));
    let before = before.iter().flat_map(Field::each);
    let before: Vec<&str> = before.map(|condition| condition.text_of("type")).collect();
    for kind in LASTING {
        let (had, has) = (before.contains(&kind), types.contains(&kind));
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
    let status = condition.get("status");
    if LASTING.contains(&condition.text_of("type")) {
        RequiredOneOf(&["True"]).apply(&status);
    } else {
        RequiredOneOf(&["False", "True", "Unknown"]).apply(&status);
    }
}
