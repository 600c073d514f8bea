//! Routing of decoded URL paths.

use std::sync::Arc;

use crate::registry::Snapshot;
use crate::resource::Resource;

/// The resource, object or subresource that a resource path names.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) resource: Arc<Resource>,
    pub(super) namespace: Option<String>,
    pub(super) name: Option<String>,
    pub(super) subresource: Option<String>,
}

#[derive(Debug)]
pub(super) enum Route<'a> {
    Target(Target),
    /// The segments of a non-resource path. The flag is true if the path ends with a slash.
    NonResource(Vec<&'a str>, bool),
}

/// Parses a path. Returns `None` if the server does not serve the path.
pub(super) fn parse<'a>(path: &'a str, snapshot: &Snapshot) -> Option<Route<'a>> {
    let inner = path.strip_prefix('/')?;
    let ended = inner.trim_end_matches('/');
    let segments: Vec<&str> = match ended {
        "" => Vec::new(),
        _ => ended.split('/').collect(),
    };
    let (group, version, rest) = match segments.as_slice() {
        ["api", version, rest @ ..] if !rest.is_empty() => ("", *version, rest),
        ["apis", group, version, rest @ ..]
            if !rest.is_empty() && !group.is_empty() && snapshot.groups.contains_key(*group) =>
        {
            (*group, *version, rest)
        }
        _ => return Some(Route::NonResource(segments, ended.len() < inner.len())),
    };
    if rest.iter().any(|segment| segment.is_empty()) {
        return None;
    }
    let resources = snapshot.group_version(group, version)?;
    let target =
        |resource: &str, namespace: Option<&str>, name: Option<&str>, subresource: Option<&str>| {
            Some(Route::Target(Target {
                resource: resources.get(resource)?.clone(),
                namespace: namespace.map(str::to_owned),
                name: name.map(str::to_owned),
                subresource: subresource.map(str::to_owned),
            }))
        };
    match rest {
        // `status` and `finalize` are subresources of a namespace. Any other segment after the name is a resource in
        // the namespace.
        ["namespaces", name, sub @ ("status" | "finalize")] if group.is_empty() => {
            target("namespaces", None, Some(name), Some(sub))
        }
        ["namespaces", namespace, resource] => target(resource, Some(namespace), None, None),
        ["namespaces", namespace, resource, name] => {
            target(resource, Some(namespace), Some(name), None)
        }
        ["namespaces", namespace, resource, name, sub] => {
            target(resource, Some(namespace), Some(name), Some(sub))
        }
        [resource] => target(resource, None, None, None),
        [resource, name] => target(resource, None, Some(name), None),
        [resource, name, sub] => target(resource, None, Some(name), Some(sub)),
        _ => None,
    }
}
