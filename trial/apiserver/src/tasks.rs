//! Background tasks: garbage collection, namespace deletion, event expiry, default service accounts, token secrets, the
//! CA ConfigMap, the Service of the API server, quota status, finished jobs, and aggregated roles. Writes queue most of this work.
//! Only the expiry of events runs at intervals.

mod accounts;
pub(crate) mod aggregation;
mod events;
mod finished_jobs;
mod garbage_collector;
pub(crate) mod kubernetes_service;
mod namespaces;
mod quotas;
mod root_ca;
mod tokens;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::error::ApiError;
use crate::resource::Resource;
use crate::shared::Shared;
use crate::shared::work_queue::Work;
use crate::store::{Key, NotDurable};
use crate::verbs::{Call, WriteKind, insert, modify};

/// Starts the background tasks. They end when the server stops.
pub(crate) fn start(shared: &Arc<Shared>, event_lifetime: Duration) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    tasks.spawn(work(shared.clone()));
    tasks.spawn(events::expire(shared.clone(), event_lifetime));
    tasks
}

/// Maximum number of items that are processed before other tasks may run.
const BATCH: usize = 64;

/// Maximum number of items that wait for webhooks at the same time.
const MAX_WAITING: usize = 64;
/// Minimum delay before failed work is retried. [`RETRY_MAX`] is the maximum delay.
const RETRY_MIN: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_mins(1);

/// Processes the items of the work queue. An item that waits for a webhook does not block other items.
async fn work(shared: Arc<Shared>) {
    let mut waiting = FuturesUnordered::new();
    // The items in `waiting`. The value is true if the item was queued again in the meantime.
    let mut requeued: HashMap<Work, bool> = HashMap::new();
    let (mut pause, mut retry_at) = (RETRY_MIN, None);
    let mut lost = false;
    loop {
        if retry_at.is_none() && shared.work.has_failed() {
            retry_at = Some(Instant::now() + pause);
            pause = (pause * 2).min(RETRY_MAX);
        } else if retry_at.is_none() && waiting.is_empty() && shared.work.is_empty() {
            pause = RETRY_MIN;
        }
        let retry = tokio::time::sleep_until(retry_at.unwrap_or_else(Instant::now));
        tokio::select! {
            () = shared.stopping.cancelled() => return,
            () = shared.work.wait(), if !lost && waiting.len() < MAX_WAITING => {}
            Some(item) = waiting.next() => {
                if requeued.remove(&item) == Some(true) {
                    shared.work.push(item);
                }
            }
            () = retry, if retry_at.is_some() => {
                retry_at = None;
                shared.work.retry();
            }
            accepted = shared.store.wait_writable(), if lost => {
                if accepted.is_err() {
                    return;
                }
                lost = false;
                // The storage has undone the results of earlier work, so this work is repeated.
                shared.requeue_all();
            }
        }
        if lost {
            continue;
        }
        let before = shared.store.mark();
        for _ in 0..BATCH {
            if waiting.len() >= MAX_WAITING {
                break;
            }
            let Some(item) = shared.work.pop() else { break };
            if let Some(requeued) = requeued.get_mut(&item) {
                *requeued = true;
                continue;
            }
            let mut done = Box::pin(handle(&shared, item.clone()));
            if futures::poll!(&mut done).is_pending() {
                requeued.insert(item, false);
                waiting.push(done);
            }
        }
        tokio::task::yield_now().await;
        // Waiting for the storage after each batch keeps the work at most one batch ahead of the storage.
        match shared.store.wait_durable_since(before).await {
            Ok(()) => lost = shared.store.refuses_writes(),
            Err(NotDurable::Lost(_)) => lost = true,
            Err(NotDurable::Closed(error)) => {
                tracing::debug!(%error, "background work has stopped");
                return;
            }
        }
    }
}

/// Processes an item, and returns the item.
async fn handle(shared: &Arc<Shared>, item: Work) -> Work {
    match &item {
        Work::CollectDependents(uid) => garbage_collector::collect_dependents(shared, uid).await,
        Work::ContinueDeletion(uid) => garbage_collector::continue_deletion(shared, uid).await,
        Work::CheckOwners(location) => garbage_collector::check_owners(shared, location).await,
        Work::Finalize(location) => garbage_collector::finalize(shared, location).await,
        Work::StartGrace(name) => namespaces::start_grace(shared, name),
        Work::EmptyNamespace(name) => namespaces::empty(shared, name).await,
        Work::EmptyDefinition(name) => namespaces::definition(shared, name).await,
        Work::DefaultAccount(namespace) => accounts::ensure(shared, namespace).await,
        Work::RootCa(namespace) => root_ca::publish(shared, namespace).await,
        Work::ApiService => kubernetes_service::publish(shared).await,
        Work::TokenSecret(key) => tokens::complete(shared, key).await,
        Work::TokenSecrets(namespace) => tokens::check_all(shared, namespace).await,
        Work::QuotaStatus(namespace) => quotas::update(shared, namespace).await,
        Work::ExpireJob(key) => finished_jobs::expire(shared, key).await,
        Work::Aggregation => aggregation::update(shared).await,
    }
    item
}

/// Returns the resource of a table, or `None` if its CustomResourceDefinition is deleted.
fn resource_of(shared: &Shared, table: &str) -> Option<Arc<Resource>> {
    shared.registry.snapshot().by_table.get(table).cloned()
}

/// Creates an object. If the object exists, updates it if `amend` changes it.
async fn ensure(
    shared: &Arc<Shared>,
    table: &str,
    key: &Key,
    new: Value,
    amend: impl Fn(&mut Value),
) -> Result<(), ApiError> {
    let resource = resource_of(shared, table).ok_or_else(ApiError::path_not_found)?;
    let call = Call::internal(shared, &resource, &key.namespace, &key.name);
    if shared.store.get(table, key).is_none() {
        return insert(&call, new, WriteKind::Plain).await.map(drop);
    }
    let amended = modify(&call, key, WriteKind::Plain, |old| {
        let mut new = old.clone();
        amend(&mut new);
        Ok(new)
    });
    amended.await.map(drop)
}
