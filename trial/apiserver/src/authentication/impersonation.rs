//! Impersonation with the `Impersonate-*` headers. The requestor needs the verb `impersonate` for the user, the uid,
//! each group and each extra value of the impersonated identity.

use std::collections::BTreeMap;

use http::HeaderMap;

use crate::authorization;
use crate::authorization::attributes::{Attributes, Target};
use crate::authorization::index::Index;
use crate::error::ApiError;
use crate::identity::{ANONYMOUS, AUTHENTICATED, Identity, UNAUTHENTICATED, as_service_account};
use crate::percent_encoding::decode;

const AUTHENTICATION: &str = "authentication.k8s.io";

/// Returns the identity that the `Impersonate-*` headers of a request name, if there are any.
fn requested(headers: &HeaderMap) -> Result<Option<Identity>, ApiError> {
    let header = |name: &str| {
        headers
            .get(name)
            .and_then(|v| v.to_str().ok())
            .unwrap_or_default()
            .to_owned()
    };
    let groups: Vec<String> = headers
        .get_all("impersonate-group")
        .iter()
        .filter_map(|v| v.to_str().ok())
        .map(str::to_owned)
        .collect();
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in headers {
        if let (Some(key), Ok(value)) = (
            name.as_str().strip_prefix("impersonate-extra-"),
            value.to_str(),
        ) {
            let values = extra.entry(decode(key).into_owned()).or_default();
            values.push(value.to_owned());
        }
    }
    let (user, uid) = (header("impersonate-user"), header("impersonate-uid"));
    if user.is_empty() {
        if groups.is_empty() && uid.is_empty() && extra.is_empty() {
            return Ok(None);
        }
        return Err(ApiError::bad_request(
            "a group, uid or extra to impersonate was requested without impersonating a user name",
        ));
    }
    Ok(Some(Identity {
        user,
        uid,
        groups,
        extra,
    }))
}

/// Returns the identity under which the server handles a request: the impersonated identity, or the requestor.
pub(crate) fn apply(
    index: &Index,
    requestor: Identity,
    headers: &HeaderMap,
) -> Result<Identity, ApiError> {
    // A fast path, because most requests have no `Impersonate-*` headers.
    let mut names = headers.keys().map(http::HeaderName::as_str);
    if !names.any(|name| name.starts_with("impersonate-")) {
        return Ok(requestor);
    }
    let Some(mut other) = requested(headers)? else {
        return Ok(requestor);
    };
    let check = |group: &str, resource: &str, subresource: &str, namespace: &str, name: &str| {
        let mut attributes = Attributes::on("impersonate", group, resource, namespace, name);
        if let Target::Resource(target) = &mut attributes.target {
            target.subresource = subresource;
        }
        authorization::check(index, &requestor, &attributes)
    };
    for group in &other.groups {
        check("", "groups", "", "", group)?;
    }
    if let Some((namespace, name)) = as_service_account(&other.user) {
        check("", "serviceaccounts", "", namespace, name)?;
        if other.groups.is_empty() {
            other.groups = Identity::service_account(namespace, name).groups;
        }
    } else {
        check("", "users", "", "", &other.user)?;
    }
    if !other.uid.is_empty() {
        check(AUTHENTICATION, "uids", "", "", &other.uid)?;
    }
    for (key, values) in &other.extra {
        for value in values {
            check(AUTHENTICATION, "userextras", key, "", value)?;
        }
    }
    let own = if other.user == ANONYMOUS {
        UNAUTHENTICATED
    } else {
        AUTHENTICATED
    };
    if !other
        .groups
        .iter()
        .any(|group| group == own || group == UNAUTHENTICATED)
    {
        other.groups.push(own.to_owned());
    }
    Ok(other)
}
