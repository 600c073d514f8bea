//! Acting as somebody else: the `Impersonate-*` headers, for those who may.
//!
//! There are several ways to be allowed to, which are tried one after the other: as a node or a service account or
//! anybody else for a verb that a rule names (`impersonate-on:user-info:list` with `impersonate:user-info`), or, with the
//! plain verb `impersonate`, for anything.

use std::collections::BTreeMap;

use http::HeaderMap;

use crate::authorization::attributes::{Attributes, Target};
use crate::authorization::index::{Decision, Index};
use crate::authorization::{denied, refused};
use crate::builtin::names;
use crate::error::ApiError;
use crate::http::escapes::decode;
use crate::identity::{
    ANONYMOUS, AUTHENTICATED, Identity, MASTERS, UNAUTHENTICATED, as_service_account,
};

const AUTHENTICATION: &str = "authentication.k8s.io";
const NODES: &str = "system:nodes";
/// On which node a service account runs, as its token says.
pub(super) const NODE_NAME: &str = "authentication.kubernetes.io/node-name";

/// Who the headers ask to be.
fn requested(headers: &HeaderMap) -> Result<Option<Identity>, ApiError> {
    let one = |name: &str| {
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
    let (user, uid) = (one("impersonate-user"), one("impersonate-uid"));
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

/// A way to be allowed to act as somebody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// As the node that a service account runs on.
    AssociatedNode,
    ArbitraryNode,
    ServiceAccount,
    /// As anybody who is neither a node nor a service account.
    UserInfo,
    /// As anybody, for anything.
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

    /// The verb on users, groups and the like.
    fn verb(self) -> String {
        match self {
            Self::Plain => "impersonate".to_owned(),
            _ => format!("impersonate:{}", self.name()),
        }
    }

    /// The API group of users and groups.
    fn group(self) -> &'static str {
        match self {
            Self::Plain => "",
            _ => AUTHENTICATION,
        }
    }

    fn fits(self, wanted: &Identity, requestor: &Identity) -> bool {
        let alone = wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty();
        let node = as_node(&wanted.user);
        let account = as_service_account(&wanted.user).is_some();
        match self {
            Self::AssociatedNode => {
                let own = requestor.extra.get(NODE_NAME);
                let runs_there = own.is_some_and(|own| match own.as_slice() {
                    [own] => Some(own.as_str()) == node,
                    _ => false,
                });
                alone && runs_there && as_service_account(&requestor.user).is_some()
            }
            Self::ArbitraryNode => alone && node.is_some(),
            Self::ServiceAccount => alone && account,
            Self::UserInfo => node.is_none() && !account,
            Self::Plain => true,
        }
    }
}

/// The name of the node that a user name stands for.
fn as_node(user: &str) -> Option<&str> {
    let name = user.strip_prefix("system:node:")?;
    names::subdomain(name).is_none().then_some(name)
}

/// A request to act as somebody, tried in one way.
struct Attempt<'a> {
    index: &'a Index,
    requestor: &'a Identity,
    mode: Mode,
    verb: String,
}

impl Attempt<'_> {
    fn may(&self, asked: &Attributes<'_>) -> Result<(), ApiError> {
        match self.index.decide(self.requestor, asked) {
            Decision::Allowed(_) => Ok(()),
            Decision::Denied { missing } => Err(denied(self.requestor, asked, &missing)),
        }
    }

    fn may_be(
        &self,
        group: &str,
        (resource, part): (&str, &str),
        namespace: &str,
        name: &str,
    ) -> Result<(), ApiError> {
        let mut asked = Attributes::on(&self.verb, group, resource, namespace, name);
        if let Target::Resource(target) = &mut asked.target {
            target.subresource = part;
        }
        self.may(&asked)
    }

    /// Never, whatever rules say: for what the plain verb has always allowed, and the others do not.
    fn never(&self, group: &str, resource: &str, name: &str, why: &str) -> ApiError {
        let asked = Attributes::on(&self.verb, group, resource, "", name);
        refused(self.requestor, &asked, why)
    }

    /// Who the requestor is from now on.
    fn become_somebody(
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
            self.may(&on)?;
        }
        let group = self.mode.group();
        let mut other = wanted.clone();
        if let Some((namespace, name)) = as_service_account(&wanted.user) {
            if wanted.groups.is_empty() {
                other.groups = Identity::service_account(namespace, name).groups;
            }
            self.may_be(group, ("serviceaccounts", ""), namespace, name)?;
        } else if let (true, Some(name)) = (constrained, as_node(&wanted.user)) {
            other.groups = vec![NODES.to_owned()];
            // Whoever may be the node they run on may be any that they come to run on.
            let name = match self.mode {
                Mode::AssociatedNode => "*",
                _ => name,
            };
            self.may_be(group, ("nodes", ""), "", name)?;
        } else {
            self.may_be(group, ("users", ""), "", &wanted.user)?;
        }
        if !wanted.uid.is_empty() {
            self.may_be(AUTHENTICATION, ("uids", ""), "", &wanted.uid)?;
        }
        if constrained && wanted.groups.iter().any(String::is_empty) {
            let why = "impersonating the empty string group is not allowed";
            return Err(self.never(group, "groups", "", why));
        }
        if constrained && wanted.groups.iter().any(|group| group == MASTERS) {
            let why = "impersonating the system:masters group is not allowed";
            return Err(self.never(group, "groups", MASTERS, why));
        }
        for wanted in &wanted.groups {
            self.may_be(group, ("groups", ""), "", wanted)?;
        }
        for (key, values) in &wanted.extra {
            if constrained && let Some(why) = unfit(key, values) {
                return Err(self.never(AUTHENTICATION, "userextras", "", &why));
            }
            for value in values {
                self.may_be(AUTHENTICATION, ("userextras", key), "", value)?;
            }
        }
        let standing = if other.user == ANONYMOUS {
            UNAUTHENTICATED
        } else {
            AUTHENTICATED
        };
        let says = |group: &String| group == standing || group == UNAUTHENTICATED;
        if !other.groups.iter().any(says) {
            other.groups.push(standing.to_owned());
        }
        Ok(other)
    }
}

/// Why nobody has such extra values.
fn unfit(key: &str, values: &[String]) -> Option<String> {
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

/// Who the request is made as: the identity itself, or the one it may stand in for.
pub(crate) fn apply(
    index: &Index,
    identity: Identity,
    headers: &HeaderMap,
    request: &Attributes<'_>,
) -> Result<Identity, ApiError> {
    // Cheap for the many requests without such headers.
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
        if !mode.fits(&wanted, &identity) {
            continue;
        }
        let attempt = Attempt {
            index,
            requestor: &identity,
            mode,
            verb: mode.verb(),
        };
        match attempt.become_somebody(&wanted, request) {
            Ok(other) => return Ok(other),
            Err(error) => first = first.or(Some(error)),
        }
    }
    Err(first.unwrap_or_else(|| ApiError::internal("all impersonation modes failed")))
}
