//! Secrets for tokens of service accounts: they are given what they are for, and go with their account.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::queue::Work;
use super::{internal, resource_of};
use crate::authentication::service_account::{ISSUER, Named, Tie, Wanted};
use crate::error::ApiError;
use crate::shared::Shared;
use crate::store::{Key, Stored, TableName};
use crate::verbs::delete::{self, Options};
use crate::verbs::{Call, Write, modify};

/// The table of secrets.
pub(super) const SECRETS: &str = "secrets";
/// The type of these secrets.
const TYPE: &str = "kubernetes.io/service-account-token";
/// Annotations that name the account, by name and by uid.
const ACCOUNT: &str = "kubernetes.io/service-account.name";
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";

/// Whether a secret may be one of these. Its content is not parsed: this is asked while the store is locked.
pub(super) fn may_be_one(secret: &Stored) -> bool {
    std::str::from_utf8(&secret.bytes).is_ok_and(|text| text.contains(TYPE))
}

/// Looks at all such secrets of a namespace, one of whose accounts is gone.
pub(super) async fn review(shared: &Arc<Shared>, namespace: &str) {
    let secrets = shared.store.list(SECRETS, Some(namespace)).items;
    for secret in secrets.iter().filter(|secret| may_be_one(secret)) {
        provide(shared, &secret.key).await;
    }
}

/// Gives a secret what it lacks, or removes it if there is no such account.
pub(super) async fn provide(shared: &Arc<Shared>, key: &Key) {
    let Some(stored) = shared.store.get(SECRETS, key) else {
        return;
    };
    let Some(resource) = resource_of(shared, &TableName::from(SECRETS)) else {
        return;
    };
    let secret = stored.value();
    if secret["type"] != TYPE || stored.deleting {
        return;
    }
    let annotation = |name: &str| {
        let found = secret["metadata"]["annotations"][name].as_str();
        found.unwrap_or_default().to_owned()
    };
    let (name, uid) = (annotation(ACCOUNT), annotation(ACCOUNT_UID));
    let account = shared
        .store
        .get("serviceaccounts", &Key::new(&key.namespace, &name))
        .filter(|account| uid.is_empty() || uid == *account.uid);
    let call = internal(shared, &resource, &key.namespace, &key.name);
    let done = match account {
        None => {
            let options = Options::background_of(&stored);
            delete::remove(&call, key, &options).await.map(drop)
        }
        Some(_) if is_complete(shared, &secret) => Ok(()),
        Some(account) => fill_in(&call, key, &stored, &account).await,
    };
    if let Err(error) = done {
        shared.failed(Work::Token(key.clone()));
        tracing::debug!(namespace = %key.namespace, secret = %key.name, %error, "a token secret was not looked after");
    }
}

fn is_complete(shared: &Shared, secret: &Value) -> bool {
    let data = &secret["data"];
    let has = |name: &str| data[name].as_str().is_some_and(|text| !text.is_empty());
    has("token")
        && has("namespace")
        && data["ca.crt"] == STANDARD.encode(shared.authenticator.authority())
        && !secret["metadata"]["annotations"][ACCOUNT_UID].is_null()
}

async fn fill_in(
    call: &Call,
    key: &Key,
    stored: &Stored,
    account: &Stored,
) -> Result<(), ApiError> {
    let named = |object: &Stored| Named {
        name: object.key.name.to_string(),
        uid: object.uid.to_string(),
    };
    let authenticator = &call.shared.authenticator;
    let wanted = Wanted {
        namespace: &key.namespace,
        account: named(account),
        audiences: vec![ISSUER.to_owned()],
        seconds: None,
        tie: Some(Tie::Secret(named(stored))),
    };
    let token = authenticator
        .accounts
        .sign(wanted)
        .map_err(|error| ApiError::internal(error.to_string()))?
        .token;
    modify(call, key, Write::Plain, |old| {
        let mut new = old.clone();
        new["metadata"]["annotations"][ACCOUNT_UID] = json!(&*account.uid);
        let data = &mut new["data"];
        if !data.is_object() {
            *data = json!({});
        }
        let lacks = data["token"].as_str().is_none_or(str::is_empty);
        if lacks {
            data["token"] = json!(STANDARD.encode(&token));
        }
        data["ca.crt"] = json!(STANDARD.encode(authenticator.authority()));
        data["namespace"] = json!(STANDARD.encode(&*key.namespace));
        Ok(new)
    })
    .await
    .map(drop)
}
