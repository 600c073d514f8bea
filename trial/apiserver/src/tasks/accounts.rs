//! The `default` service account of each namespace.

use std::sync::Arc;

use serde_json::json;

use super::resource_of;
use crate::error::Reason;
use crate::shared::Shared;
use crate::shared::well_known::DEFAULT_ACCOUNT;
use crate::shared::work_queue::Work;
use crate::store::Key;
use crate::table_names::{NAMESPACES, SERVICE_ACCOUNTS};
use crate::verbs::{Call, WriteKind, insert};

/// Creates the `default` service account, unless it exists or the namespace is missing or terminating.
pub(super) async fn ensure(shared: &Arc<Shared>, namespace: &str) {
    let is_active = shared
        .store
        .get(NAMESPACES, &Key::new("", namespace))
        .is_some_and(|n| !n.deleting);
    let Some(resource) = resource_of(shared, SERVICE_ACCOUNTS) else {
        return;
    };
    if !is_active {
        return;
    }
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": DEFAULT_ACCOUNT}});
    let call = Call::internal(shared, &resource, namespace, DEFAULT_ACCOUNT);
    match insert(&call, account, WriteKind::Plain).await {
        Err(error) if error.reason != Reason::AlreadyExists => {
            shared.retry_later(Work::DefaultAccount(namespace.into()));
            tracing::debug!(namespace, %error, "cannot create the default service account");
        }
        _ => {}
    }
}
