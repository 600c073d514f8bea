//! What the server does on its own: garbage collection, emptying namespaces, removing the objects of deleted
//! CRDs, expiring events, giving namespaces their default account and the certificate of the authority, and accounts their
//! tokens, publishing the address of the API, noting the use of quotas, summing up aggregated roles. Driven by writes
//! through [`queue`], never by polling.

mod accounts;
pub(crate) mod aggregation;
mod collector;
pub(crate) mod events;
pub(crate) mod kubernetes_service;
mod namespaces;
pub(crate) mod queue;
mod quotas;
mod root_ca;
mod tokens;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::error::ApiError;
use crate::http::accept::Rendering;
use crate::http::query::{FieldValidation, WriteOptions};
use crate::registry::Resource;
use crate::shared::{Identity, Shared};
use crate::store::{Key, TableName, Unkept};
use crate::verbs::{Call, Origin, Write, insert, modify};
use queue::Work;

/// Starts the tasks; they end when the server stops.
pub(crate) fn start(shared: &Arc<Shared>, events_live: Duration) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    tasks.spawn(work(shared.clone()));
    tasks.spawn(events::expire(shared.clone(), events_live));
    tasks
}

/// Items handled before other tasks get a turn.
const TURN: usize = 64;

/// Items that may wait for webhooks at once.
const MOST_WAITING: usize = 64;
/// How long an item may wait for webhooks.
const PATIENCE: Duration = Duration::from_mins(1);
/// How long after failures that a webhook may have caused work is tried again: at first, and after many in a row.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));

/// Does the work that writes cause. An item that waits for a webhook does not hold up the others.
async fn work(shared: Arc<Shared>) {
    let mut waiting = FuturesUnordered::new();
    // Whether an item that waits has come up again.
    let mut again: HashMap<Work, bool> = HashMap::new();
    let (mut pause, mut retry_at) = (RETRY.0, None);
    let mut lost = false;
    loop {
        if retry_at.is_none() && shared.work.has_failed() {
            retry_at = Some(Instant::now() + pause);
            pause = (pause * 2).min(RETRY.1);
        } else if retry_at.is_none() && waiting.is_empty() && shared.work.is_empty() {
            pause = RETRY.0;
        }
        let retry = tokio::time::sleep_until(retry_at.unwrap_or_else(Instant::now));
        tokio::select! {
            () = shared.stopping.cancelled() => return,
            () = shared.work.wait(), if !lost && waiting.len() < MOST_WAITING => {}
            Some(item) = waiting.next() => {
                if again.remove(&item) == Some(true) {
                    shared.work.push(item);
                }
            }
            () = retry, if retry_at.is_some() => {
                retry_at = None;
                shared.work.retry();
            }
            accepted = shared.store.accepts(), if lost => {
                if accepted.is_err() {
                    return;
                }
                lost = false;
                // What was done meanwhile is undone.
                shared.resume();
            }
        }
        if lost {
            continue;
        }
        let before = shared.store.mark();
        for _ in 0..TURN {
            if waiting.len() >= MOST_WAITING {
                break;
            }
            let Some(item) = shared.work.pop() else { break };
            if let Some(again) = again.get_mut(&item) {
                *again = true;
                continue;
            }
            let mut done = Box::pin(handle(&shared, item.clone()));
            if futures::poll!(&mut done).is_pending() {
                again.insert(item, false);
                waiting.push(done);
            }
        }
        tokio::task::yield_now().await;
        // Not further ahead of the storage than one turn.
        match shared.store.kept_since(before).await {
            Ok(()) => lost = shared.store.refuses(),
            Err(Unkept::Lost(_)) => lost = true,
            Err(Unkept::Closed(error)) => {
                tracing::debug!(%error, "background work ends");
                return;
            }
        }
    }
}

/// Handles an item, and returns it.
async fn handle(shared: &Arc<Shared>, item: Work) -> Work {
    match &item {
        Work::OwnerGone(uid) => collector::owner_gone(shared, uid).await,
        Work::Owner(uid) => collector::owner(shared, uid).await,
        Work::Check(place) => collector::check(shared, place).await,
        Work::Finalize(place) => collector::finalize(shared, place).await,
        Work::Terminating(name) => namespaces::terminate(shared, name),
        Work::Namespace(name) => namespaces::empty(shared, name).await,
        Work::Definition(name) => namespaces::definition(shared, name).await,
        Work::Account(namespace) => accounts::give(shared, namespace).await,
        Work::RootCa(namespace) => root_ca::publish(shared, namespace).await,
        Work::ApiService => kubernetes_service::publish(shared).await,
        Work::Token(key) => tokens::provide(shared, key).await,
        Work::Tokens(namespace) => tokens::review(shared, namespace).await,
        Work::Quotas(namespace) => quotas::sum_up(shared, namespace).await,
        Work::Aggregation => aggregation::sum_up(shared).await,
    }
    item
}

/// A request of the server to itself.
pub(crate) fn internal(
    shared: &Arc<Shared>,
    resource: &Arc<Resource>,
    namespace: &str,
    name: &str,
) -> Call {
    Call {
        shared: shared.clone(),
        resource: resource.clone(),
        namespace: (!namespace.is_empty()).then(|| namespace.to_owned()),
        name: Some(name.to_owned()),
        subresource: None,
        options: WriteOptions {
            dry_run: false,
            field_manager: "berth-apiserver".to_owned(),
            manager_named: true,
            field_validation: FieldValidation::Ignore,
            force: false,
        },
        identity: Identity::admin(),
        rendering: Rendering::Full,
        origin: Origin::Task,
        deadline: Instant::now() + PATIENCE,
        warnings: Mutex::default(),
    }
}

/// The resource behind a table; none if its CRD is gone.
fn resource_of(shared: &Shared, table: &TableName) -> Option<Arc<Resource>> {
    shared.registry.snapshot().by_table.get(table).cloned()
}

/// Creates an object of the system, or amends the one that exists. Writes nothing if that changes nothing.
async fn ensure(
    shared: &Arc<Shared>,
    table: &str,
    key: &Key,
    new: Value,
    amend: impl Fn(&mut Value),
) -> Result<(), ApiError> {
    let table = TableName::from(table);
    let resource = resource_of(shared, &table).ok_or_else(ApiError::path_not_found)?;
    let call = internal(shared, &resource, &key.namespace, &key.name);
    if shared.store.get(&table, key).is_none() {
        return insert(&call, new, Write::Plain).await.map(drop);
    }
    let amended = modify(&call, key, Write::Plain, |old| {
        let mut new = old.clone();
        amend(&mut new);
        Ok(new)
    });
    amended.await.map(drop)
}
