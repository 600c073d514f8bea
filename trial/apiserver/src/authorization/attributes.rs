//! The verb and target of a request, which follow from its method and decoded path. The resource in the path need not
//! exist.

use std::borrow::Cow;

use http::Method;

/// The resource or object that a request names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ResourceTarget<'a> {
    pub(crate) group: &'a str,
    pub(crate) version: &'a str,
    pub(crate) resource: &'a str,
    pub(crate) subresource: &'a str,
    /// Namespace, empty for cluster-scoped requests.
    pub(crate) namespace: &'a str,
    /// Name of the object, empty for all objects.
    pub(crate) name: Cow<'a, str>,
}

/// The target of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target<'a> {
    Resource(ResourceTarget<'a>),
    /// A non-resource path, for example `/healthz`.
    Path(&'a str),
}

/// The verb and target of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attributes<'a> {
    pub(crate) verb: &'a str,
    pub(crate) target: Target<'a>,
}

/// The query parameters of a request that affect its attributes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Hints<'a> {
    pub(crate) watch: bool,
    /// The name in `fieldSelector=metadata.name=…`.
    pub(crate) name: Option<&'a str>,
}

impl<'a> Attributes<'a> {
    /// Returns the attributes of an HTTP request.
    pub(crate) fn of(method: &'a Method, path: &'a str, hints: Hints<'a>) -> Self {
        let mut segments = path.split('/').filter(|s| !s.is_empty());
        let group = match segments.next() {
            Some("api") => Some(""),
            Some("apis") => segments.next(),
            _ => None,
        };
        let (Some(group), Some(version), Some(first)) = (group, segments.next(), segments.next())
        else {
            return Self {
                verb: path_verb(method),
                target: Target::Path(path),
            };
        };
        let (mut namespace, mut resource) = ("", first);
        let (mut name, mut subresource) = (segments.next(), segments.next());
        if first == "namespaces" {
            namespace = name.unwrap_or_default();
            // The namespace object has only the subresources `status` and `finalize`. Any other segment after the name
            // is a resource in the namespace.
            if let Some(inner) = subresource
                && !matches!(inner, "status" | "finalize")
            {
                (resource, name, subresource) = (inner, segments.next(), segments.next());
            }
        }
        let verb = match (method, name) {
            (&Method::GET | &Method::HEAD, None) if hints.watch => "watch",
            (&Method::GET | &Method::HEAD, None) => "list",
            (&Method::DELETE, None) => "deletecollection",
            _ => resource_verb(method),
        };
        let name = match name {
            Some(name) => Cow::Borrowed(name),
            None if matches!(verb, "list" | "watch" | "deletecollection") => {
                Cow::Borrowed(hints.name.unwrap_or_default())
            }
            None => Cow::Borrowed(""),
        };
        Self {
            verb,
            target: Target::Resource(ResourceTarget {
                group,
                version,
                resource,
                subresource: subresource.unwrap_or_default(),
                namespace,
                name,
            }),
        }
    }

    /// Returns the attributes for a verb on an object.
    pub(crate) fn on(
        verb: &'a str,
        group: &'a str,
        resource: &'a str,
        namespace: &'a str,
        name: &'a str,
    ) -> Self {
        Self {
            verb,
            target: Target::Resource(ResourceTarget {
                group,
                version: "",
                resource,
                subresource: "",
                namespace,
                name: Cow::Borrowed(name),
            }),
        }
    }
}

fn resource_verb(method: &Method) -> &str {
    match *method {
        Method::GET | Method::HEAD => "get",
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => "",
    }
}

/// Returns the verb for a request to a non-resource path: the method in lower case.
fn path_verb(method: &Method) -> &str {
    match *method {
        Method::GET => "get",
        Method::HEAD => "head",
        Method::POST => "post",
        Method::PUT => "put",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        Method::OPTIONS => "options",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(method: &Method, path: &str, watch: bool) -> String {
        let attributes = Attributes::of(method, path, Hints { watch, name: None });
        match attributes.target {
            Target::Path(path) => format!("{} {path}", attributes.verb),
            Target::Resource(r) => format!(
                "{} {}/{}/{} ns={} name={}",
                attributes.verb, r.group, r.resource, r.subresource, r.namespace, r.name
            ),
        }
    }

    #[test]
    fn attributes_follow_method_and_path() {
        let get = Method::GET;
        let cases = [
            (&get, "/api/v1/pods", false, "list /pods/ ns= name="),
            (
                &get,
                "/api/v1/namespaces/a/pods",
                true,
                "watch /pods/ ns=a name=",
            ),
            (
                &get,
                "/api/v1/namespaces/a/pods/p/log",
                false,
                "get /pods/log ns=a name=p",
            ),
            (
                &get,
                "/api/v1/namespaces/a",
                false,
                "get /namespaces/ ns=a name=a",
            ),
            (
                &Method::PUT,
                "/api/v1/namespaces/a/finalize",
                false,
                "update /namespaces/finalize ns=a name=a",
            ),
            (
                &Method::DELETE,
                "/apis/apps/v1/namespaces/a/deployments",
                false,
                "deletecollection apps/deployments/ ns=a name=",
            ),
            (
                &get,
                "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:node",
                false,
                "get rbac.authorization.k8s.io/clusterroles/ ns= name=system:node",
            ),
            (&get, "/apis/apps/v1", false, "get /apis/apps/v1"),
            (&Method::POST, "/healthz", false, "post /healthz"),
        ];
        for (method, path, watch, expected) in cases {
            assert_eq!(shown(method, path, watch), expected, "{path}");
        }
    }
}
