//! What metrics say of a request. Only what is served is named, so that clients cannot make up new names.

use http::header;
use http::request::Parts;

use super::query::Query;
use super::route::Route;
use crate::authorization::attributes::{Attributes, Target};
use crate::metrics::About;
use crate::verbs::Subresource;

/// The paths besides resources.
const PATHS: [&str; 8] = [
    "api", "apis", "healthz", "livez", "metrics", "openapi", "readyz", "version",
];

/// Fills in what is known once the route is.
pub(super) fn request(
    about: &mut About,
    route: &Route<'_>,
    wanted: &Attributes<'_>,
    parts: &Parts,
    query: &Query,
) {
    let (target, named) = match (route, &wanted.target) {
        (Route::Target(target), Target::Resource(named)) => (target, named),
        (Route::Fixed(path, _), _) => {
            if let Some(known) = path.first().filter(|p| PATHS.contains(p)) {
                about.subresource = format!("/{known}");
            }
            return;
        }
        _ => return,
    };
    let applies = parts
        .headers
        .get(header::CONTENT_TYPE)
        .is_some_and(|t| t.as_bytes().starts_with(b"application/apply-patch"));
    about.verb = match wanted.verb {
        "create" => "POST".to_owned(),
        "update" => "PUT".to_owned(),
        "patch" if applies => "APPLY".to_owned(),
        other => other.to_ascii_uppercase(),
    };
    about.group.clone_from(&target.resource.group);
    about.version.clone_from(&target.resource.version);
    about.resource.clone_from(&target.resource.plural);
    let part = target
        .subresource
        .as_deref()
        .and_then(|s| Subresource::parse(s, &target.resource));
    about.subresource = part.map_or_else(String::new, |s| s.name().to_owned());
    let scope = match (&*named.name, named.namespace) {
        ("", "") => "cluster",
        ("", _) => "namespace",
        _ => "resource",
    };
    scope.clone_into(&mut about.scope);
    if query.get("dryRun") == Some("All") {
        "All".clone_into(&mut about.dry_run);
    }
}
