//! Whether what was sent is of the kind that the path is about, in the words of a real server.

use serde_json::{Value, json};

use super::decoding::Sent;
use crate::error::{ApiError, Cause};
use crate::go_text::type_name;
use crate::http::body;
use crate::registry::Resource;
use crate::verbs::{Call, text};

/// Where a server keeps the types of built-in kinds, and those of definitions; its messages name them.
const SCHEME: &str = "k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30";
const SCHEME_OF_DEFINITIONS: &str = "k8s.io/apiextensions-apiserver/pkg/apiserver/apiserver.go:55";
/// The type that a server reads the kind of an object into.
const TYPE_META: &str = r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;
const DEFINITIONS: &str = "apiextensions.k8s.io";

/// Refuses what says that it is something else.
pub(super) fn check(call: &Call, value: &mut Value, sent: &Sent<'_>) -> Result<(), ApiError> {
    let resource = &*call.resource;
    if value.is_null() {
        *value = json!({});
    }
    let value = &*value;
    if let Some(place) = unreadable(value) {
        let why =
            format!("couldn't get version/kind; json parse error: json: cannot unmarshal {place}");
        return Err(unrecognized(resource, sent, &why));
    }
    let (version, kind) = (text(value, &["apiVersion"]), text(value, &["kind"]));
    if version.matches('/').count() > 1 {
        let why = format!("unexpected GroupVersion string: {version}");
        return Err(unrecognized(resource, sent, &why));
    }
    if resource.is_custom() {
        return custom(resource, value, sent);
    }
    let expected = resource.api_version();
    let version = if version.is_empty() {
        &expected
    } else {
        version
    };
    let kind = if kind.is_empty() {
        &resource.kind
    } else {
        kind
    };
    if version == expected && kind == resource.kind {
        return Ok(());
    }
    let (group, short) = version.rsplit_once('/').unwrap_or(("", version));
    if kind == resource.kind && is_known(call, group, short, kind) && is_same(resource, group) {
        return Err(other_version(version, &expected));
    }
    let why = if is_known(call, group, short, kind) {
        let (own, named) = (internal(&resource.group), &resource.kind);
        format!("converting ({short}.{kind}) to ({own}.{named}): unknown conversion")
    } else {
        let scheme = if resource.group == DEFINITIONS {
            SCHEME_OF_DEFINITIONS
        } else {
            SCHEME
        };
        format!("no kind \"{kind}\" is registered for version \"{version}\" in scheme \"{scheme}\"")
    };
    Err(ApiError::bad_request(match sent {
        Sent::Body(_) => format!(
            "{kind} in version \"{short}\" cannot be handled as a {}: {why}",
            resource.kind
        ),
        Sent::Patched => why,
    }))
}

/// What is of another type than what says the kind of an object, and where.
pub(in crate::verbs) fn unreadable(value: &Value) -> Option<String> {
    if !value.is_object() {
        let found = type_name(value);
        return Some(format!("{found} into Go value of type {TYPE_META}"));
    }
    let fields = ["apiVersion", "kind"];
    let field = fields
        .into_iter()
        .find(|field| !value[*field].is_null() && !value[*field].is_string())?;
    let found = type_name(&value[field]);
    Some(format!(
        "{found} into Go struct field .{field} of type string"
    ))
}

/// Objects of definitions always say what they are.
fn custom(resource: &Resource, value: &Value, sent: &Sent<'_>) -> Result<(), ApiError> {
    let (version, kind) = (text(value, &["apiVersion"]), text(value, &["kind"]));
    let expected = resource.api_version();
    if kind.is_empty() {
        let shown = match sent {
            Sent::Body(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Sent::Patched => value.to_string(),
        };
        let why = format!("Object 'Kind' is missing in '{shown}'");
        return Err(unrecognized(resource, sent, &why));
    }
    let invalid = |field: &str, found: &str, wanted: &str| {
        let cause = Cause::invalid(field, &json!(found), &format!("must be {wanted}"));
        let name = text(value, &["metadata", "name"]);
        Err(ApiError::invalid(&resource.group, kind, name, vec![cause]))
    };
    match sent {
        _ if version == expected && kind == resource.kind => Ok(()),
        Sent::Body(_) if version != expected => Err(other_version(version, &expected)),
        Sent::Patched if version != expected => invalid("apiVersion", version, &expected),
        _ => invalid("kind", kind, &resource.kind),
    }
}

fn unrecognized(resource: &Resource, sent: &Sent<'_>, why: &str) -> ApiError {
    ApiError::bad_request(match sent {
        Sent::Body(bytes) => body::unrecognized(&resource.kind, why, bytes),
        Sent::Patched => why.to_owned(),
    })
}

fn other_version(found: &str, expected: &str) -> ApiError {
    ApiError::bad_request(format!(
        "the API version in the data ({found}) does not match the expected API version ({expected})"
    ))
}

/// Whether the scheme has this kind: definitions have one of their own, and what they define is in neither.
fn is_known(call: &Call, group: &str, version: &str, kind: &str) -> bool {
    let snapshot = call.shared.registry.snapshot();
    let of_definitions = call.resource.group == DEFINITIONS;
    (group == DEFINITIONS) == of_definitions
        && snapshot
            .group_version(group, version)
            .is_some_and(|all| all.values().any(|r| r.kind == kind && !r.is_custom()))
}

/// Whether kinds of the same name are the same in this group: events are those of core.
fn is_same(resource: &Resource, group: &str) -> bool {
    internal(group) == internal(&resource.group)
}

/// The package of the types that a server works with.
fn internal(group: &str) -> &str {
    match group {
        "" | "events.k8s.io" => "core",
        other => other.split('.').next().unwrap_or(other),
    }
}
