//! Keeps the status of quotas: what their namespaces use.

use std::sync::Arc;

use super::queue::Work;
use super::{internal, resource_of};
use crate::quota::{self, QUOTAS};
use crate::shared::Shared;
use crate::store::TableName;
use crate::verbs::{Subresource, Write, modify};

pub(super) async fn sum_up(shared: &Arc<Shared>, namespace: &str) {
    let Some(resource) = resource_of(shared, &TableName::from(QUOTAS)) else {
        return;
    };
    for stored in shared.store.list(QUOTAS, Some(namespace)).items {
        let mut call = internal(shared, &resource, namespace, &stored.key.name);
        call.subresource = Some(Subresource::Status);
        let result = modify(&call, &stored.key, Write::Plain, |old| {
            let mut new = old.clone();
            new["status"] = quota::status(shared, namespace, old);
            Ok(new)
        });
        if let Err(error) = result.await {
            shared.failed(Work::Quotas(namespace.into()));
            tracing::debug!(namespace, quota = %stored.key.name, %error, "the use of a quota was not noted");
        }
    }
}
