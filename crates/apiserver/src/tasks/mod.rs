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

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::task::JoinSet;

use crate::error::ApiError;
use crate::http::accept::Rendering;
use crate::http::query::{FieldValidation, WriteOptions};
use crate::registry::Resource;
use crate::shared::{Identity, Shared};
use crate::store::{Key, TableName};
use crate::verbs::{Call, Write, insert, modify};
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

async fn work(shared: Arc<Shared>) {
    loop {
        tokio::select! {
            () = shared.stopping.cancelled() => return,
            () = shared.work.wait() => {}
        }
        for _ in 0..TURN {
            let Some(item) = shared.work.pop() else { break };
            match item {
                Work::OwnerGone(uid) => collector::owner_gone(&shared, &uid),
                Work::Owner(uid) => collector::owner(&shared, &uid),
                Work::Check(place) => collector::check(&shared, &place),
                Work::Finalize(place) => collector::finalize(&shared, &place),
                Work::Terminating(name) => namespaces::terminate(&shared, &name),
                Work::Namespace(name) => namespaces::empty(&shared, &name),
                Work::Definition(name) => namespaces::definition(&shared, &name),
                Work::Account(namespace) => accounts::give(&shared, &namespace),
                Work::RootCa(namespace) => root_ca::publish(&shared, &namespace),
                Work::ApiService => kubernetes_service::publish(&shared),
                Work::Token(key) => tokens::provide(&shared, &key),
                Work::Tokens(namespace) => tokens::review(&shared, &namespace),
                Work::Quotas(namespace) => quotas::sum_up(&shared, &namespace),
                Work::Aggregation => aggregation::sum_up(&shared),
            }
        }
        tokio::task::yield_now().await;
        // Not further ahead of the storage than one turn.
        if let Err(error) = shared.store.kept(shared.store.version()).await {
            tracing::debug!(%error, "background work ends");
            return;
        }
    }
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
    }
}

/// The resource behind a table; none if its CRD is gone.
fn resource_of(shared: &Shared, table: &TableName) -> Option<Arc<Resource>> {
    shared.registry.snapshot().by_table.get(table).cloned()
}

/// Creates an object of the system, or amends the one that exists. Writes nothing if that changes nothing.
fn ensure(
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
        return insert(&call, new, Write::Plain).map(drop);
    }
    let amended = modify(&call, key, Write::Plain, |old| {
        let mut new = old.clone();
        amend(&mut new);
        Ok(new)
    });
    amended.map(drop)
}
