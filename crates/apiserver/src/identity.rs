//! Who makes a request.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// The group of everybody who proved who they are.
pub(crate) const AUTHENTICATED: &str = "system:authenticated";
/// The group of everybody else.
pub(crate) const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The user who did not say who they are.
pub(crate) const ANONYMOUS: &str = "system:anonymous";
/// User name of the holder of the server's token.
pub const ADMIN: &str = "berth:admin";
/// The group that may do anything.
pub(crate) const MASTERS: &str = "system:masters";

/// Who makes a request, as authentication found out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) user: String,
    pub(crate) uid: String,
    pub(crate) groups: Vec<String>,
    pub(crate) extra: BTreeMap<String, Vec<String>>,
}

impl Identity {
    /// The holder of the server's token, and the process itself.
    pub(crate) fn admin() -> Self {
        Self {
            user: ADMIN.to_owned(),
            groups: vec![MASTERS.to_owned(), AUTHENTICATED.to_owned()],
            ..Self::default()
        }
    }

    /// Somebody who did not say who they are.
    pub(crate) fn anonymous() -> Self {
        Self {
            user: ANONYMOUS.to_owned(),
            groups: vec![UNAUTHENTICATED.to_owned()],
            ..Self::default()
        }
    }

    /// A service account.
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

    /// The `UserInfo` of reviews, without what is empty.
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

/// Namespace and name of the service account that a user name stands for.
pub(crate) fn as_service_account(user: &str) -> Option<(&str, &str)> {
    user.strip_prefix("system:serviceaccount:")?
        .split_once(':')
        .filter(|(namespace, name)| !namespace.is_empty() && !name.is_empty())
}
