//! Secrets that contain a service account token. The server completes such a secret after its creation, and deletes it
//! together with its service account.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::resource_of;
use crate::authentication::service_account::{ISSUER, ObjectRef, TokenSpec};
use crate::error::ApiError;
use crate::shared::Shared;
use crate::shared::well_known::TOKEN_SECRET_TYPE;
use crate::shared::work_queue::{Work, may_be_token_secret};
use crate::store::{Key, Stored};
use crate::table_names::{SECRETS, SERVICE_ACCOUNTS};
use crate::verbs::delete;
use crate::verbs::delete_options::DeleteOptions;
use crate::verbs::{Call, WriteKind, modify};

/// The annotation with the name of the service account. [`ACCOUNT_UID`] is the annotation with its uid.
const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";

/// Checks all secrets for service account tokens in a namespace.
pub(super) async fn check_all(shared: &Arc<Shared>, namespace: &str) {
    let secrets = shared.store.list(SECRETS, Some(namespace)).items;
    for secret in secrets.iter().filter(|secret| may_be_token_secret(secret)) {
        complete(shared, &secret.key).await;
    }
}

/// Completes a secret for a service account token. Deletes the secret if its service account does not exist.
pub(super) async fn complete(shared: &Arc<Shared>, key: &Key) {
    let Some(stored) = shared.store.get(SECRETS, key) else {
        return;
    };
    let Some(resource) = resource_of(shared, SECRETS) else {
        return;
    };
    let secret = stored.value();
    if secret["type"] != TOKEN_SECRET_TYPE || stored.deleting {
        return;
    }
    let annotation = |name: &str| {
        let found = secret["metadata"]["annotations"][name].as_str();
        found.unwrap_or_default().to_owned()
    };
    let (name, uid) = (annotation(ACCOUNT_NAME), annotation(ACCOUNT_UID));
    let account = shared
        .store
        .get(SERVICE_ACCOUNTS, &Key::new(&key.namespace, &name))
        .filter(|account| uid.is_empty() || uid == *account.uid);
    let call = Call::internal(shared, &resource, &key.namespace, &key.name);
    let done = match account {
        None => {
            let options = DeleteOptions::background_of(&stored);
            delete::remove(&call, key, &options).await.map(drop)
        }
        Some(_) if is_complete(shared, &secret) => Ok(()),
        Some(account) => fill_in(&call, key, &stored, &account).await,
    };
    if let Err(error) = done {
        shared.retry_later(Work::TokenSecret(key.clone()));
        tracing::debug!(namespace = %key.namespace, secret = %key.name, %error, "cannot complete a token secret");
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
    let reference = |object: &Stored| ObjectRef {
        name: object.key.name.to_string(),
        uid: object.uid.to_string(),
    };
    let authenticator = &call.shared.authenticator;
    let spec = TokenSpec {
        namespace: &key.namespace,
        account: reference(account),
        audiences: vec![ISSUER.to_owned()],
        seconds: None,
        bound: [("secret".to_owned(), reference(stored))].into(),
    };
    let token = authenticator
        .accounts
        .sign(spec)
        .map_err(|error| ApiError::internal(error.to_string()))?
        .token;
    modify(call, key, WriteKind::Plain, |old| {
        let mut new = old.clone();
        new["metadata"]["annotations"][ACCOUNT_UID] = json!(&*account.uid);
        let data = &mut new["data"];
        if !data.is_object() {
            *data = json!({});
        }
        let is_missing = data["token"].as_str().is_none_or(str::is_empty);
        if is_missing {
            data["token"] = json!(STANDARD.encode(&token));
        }
        data["ca.crt"] = json!(STANDARD.encode(authenticator.authority()));
        data["namespace"] = json!(STANDARD.encode(&*key.namespace));
        Ok(new)
    })
    .await
    .map(drop)
}
