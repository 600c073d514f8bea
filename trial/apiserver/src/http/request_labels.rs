//! The metric labels of a request. Labels name only served paths, so that a client cannot create new label values.

use http::request::Parts;
use http::{Method, header};

use super::route::Route;
use crate::authorization::attributes::{Attributes, Target};
use crate::metrics::RequestLabels;
use crate::query::Query;
use crate::resource::Subresource;

/// The first segments of non-resource paths, which may be label values.
const PATHS: [&str; 8] = [
    "api", "apis", "healthz", "livez", "metrics", "openapi", "readyz", "version",
];

/// Returns the label value of a method before the request is routed. Unknown methods have one common value.
pub(super) fn verb_of(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}

/// Sets the metric labels of a routed request.
pub(super) fn set(
    labels: &mut RequestLabels,
    route: &Route<'_>,
    attributes: &Attributes<'_>,
    parts: &Parts,
    query: &Query,
) {
    let (target, named) = match (route, &attributes.target) {
        (Route::Target(target), Target::Resource(named)) => (target, named),
        (Route::NonResource(path, _), _) => {
            if let Some(known) = path.first().filter(|p| PATHS.contains(p)) {
                labels.subresource = format!("/{known}");
            }
            return;
        }
        _ => return,
    };
    let applies = parts
        .headers
        .get(header::CONTENT_TYPE)
        .is_some_and(|t| t.as_bytes().starts_with(b"application/apply-patch"));
    labels.verb = match attributes.verb {
        "create" => "POST".to_owned(),
        "update" => "PUT".to_owned(),
        "patch" if applies => "APPLY".to_owned(),
        other => other.to_ascii_uppercase(),
    };
    labels.group.clone_from(&target.resource.group);
    labels.version.clone_from(&target.resource.version);
    labels.resource.clone_from(&target.resource.plural);
    let part = target
        .subresource
        .as_deref()
        .and_then(|s| Subresource::parse(s, &target.resource));
    labels.subresource = part.map_or_else(String::new, |s| s.name().to_owned());
    let scope = match (&*named.name, named.namespace) {
        ("", "") => "cluster",
        ("", _) => "namespace",
        _ => "resource",
    };
    scope.clone_into(&mut labels.scope);
    if query.get("dryRun") == Some("All") {
        "All".clone_into(&mut labels.dry_run);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_cannot_create_verbs() {
        assert_eq!(verb_of(&Method::PATCH), "PATCH");
        for invented in ["ANYTHING", "get", "TRACE"] {
            let method = Method::from_bytes(invented.as_bytes()).unwrap();
            assert_eq!(verb_of(&method), "other", "{invented}");
        }
    }
}
