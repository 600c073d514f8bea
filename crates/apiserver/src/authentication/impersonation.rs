//! Impersonation with the `Impersonate-*` headers.
//!
//! Several modes are tried in order. The constrained modes allow to act as a node, a service account or another user for
//! the verbs that a rule names (`impersonate-on:user-info:list` with `impersonate:user-info`). The plain verb
//! `impersonate` allows everything.

use std::collections::BTreeMap;

use http::HeaderMap;

use crate::authorization::attributes::{Attributes, Target};
use crate::authorization::index::{Decision, Index};
use crate::authorization::{denied, refused};
use crate::error::ApiError;
use crate::identity::{
    ANONYMOUS, AUTHENTICATED, Identity, MASTERS, UNAUTHENTICATED, as_service_account,
};
use crate::names;
use crate::percent_encoding::decode;

const AUTHENTICATION: &str = "authentication.k8s.io";
const NODES: &str = "system:nodes";
/// The extra key with the node of a service account, taken from its token.
pub(super) const NODE_NAME: &str = "authentication.kubernetes.io/node-name";

/// Returns the identity that the headers request.
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

/// A mode of impersonation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// The node of the requesting service account.
    AssociatedNode,
    ArbitraryNode,
    ServiceAccount,
    /// Any user except nodes and service accounts.
    UserInfo,
    /// Any identity and any request.
    Plain,
}

impl Mode {
    const ALL: [Self; 5] = [
        Self::AssociatedNode,
        Self::ArbitraryNode,
        Self::ServiceAccount,
        Self::UserInfo,
        Self::Plain,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::AssociatedNode => "associated-node",
            Self::ArbitraryNode => "arbitrary-node",
            Self::ServiceAccount => "serviceaccount",
            Self::UserInfo => "user-info",
            Self::Plain => "",
        }
    }

    /// Returns the verb on users, groups and other subjects.
    fn verb(self) -> String {
        match self {
            Self::Plain => "impersonate".to_owned(),
            _ => format!("impersonate:{}", self.name()),
        }
    }

    /// Returns the API group of users and groups.
    fn group(self) -> &'static str {
        match self {
            Self::Plain => "",
            _ => AUTHENTICATION,
        }
    }

    /// Reports whether the mode can grant the requested identity.
    fn applies_to(self, wanted: &Identity, requestor: &Identity) -> bool {
        let user_only =
            wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty();
        let node = as_node(&wanted.user);
        let account = as_service_account(&wanted.user).is_some();
        match self {
            Self::AssociatedNode => {
                let own = requestor.extra.get(NODE_NAME);
                let same_node = own.is_some_and(|own| match own.as_slice() {
                    [own] => Some(own.as_str()) == node,
                    _ => false,
                });
                user_only && same_node && as_service_account(&requestor.user).is_some()
            }
            Self::ArbitraryNode => user_only && node.is_some(),
            Self::ServiceAccount => user_only && account,
            Self::UserInfo => node.is_none() && !account,
            Self::Plain => true,
        }
    }
}

/// Returns the node name of a node user.
fn as_node(user: &str) -> Option<&str> {
    let name = user.strip_prefix("system:node:")?;
    names::subdomain(name).is_none().then_some(name)
}

/// An impersonation request in one mode.
struct Attempt<'a> {
    index: &'a Index,
    requestor: &'a Identity,
    mode: Mode,
    verb: String,
}

