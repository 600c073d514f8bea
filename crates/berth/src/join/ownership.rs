//! Which control plane the objects of joining in a member belong to.
//!
//! A label names the control plane by the UID of its `kube-system`. Objects without the label were made by karmadactl, or
//! before the label existed: they belong to the control plane whose Secret holds a token of their account.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use berth_api::well_known::NAMESPACE_CLUSTER;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, ObjectMeta};
use serde_json::Value;

use super::hand::{Hand, JoinError};
use super::member;

/// The label of objects in a member with the UID of the control plane that uses them.
const CONTROL_PLANE: &str = "members.berth/control-plane";

/// The control plane that joins a member or leaves it.
pub(super) struct Registrant {
    id: String,
    /// The UID of the account in the member that its token is of.
    account: Option<String>,
}

/// To whom an object in a member belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ownership {
    /// To this control plane.
    Ours,
    /// To another control plane.
    Theirs,
    /// Nothing shows to which one.
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
    /// Reads what tells a control plane and its account in the member `cluster`.
    pub(super) async fn read(control_plane: &Hand<'_>, cluster: &str) -> Result<Self, JoinError> {
        let id = member::id_of(control_plane).await?;
        let secrets: Api<Secret> = Api::namespaced(control_plane.client.clone(), NAMESPACE_CLUSTER);
        let secret = secrets.get_opt(cluster).await.map_err(|error| {
            let place = control_plane.place();
            JoinError::new(format!("read Secret {cluster} in {place}"), error)
        })?;
        let data = secret.and_then(|secret| secret.data).unwrap_or_default();
        let token = data
            .get("token")
            .and_then(|token| std::str::from_utf8(&token.0).ok());
        Ok(Self {
            id,
            account: token.and_then(account_of_token),
        })
    }

    /// The UID of its `kube-system`.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Adds the label to an object that is made for this control plane.
    pub(super) fn mark(&self, mut metadata: ObjectMeta) -> ObjectMeta {
        let labels = metadata.labels.get_or_insert_default();
        labels.insert(CONTROL_PLANE.to_owned(), self.id.clone());
        metadata
    }

    /// Returns to whom an object belongs.
    pub(super) fn ownership(&self, object: &ObjectMeta) -> Ownership {
        let label = object
            .labels
            .as_ref()
            .and_then(|labels| labels.get(CONTROL_PLANE));
        match label {
            Some(id) if *id == self.id => Ownership::Ours,
            Some(_) => Ownership::Theirs,
            None if object.uid.is_some() && object.uid == self.account => Ownership::Ours,
            None => Ownership::Unmarked,
        }
    }
}

/// Returns the UID of the account that a token is of; tokens in Secrets name it at another place than requested ones.
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
    fn tokens_name_their_account() {
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
    fn the_label_wins_over_the_token() {
        let registrant = Registrant {
            id: "this".to_owned(),
            account: Some("u".to_owned()),
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
