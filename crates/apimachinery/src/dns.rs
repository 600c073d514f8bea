//! Checks of DNS labels and subdomains, which return only true or false.

/// Maximum length of a DNS label.
const MAX_LABEL: usize = 63;
/// Maximum length of a DNS subdomain.
const MAX_SUBDOMAIN: usize = 253;

/// Reports whether a text is an RFC 1123 label in lower case.
pub fn is_dns_label(text: &str) -> bool {
    text.len() <= MAX_LABEL && is_label_of_any_length(text)
}

/// Reports whether a text is an RFC 1035 label in lower case.
pub fn is_dns_1035_label(text: &str) -> bool {
    is_dns_label(text) && text.as_bytes().first().is_some_and(u8::is_ascii_lowercase)
}

/// Reports whether a text is an RFC 1123 subdomain in lower case. As in Kubernetes, the length of each label is
/// unlimited.
pub fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= MAX_SUBDOMAIN && text.split('.').all(is_label_of_any_length)
}

fn is_label_of_any_length(text: &str) -> bool {
    let alphanumeric = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.first().is_some_and(alphanumeric)
        && bytes.last().is_some_and(alphanumeric)
        && bytes.iter().all(|b| alphanumeric(b) || *b == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_lower_case_and_limited_in_length() {
        let (long, too_long) = ("a".repeat(63), "a".repeat(64));
        for (text, label, label_1035) in [
            ("a", true, true),
            ("a-1", true, true),
            ("1a", true, false),
            (long.as_str(), true, true),
            (too_long.as_str(), false, false),
            ("", false, false),
            ("-a", false, false),
            ("a-", false, false),
            ("a.b", false, false),
            ("A", false, false),
        ] {
            assert_eq!(is_dns_label(text), label, "{text:?}");
            assert_eq!(is_dns_1035_label(text), label_1035, "{text:?}");
        }
    }

    #[test]
    fn subdomains_are_labels_of_any_length() {
        let long_label = "a".repeat(253);
        let too_long = "a".repeat(254);
        for (text, valid) in [
            ("example.com", true),
            ("1.a-b", true),
            (long_label.as_str(), true),
            (too_long.as_str(), false),
            ("", false),
            ("a..b", false),
            ("a.", false),
            ("Example.com", false),
        ] {
            assert_eq!(is_dns_subdomain(text), valid, "{text:?}");
        }
    }
}
