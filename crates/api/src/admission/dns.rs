//! The syntax of DNS names.

/// Maximum length of a DNS label.
const MAX_LABEL: usize = 63;
/// Maximum length of a DNS subdomain.
const MAX_SUBDOMAIN: usize = 253;

/// Reports whether a text is an RFC 1123 label in lower case.
pub(super) fn is_dns_label(text: &str) -> bool {
    let allowed = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.len() <= MAX_LABEL
        && bytes.first().is_some_and(allowed)
        && bytes.last().is_some_and(allowed)
        && bytes.iter().all(|b| allowed(b) || *b == b'-')
}

/// Reports whether a text is an RFC 1035 label in lower case.
pub(super) fn is_dns_1035_label(text: &str) -> bool {
    is_dns_label(text) && text.as_bytes().first().is_some_and(u8::is_ascii_lowercase)
}

/// Reports whether a text is an RFC 1123 subdomain. As in Kubernetes, the length of each label is unlimited.
pub(super) fn is_dns_subdomain(text: &str) -> bool {
    let allowed = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    text.len() <= MAX_SUBDOMAIN
        && text.split('.').all(|label| {
            let bytes = label.as_bytes();
            bytes.first().is_some_and(allowed)
                && bytes.last().is_some_and(allowed)
                && bytes.iter().all(|b| allowed(b) || *b == b'-')
        })
}
