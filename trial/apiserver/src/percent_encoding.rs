//! Percent-encoding in paths, queries and headers. The server decodes each text once, before it interprets the text.

use std::borrow::Cow;

use http::Uri;

/// Returns the decoded path, or `None` if its encoding is malformed.
pub(crate) fn path(uri: &Uri) -> Option<Cow<'_, str>> {
    let path = uri.path();
    is_well_formed(path).then(|| decode(path))
}

/// Reports whether each `%` is followed by two hexadecimal digits.
pub(crate) fn is_well_formed(text: &str) -> bool {
    let mut parts = text.split('%');
    parts.next();
    parts.all(|part| {
        part.get(..2)
            .is_some_and(|hex| hex.bytes().all(|digit| digit.is_ascii_hexdigit()))
    })
}

/// Decodes percent-encoding. Malformed sequences stay unchanged.
pub(crate) fn decode(text: &str) -> Cow<'_, str> {
    ::percent_encoding::percent_decode_str(text).decode_utf8_lossy()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_decoded_unless_an_encoding_is_malformed() {
        let decoded = |text: &'static str| path(&Uri::from_static(text)).map(Cow::into_owned);
        assert_eq!(decoded("/a%2Fb/%64"), Some("/a/b/d".to_owned()));
        assert_eq!(decoded("/a"), Some("/a".to_owned()));
        for broken in ["/a%", "/a%2", "/%zz", "/%+1"] {
            assert_eq!(decoded(broken), None, "{broken}");
        }
        assert_eq!(decode("100%"), "100%");
    }
}