impl Attempt<'_> {
    fn check(&self, attributes: &Attributes<'_>) -> Result<(), ApiError> {
        match self.index.decide(self.requestor, attributes) {
            Decision::Allowed(_) => Ok(()),
            Decision::Denied { missing } => Err(denied(self.requestor, attributes, &missing)),
        }
    }

    fn check_subject(
        &self,
        group: &str,
        (resource, part): (&str, &str),
        namespace: &str,
        name: &str,
    ) -> Result<(), ApiError> {
        let mut attributes = Attributes::on(&self.verb, group, resource, namespace, name);
        if let Target::Resource(target) = &mut attributes.target {
            target.subresource = part;
        }
        self.check(&attributes)
    }

    /// Returns the error for a subject that constrained modes never grant.
    fn never_granted(&self, group: &str, resource: &str, name: &str, message: &str) -> ApiError {
        let attributes = Attributes::on(&self.verb, group, resource, "", name);
        refused(self.requestor, &attributes, message)
    }

    /// Returns the impersonated identity if the requestor may assume it.
    fn impersonate(
        &self,
        wanted: &Identity,
        request: &Attributes<'_>,
    ) -> Result<Identity, ApiError> {
        let constrained = self.mode != Mode::Plain;
        if constrained {
            let verb = format!("impersonate-on:{}:{}", self.mode.name(), request.verb);
            let on = Attributes {
                verb: &verb,
                target: request.target.clone(),
            };
            self.check(&on)?;
        }
        let group = self.mode.group();
        let mut other = wanted.clone();
        if let Some((namespace, name)) = as_service_account(&wanted.user) {
            if wanted.groups.is_empty() {
                other.groups = Identity::service_account(namespace, name).groups;
            }
            self.check_subject(group, ("serviceaccounts", ""), namespace, name)?;
        } else if let (true, Some(name)) = (constrained, as_node(&wanted.user)) {
            other.groups = vec![NODES.to_owned()];
            // The permission for the associated node covers any node the account runs on.
            let name = match self.mode {
                Mode::AssociatedNode => "*",
                _ => name,
            };
            self.check_subject(group, ("nodes", ""), "", name)?;
        } else {
            self.check_subject(group, ("users", ""), "", &wanted.user)?;
        }
        if !wanted.uid.is_empty() {
            self.check_subject(AUTHENTICATION, ("uids", ""), "", &wanted.uid)?;
        }
        if constrained && wanted.groups.iter().any(String::is_empty) {
            let message = "impersonating the empty string group is not allowed";
            return Err(self.never_granted(group, "groups", "", message));
        }
        if constrained && wanted.groups.iter().any(|group| group == MASTERS) {
            let message = "impersonating the system:masters group is not allowed";
            return Err(self.never_granted(group, "groups", MASTERS, message));
        }
        for wanted in &wanted.groups {
            self.check_subject(group, ("groups", ""), "", wanted)?;
        }
        for (key, values) in &wanted.extra {
            if constrained && let Some(message) = extra_problem(key, values) {
                return Err(self.never_granted(AUTHENTICATION, "userextras", "", &message));
            }
            for value in values {
                self.check_subject(AUTHENTICATION, ("userextras", key), "", value)?;
            }
        }
        let authentication_group = if other.user == ANONYMOUS {
            UNAUTHENTICATED
        } else {
            AUTHENTICATED
        };
        let is_present = |group: &String| group == authentication_group || group == UNAUTHENTICATED;
        if !other.groups.iter().any(is_present) {
            other.groups.push(authentication_group.to_owned());
        }
        Ok(other)
    }
}

/// Returns the problem of extra values.
fn extra_problem(key: &str, values: &[String]) -> Option<String> {
    if key.is_empty() {
        return Some("impersonating the empty string key in extra is not allowed".to_owned());
    }
    let problem = match key.split_once('/') {
        Some((domain, path)) if !domain.is_empty() && !path.is_empty() => names::subdomain(domain),
        _ => Some("must be a domain-prefixed path (such as \"acme.io/foo\")".to_owned()),
    };
    if let Some(problem) = problem {
        return Some(format!(
            "impersonating an invalid key in extra is not allowed: extra.key: Invalid value: \"{key}\": {problem}"
        ));
    }
    let empty = values.iter().any(String::is_empty);
    empty.then(|| "impersonating the empty string value in extra is not allowed".to_owned())
}

/// Returns the identity that a request is made as, after impersonation.
pub(crate) fn apply(
    index: &Index,
    identity: Identity,
    headers: &HeaderMap,
    request: &Attributes<'_>,
) -> Result<Identity, ApiError> {
    // Most requests have no such headers.
    if !headers
        .keys()
        .any(|k| k.as_str().starts_with("impersonate-"))
    {
        return Ok(identity);
    }
    let Some(wanted) = requested(headers)? else {
        return Ok(identity);
    };
    let mut first = None;
    for mode in Mode::ALL {
        if !mode.applies_to(&wanted, &identity) {
            continue;
        }
        let attempt = Attempt {
            index,
            requestor: &identity,
            mode,
            verb: mode.verb(),
        };
        match attempt.impersonate(&wanted, request) {
            Ok(other) => return Ok(other),
            Err(error) => first = first.or(Some(error)),
        }
    }
    Err(first.unwrap_or_else(|| ApiError::internal("all impersonation modes failed")))
}
