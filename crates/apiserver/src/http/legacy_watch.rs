//! Legacy watch paths such as `/api/v1/watch/namespaces/default/pods`, rewritten to `?watch=true`.

use http::request::Parts;
use http::uri::PathAndQuery;
use http::{Method, Uri};

use crate::error::ApiError;
use crate::query::Query;

/// Splits a legacy path into its root and the segments after `watch`.
fn split(path: &str) -> Option<(String, Vec<&str>)> {
    let segments: Vec<&str> = path.split('/').filter(|s| !s.is_empty()).collect();
    let (root, rest) = match segments.as_slice() {
        ["api", version, "watch", rest @ ..] => (format!("/api/{version}"), rest),
        ["apis", group, version, "watch", rest @ ..] => (format!("/apis/{group}/{version}"), rest),
        _ => return None,
    };
    (!rest.is_empty()).then(|| (root, rest.to_vec()))
}

/// Reports whether a path is a legacy watch path.
pub(super) fn is_legacy(path: &str) -> bool {
    split(path).is_some()
}

/// Rewrites a request for a legacy path.
pub(super) fn rewrite(parts: &mut Parts) -> Result<(), ApiError> {
    if parts.method != Method::GET {
        return Ok(());
    }
    let Some((root, rest)) = split(parts.uri.path()) else {
        return Ok(());
    };
    let (path, name) = match rest.as_slice() {
        ["namespaces", name] => ("namespaces".to_owned(), Some(*name)),
        ["namespaces", namespace, kind, named @ ..] if named.len() < 2 => (
            format!("namespaces/{namespace}/{kind}"),
            named.first().copied(),
        ),
        [kind, named @ ..] if named.len() < 2 && *kind != "namespaces" => {
            ((*kind).to_owned(), named.first().copied())
        }
        ["namespaces"] => ("namespaces".to_owned(), None),
        _ => return Ok(()),
    };
    let parameters = Query::parse(&parts.uri);
    // The server reads the first value of a repeated parameter.
    let mut query = "watch=true".to_owned();
    if let Some(name) = name {
        let required = format!("metadata.name={name}");
        let conflicts = parameters
            .get("fieldSelector")
            .and_then(|selector| {
                selector
                    .split(',')
                    .find(|s| s.starts_with("metadata.name="))
            })
            .is_some_and(|selector| selector != required);
        if conflicts {
            let message = "fieldSelector metadata.name doesn't match requested name";
            return Err(ApiError::bad_request(message));
        }
        query.push_str("&fieldSelector=metadata.name%3D");
        query.push_str(name);
        if let Some(more) = parameters.get("fieldSelector") {
            query.push_str("%2C");
            encode(more, &mut query);
        }
    }
    if let Some(original) = parts.uri.query() {
        query.push('&');
        query.push_str(original);
    }
    let target = format!("{root}/{path}?{query}");
    let mut uri = std::mem::take(&mut parts.uri).into_parts();
    uri.path_and_query = PathAndQuery::try_from(target).ok();
    parts.uri = Uri::from_parts(uri).unwrap_or_default();
    Ok(())
}

/// Adds percent-encoded text to a query.
fn encode(text: &str, query: &mut String) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() {
            query.push(char::from(byte));
        } else {
            query.push('%');
            let digits = [byte >> 4, byte & 15];
            query.extend(
                digits
                    .iter()
                    .filter_map(|d| char::from_digit(u32::from(*d), 16)),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(uri: &str) -> String {
        let (mut parts, ()) = http::Request::get(uri).body(()).unwrap().into_parts();
        rewrite(&mut parts).unwrap();
        parts.uri.to_string()
    }

    #[test]
    fn legacy_paths_are_rewritten() {
        for (old, new) in [
            ("/api/v1/watch/pods", "/api/v1/pods?watch=true"),
            (
                "/api/v1/watch/namespaces/n/pods?a=b",
                "/api/v1/namespaces/n/pods?watch=true&a=b",
            ),
            (
                "/apis/apps/v1/watch/namespaces/n/deployments/d",
                "/apis/apps/v1/namespaces/n/deployments?watch=true&fieldSelector=metadata.name%3Dd",
            ),
            (
                "/api/v1/watch/namespaces/n",
                "/api/v1/namespaces?watch=true&fieldSelector=metadata.name%3Dn",
            ),
            (
                "/api/v1/watch/nodes/n?fieldSelector=a%3Db",
                "/api/v1/nodes?watch=true&fieldSelector=metadata.name%3Dn%2Ca%3db&fieldSelector=a%3Db",
            ),
            ("/api/v1/pods", "/api/v1/pods"),
            ("/api/v1/watch", "/api/v1/watch"),
        ] {
            assert_eq!(rewritten(old), new);
        }
    }
}
