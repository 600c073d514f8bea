//! Validation of certificate signing requests and of their status.

use base64::Engine;
use serde_json::{Value, json};

use super::field::Field;
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
/// Minimum validity in seconds.
const SHORTEST: i64 = 600;
const LONGEST_SIGNER: usize = 571;

pub(super) fn request(value: &Value, causes: &mut Vec<Cause>) {
    let spec = Field::new(&value["spec"], "spec");
    let request = spec.field("request");
    let bytes = base64::engine::general_purpose::STANDARD.decode(request.text());
    if let Some(detail) = problem(&bytes.unwrap_or_default()) {
        causes.push(Cause::invalid(request.path.clone(), request.value, detail));
    }
    if spec.field("usages").count() == 0 {
        spec.field("usages").required("", causes);
    }
    let mut known: Vec<&str> = Vec::new();
    for usage in spec.items("usages") {
        if !USAGES.contains(&usage.text()) {
            let all: Vec<String> = USAGES.iter().map(|&usage| usage.to_owned()).collect();
            causes.push(Cause::not_supported(usage.path.clone(), usage.value, &all));
        } else if known.contains(&usage.text()) {
            usage.duplicate(causes);
        }
        known.push(usage.text());
    }
    let signer = spec.field("signerName");
    if signer.text() == "kubernetes.io/legacy-unknown" {
        let detail = "the legacy signerName is not allowed via this API version";
        signer.invalid(detail, causes);
    } else {
        self::signer(&signer, causes);
    }
    let seconds = spec.field("expirationSeconds");
    if seconds.number().is_some_and(|seconds| seconds < SHORTEST) {
        let detail = "may not specify a duration less than 600 seconds (10 minutes)";
        seconds.invalid(detail, causes);
    }
}

/// Checks a signer name: a domain, a slash, and a name.
fn signer(signer: &Field<'_>, causes: &mut Vec<Cause>) {
    if signer.text().is_empty() {
        signer.required("", causes);
        return;
    }
    let Some((domain, name)) = signer
        .text()
        .split_once('/')
        .filter(|(_, name)| !name.contains('/'))
    else {
        let message =
            "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        signer.invalid(message, causes);
        return;
    };
    let mut at = |text: &str, detail: &str| {
        causes.push(Cause::invalid(signer.path.clone(), &json!(text), detail));
    };
    let labels: Vec<&str> = domain.split('.').collect();
    if labels.len() < 2 {
        at(
            domain,
            "should be a domain with at least two segments separated by dots",
        );
    }
    for label in labels {
        if let Some(problem) = names::dns_label(label) {
            at(domain, &format!("validating label \"{label}\": {problem}"));
        }
    }
    for label in name.split('.') {
        if let Some(problem) = names::subdomain(label) {
            at(name, &format!("validating label \"{label}\": {problem}"));
        }
    }
    if signer.text().len() > LONGEST_SIGNER {
        causes.push(Cause::too_long(signer.path.clone(), LONGEST_SIGNER as u64));
    }
}

/// Checks the PEM block of a request. The signer verifies the signature.
fn problem(text: &[u8]) -> Option<&'static str> {
    const BEGIN: &str = "-----BEGIN CERTIFICATE REQUEST-----";
    const END: &str = "-----END CERTIFICATE REQUEST-----";
    const NO_BLOCK: Option<&str> = Some("PEM block type must be CERTIFICATE REQUEST");
    let Some(inner) = std::str::from_utf8(text)
        .ok()
        .and_then(|text| text.split_once(BEGIN)?.1.split_once(END))
        .map(|(inner, _)| inner)
    else {
        return NO_BLOCK;
    };
    let lines: String = inner.split_whitespace().collect();
    let Ok(der) = base64::engine::general_purpose::STANDARD.decode(lines) else {
        return NO_BLOCK;
    };
    if is_sequence(&der) {
        None
    } else {
        Some("asn1: syntax error: truncated tag or length")
    }
}

/// Reports whether bytes are exactly one ASN.1 sequence.
fn is_sequence(der: &[u8]) -> bool {
    const SEQUENCE: u8 = 0x30;
    let [SEQUENCE, length, rest @ ..] = der else {
        return false;
    };
    let long = usize::from(length & 0x7f);
    match length & 0x80 {
        0 => rest.len() == long,
        _ if rest.len() < long || long > 4 => false,
        _ => {
            let (length, rest) = rest.split_at(long);
            let length = length
                .iter()
                .fold(0, |all, byte| all << 8 | usize::from(*byte));
            rest.len() == length
        }
    }
}

/// Checks a change of the status.
pub(super) fn status(
    value: &Value,
    old: &Value,
    subresource: Subresource,
    causes: &mut Vec<Cause>,
) {
    let status = Field::new(&value["status"], "status");
    let conditions = status.field("conditions");
    let mut types: Vec<&str> = Vec::new();
    for condition in status.items("conditions") {
        let (kind, status) = (condition.field("type"), condition.field("status"));
        if kind.text().is_empty() {
            kind.required("", causes);
        }
        let known: &[&str] = match kind.text() {
            "Approved" | "Denied" | "Failed" => &["True"],
            _ => &["False", "True", "Unknown"],
        };
        if status.text().is_empty() {
            status.required("", causes);
        } else {
            status.one_of(known, causes);
        }
        let excluded = DECISIONS.iter().any(|other| {
            DECISIONS.contains(&kind.text()) && *other != kind.text() && types.contains(other)
        });
        if excluded {
            let detail = "Approved and Denied conditions are mutually exclusive";
            let path = conditions.path.clone();
            causes.push(Cause::invalid(path, kind.value, detail));
        } else if types.contains(&kind.text()) {
            kind.duplicate(causes);
        }
        types.push(kind.text());
    }
    let before = old["status"]["conditions"].as_array();
    let had = |kind: &str| before.into_iter().flatten().any(|c| c["type"] == kind);
    for kind in LASTING {
        if had(kind) && !types.contains(&kind) {
            let detail = format!("updates may not remove a condition of type \"{kind}\"");
            conditions.forbidden(&detail, causes);
        }
        let decided = DECISIONS.contains(&kind) && subresource != Subresource::Approval;
        if decided && !had(kind) && types.contains(&kind) {
            let detail = format!("updates may not add a condition of type \"{kind}\"");
            conditions.forbidden(&detail, causes);
        }
    }
    let certificate = value["status"]["certificate"].as_str().unwrap_or_default();
    let pem = base64::engine::general_purpose::STANDARD.decode(certificate);
    let has_block =
        |pem: &[u8]| String::from_utf8_lossy(pem).contains("-----BEGIN CERTIFICATE-----");
    if subresource == Subresource::Status
        && !certificate.is_empty()
        && !pem.is_ok_and(|pem| has_block(&pem))
    {
        let detail = "must contain at least one CERTIFICATE PEM block";
        causes.push(Cause::invalid(
            "status.certificate",
            &json!("<certificate data>"),
            detail,
        ));
    }
}
