//! Updates of the status of ResourceQuotas. `verbs::pipeline::quota` computes the usage in this status.

use std::sync::Arc;

use super::resource_of;
use crate::resource::Subresource;
use crate::shared::Shared;
use crate::shared::work_queue::Work;
use crate::table_names::QUOTAS;
use crate::verbs::{Call, WriteKind, modify, quota};

/// Updates the status of all quotas in a namespace.
pub(super) async fn update(shared: &Arc<Shared>, namespace: &str) {
    let Some(resource) = resource_of(shared, QUOTAS) else {
        return;
    };
    for stored in shared.store.list(QUOTAS, Some(namespace)).items {
        let mut call = Call::internal(shared, &resource, namespace, &stored.key.name);
        call.subresource = Some(Subresource::Status);
        let result = modify(&call, &stored.key, WriteKind::Plain, |old| {
            let mut new = old.clone();
            new["status"] = quota::status(shared, namespace, old);
            Ok(new)
        });
        if let Err(error) = result.await {
            shared.retry_later(Work::QuotaStatus(namespace.into()));
            tracing::debug!(namespace, quota = %stored.key.name, %error, "cannot update the status of a quota");
        }
    }
}
