//! Detection of the control plane that owns an account or a role in a member. Several control planes may share a
//! member.
//!
//! Joining labels the objects with the id of the control plane, which is the UID of its namespace `kube-system`.
//! Objects from karmadactl have no such label. They belong to the control plane that stores a token of their account in
//! a Secret.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use berth_api::well_known::{CONTROL_PLANE, NAMESPACE_CLUSTER};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, ObjectMeta};
use serde_json::Value;

use super::applier::{Applier, JoinError};
use super::impersonator_secret_name;

/// The control plane that registers or removes the member.
pub(super) struct Registrant {
    id: String,
    /// UIDs of the accounts in the member whose tokens the control plane stores.
    accounts: Vec<String>,
}

/// The owner of an object in a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ownership {
    /// This control plane.
    Ours,
    /// Another control plane.
    Theirs,
    /// An unknown owner: the object has no label, and the control plane stores no token of the account.
    Unmarked,
}

impl fmt::Display for Ownership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ours => "belongs to this control plane",
            Self::Theirs => "stays: another control plane uses it",
            Self::Unmarked => "stays: nothing shows that this control plane uses it",
        })
    }
}

impl Registrant {
    /// Reads the id of the control plane, and the UIDs of its accounts in the member `cluster`.
    pub(super) async fn read(
        control_plane: &Applier<'_>,
        cluster: &str,
    ) -> Result<Self, JoinError> {
        let id = control_plane.cluster_id().await?;
        let secrets: Api<Secret> = Api::namespaced(control_plane.client.clone(), NAMESPACE_CLUSTER);
        let mut accounts = Vec::new();
        for name in [cluster.to_owned(), impersonator_secret_name(cluster)] {
            let secret = secrets.get_opt(&name).await.map_err(|error| {
                let server = control_plane.server_name();
                JoinError::new(format!("read Secret {name} in {server}"), error)
            })?;
            let data = secret.and_then(|secret| secret.data).unwrap_or_default();
            let token = data
                .get("token")
                .and_then(|token| std::str::from_utf8(&token.0).ok());
            accounts.extend(token.and_then(account_of_token));
        }
        Ok(Self { id, accounts })
    }

    /// Returns the id of the control plane.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Adds the label with the id of the control plane.
    pub(super) fn mark(&self, mut metadata: ObjectMeta) -> ObjectMeta {
        let labels = metadata.labels.get_or_insert_default();
        labels.insert(CONTROL_PLANE.to_owned(), self.id.clone());
        metadata
    }

    /// Returns the owner of an object.
    pub(super) fn ownership(&self, object: &ObjectMeta) -> Ownership {
        let label = object
            .labels
            .as_ref()
            .and_then(|labels| labels.get(CONTROL_PLANE));
        match label {
            Some(id) if *id == self.id => Ownership::Ours,
            Some(_) => Ownership::Theirs,
            None if object
                .uid
                .as_ref()
                .is_some_and(|uid| self.accounts.contains(uid)) =>
            {
                Ownership::Ours
            }
            None => Ownership::Unmarked,
        }
    }
}

/// Returns the UID of the account in the claims of a token. Tokens from Secrets and tokens from TokenRequests have
/// different claims.
fn account_of_token(token: &str) -> Option<String> {
    let claims = URL_SAFE_NO_PAD
        .decode(token.trim().split('.').nth(1)?)
        .ok()?;
    let claims: Value = serde_json::from_slice(&claims).ok()?;
    let uid = claims["kubernetes.io"]["serviceaccount"]["uid"]
        .as_str()
        .or_else(|| claims["kubernetes.io/serviceaccount/service-account.uid"].as_str())?;
    Some(uid.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_account_is_read_from_the_claims_of_a_token() {
        let token =
            |claims: &Value| format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims.to_string()));
        for claims in [
            json!({ "kubernetes.io": { "serviceaccount": { "name": "a", "uid": "u" } } }),
            json!({ "kubernetes.io/serviceaccount/service-account.uid": "u" }),
        ] {
            assert_eq!(account_of_token(&token(&claims)).as_deref(), Some("u"));
        }
        for token in ["", "opaque", "a.b.c", &token(&json!({ "sub": "u" }))] {
            assert_eq!(account_of_token(token), None, "{token}");
        }
    }

    #[test]
    fn the_label_takes_precedence_over_the_token() {
        let registrant = Registrant {
            id: "this".to_owned(),
            accounts: vec!["u".to_owned()],
        };
        let object = |label: Option<&str>, uid: Option<&str>| ObjectMeta {
            uid: uid.map(str::to_owned),
            labels: label.map(|id| [(CONTROL_PLANE.to_owned(), id.to_owned())].into()),
            ..ObjectMeta::default()
        };
        for (label, uid, expected) in [
            (Some("this"), Some("other"), Ownership::Ours),
            (Some("another"), Some("u"), Ownership::Theirs),
            (None, Some("u"), Ownership::Ours),
            (None, Some("other"), Ownership::Unmarked),
            (None, None, Ownership::Unmarked),
        ] {
            let found = registrant.ownership(&object(label, uid));
            assert_eq!(found, expected, "{label:?} {uid:?}");
        }
    }
}
