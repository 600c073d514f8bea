//! Acting as somebody else: the `Impersonate-*` headers, for those who may.

use std::collections::BTreeMap;

use http::HeaderMap;

use crate::authorization::attributes::{Attributes, Target, decode};
use crate::authorization::denied;
use crate::authorization::index::{Decision, Index};
use crate::error::ApiError;
use crate::identity::{ANONYMOUS, AUTHENTICATED, Identity, UNAUTHENTICATED, as_service_account};

const AUTHENTICATION: &str = "authentication.k8s.io";

/// Who the headers ask to be.
fn requested(headers: &HeaderMap) -> Result<Option<Identity>, ApiError> {
    let one = |name: &str| {
        headers
            .get(name)
            .and_then(|v| v.to_str().ok())
            .unwrap_or_default()
            .to_owned()
    };
    let mut groups: Vec<String> = headers
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
    let (user, uid) = (one("impersonate-user"), one("impersonate-uid"));
    if user.is_empty() {
        if groups.is_empty() && uid.is_empty() && extra.is_empty() {
            return Ok(None);
        }
        return Err(ApiError::bad_request(
            "a group, uid or extra to impersonate was requested without impersonating a user name",
        ));
    }
    if groups.is_empty()
        && let Some((namespace, name)) = as_service_account(&user)
    {
        groups = Identity::service_account(namespace, name).groups;
    }
    Ok(Some(Identity {
        user,
        uid,
        groups,
        extra,
    }))
}

/// Who the request is made as: the identity itself, or the one it may stand in for.
pub(crate) fn apply(
    index: &Index,
    identity: Identity,
    headers: &HeaderMap,
    wanted: &Attributes<'_>,
) -> Result<Identity, ApiError> {
    // Cheap for the many requests without such headers.
    if !headers
        .keys()
        .any(|k| k.as_str().starts_with("impersonate-"))
    {
        return Ok(identity);
    }
    let Some(mut other) = requested(headers)? else {
        return Ok(identity);
    };
    let may = |group: &str, resource: &str, subresource, namespace: &str, name: &str| {
        let mut asked = Attributes::on("impersonate", group, resource, namespace, name);
        if let Target::Resource(target) = &mut asked.target {
            target.subresource = subresource;
        }
        match index.decide(&identity, &asked) {
            Decision::Allowed(_) => Ok(()),
            Decision::Denied { missing } => {
                let mode = if as_service_account(&other.user).is_some() {
                    "serviceaccount"
                } else {
                    "user-info"
                };
                let verb = format!("impersonate-on:{mode}:{}", wanted.verb);
                Err(denied(&identity, wanted, &verb, &missing))
            }
        }
    };
    let own_groups = if let Some((namespace, name)) = as_service_account(&other.user) {
        may("", "serviceaccounts", "", namespace, name)?;
        Identity::service_account(namespace, name).groups
    } else {
        may("", "users", "", "", &other.user)?;
        Vec::new()
    };
    for group in other.groups.iter().filter(|g| !own_groups.contains(g)) {
        may("", "groups", "", "", group)?;
    }
    if !other.uid.is_empty() {
        may(AUTHENTICATION, "uids", "", "", &other.uid)?;
    }
    for (key, values) in &other.extra {
        for value in values {
            may(AUTHENTICATION, "userextras", key.as_str(), "", value)?;
        }
    }
    let standing = if other.user == ANONYMOUS {
        UNAUTHENTICATED
    } else {
        AUTHENTICATED
    };
    let says = |g: &String| g == AUTHENTICATED || g == UNAUTHENTICATED;
    if !other.groups.iter().any(says) {
        other.groups.push(standing.to_owned());
    }
    Ok(other)
}
