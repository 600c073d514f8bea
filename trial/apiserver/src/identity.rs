//! The identity of a requester: user, groups and extra values.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// The group of authenticated users.
pub(crate) const AUTHENTICATED: &str = "system:authenticated";
/// The group of unauthenticated users.
pub(crate) const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The user name of anonymous requests.
pub(crate) const ANONYMOUS: &str = "system:anonymous";
/// The user name of the administrator.
pub const ADMIN: &str = "berth:admin";
/// The group whose members have all permissions.
pub(crate) const MASTERS: &str = "system:masters";

/// The identity of a requester, which may be anonymous.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) user: String,
    pub(crate) uid: String,
    pub(crate) groups: Vec<String>,
    pub(crate) extra: BTreeMap<String, Vec<String>>,
}

impl Identity {
    /// Returns the identity of the administrator. The server uses the same identity for its own requests.
    pub(crate) fn admin() -> Self {
        Self {
            user: ADMIN.to_owned(),
            groups: vec![MASTERS.to_owned(), AUTHENTICATED.to_owned()],
            ..Self::default()
        }
    }

    /// Returns the identity of anonymous requests.
    pub(crate) fn anonymous() -> Self {
        Self {
            user: ANONYMOUS.to_owned(),
            groups: vec![UNAUTHENTICATED.to_owned()],
            ..Self::default()
        }
    }

    /// Returns the identity of a service account.
    pub(crate) fn service_account(namespace: &str, name: &str) -> Self {
        Self {
            user: format!("system:serviceaccount:{namespace}:{name}"),
            groups: vec![
                "system:serviceaccounts".to_owned(),
                format!("system:serviceaccounts:{namespace}"),
                AUTHENTICATED.to_owned(),
            ],
            ..Self::default()
        }
    }

    pub(crate) fn is_master(&self) -> bool {
        self.groups.iter().any(|g| g == MASTERS)
    }

    /// Returns the identity as a `UserInfo` without empty fields.
    pub(crate) fn user_info(&self) -> Value {
        let mut info = json!({});
        if !self.user.is_empty() {
            info["username"] = json!(self.user);
        }
        if !self.uid.is_empty() {
            info["uid"] = json!(self.uid);
        }
        if !self.groups.is_empty() {
            info["groups"] = json!(self.groups);
        }
        if !self.extra.is_empty() {
            info["extra"] = json!(self.extra);
        }
        info
    }
}

/// Returns the namespace and name of the service account if the user is a service account.
pub(crate) fn as_service_account(user: &str) -> Option<(&str, &str)> {
    user.strip_prefix("system:serviceaccount:")?
        .split_once(':')
        .filter(|(namespace, name)| !namespace.is_empty() && !name.is_empty())
}
