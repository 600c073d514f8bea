//! Every namespace has a service account called `default`.

use std::sync::Arc;

use serde_json::json;

use super::queue::Work;
use super::{internal, resource_of};
use crate::error::Reason;
use crate::shared::Shared;
use crate::store::{Key, TableName};
use crate::verbs::{Write, insert};

/// The name of the account.
pub(super) const DEFAULT: &str = "default";

/// Makes the account, unless it is there or the namespace is going away.
pub(super) async fn give(shared: &Arc<Shared>, namespace: &str) {
    let wanted = shared
        .store
        .get("namespaces", &Key::new("", namespace))
        .is_some_and(|n| !n.deleting);
    let Some(resource) = resource_of(shared, &TableName::from("serviceaccounts")) else {
        return;
    };
    if !wanted {
        return;
    }
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": DEFAULT}});
    let call = internal(shared, &resource, namespace, DEFAULT);
    match insert(&call, account, Write::Plain).await {
        Err(error) if error.reason != Reason::AlreadyExists => {
            shared.failed(Work::Account(namespace.into()));
            tracing::debug!(namespace, %error, "default service account was not made");
        }
        _ => {}
    }
}
