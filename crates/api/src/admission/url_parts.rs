//! A parser for the parts of URLs that the admission rules check.

/// The parts of a URL that the admission rules check.
pub(super) struct UrlParts {
    pub(super) scheme: String,
    pub(super) host: String,
    pub(super) user_info: bool,
    pub(super) query: bool,
    pub(super) fragment: bool,
}

impl UrlParts {
    /// Parses a URL. Returns `None` if the URL has neither `://` nor a leading `//`, or if it contains a space or a
    /// control character.
    pub(super) fn parse(text: &str) -> Option<Self> {
        if text.chars().any(|c| c.is_ascii_control() || c == ' ') {
            return None;
        }
        let (text, fragment) = match text.split_once('#') {
            Some((text, fragment)) => (text, !fragment.is_empty()),
            None => (text, false),
        };
        let (text, query) = match text.split_once('?') {
            Some((text, query)) => (text, !query.is_empty()),
            None => (text, false),
        };
        let (scheme, rest) = match text.split_once("://") {
            Some((scheme, rest)) => (scheme.to_lowercase(), rest),
            None => (String::new(), text.strip_prefix("//")?),
        };
        let authority = rest.split('/').next().unwrap_or_default();
        let (user_info, host) = match authority.rsplit_once('@') {
            Some((_, host)) => (true, host),
            None => (false, authority),
        };
        Some(Self {
            scheme,
            host: host.to_owned(),
            user_info,
            query,
            fragment,
        })
    }
}
