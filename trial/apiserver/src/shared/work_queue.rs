//! The queue of background work that writes cause, such as garbage collection. Writes add items while the store is
//! locked. An item only identifies its work, for example by a name or uid, so that the lock is short. An item is queued
//! at most once at a time.

use std::collections::{HashMap, HashSet, VecDeque};

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::well_known::{
    API_SERVICE, DEFAULT_ACCOUNT, FOREGROUND_FINALIZER, ORPHAN_FINALIZER, ROOT_CA,
    TOKEN_SECRET_TYPE,
};
use crate::store::{Change, Key, ObjectLocation, Stored, TableName};
use crate::table_names::{
    CLUSTER_ROLES, CONFIG_MAPS, DEFINITIONS, ENDPOINT_SLICES, ENDPOINTS, JOBS, NAMESPACES, QUOTAS,
    SECRETS, SERVICE_ACCOUNTS, SERVICES,
};
use crate::webhook_registry;

/// An item of background work.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Work {
    /// Collects the dependents of the deleted object with this uid.
    CollectDependents(Box<str>),
    /// Continues the foreground deletion of the object with this uid, because one of its dependents is deleted.
    ContinueDeletion(Box<str>),
    /// Checks that the owners of an object exist.
    CheckOwners(ObjectLocation),
    /// Processes the garbage collection finalizers of a terminating object.
    Finalize(ObjectLocation),
    /// Starts the grace period of a terminating namespace.
    StartGrace(Box<str>),
    /// Deletes the content of a terminating namespace.
    EmptyNamespace(Box<str>),
    /// Deletes the objects of a terminating CustomResourceDefinition.
    EmptyDefinition(Box<str>),
    /// Creates the default service account of a namespace if it is missing.
    DefaultAccount(Box<str>),
    /// Creates or corrects the ConfigMap with the CA certificate in a namespace.
    RootCa(Box<str>),
    /// Publishes the Service of the API server.
    ApiService,
    /// Completes a secret for a service account token, or deletes the secret.
    TokenSecret(Key),
    /// Checks all secrets for service account tokens in a namespace.
    TokenSecrets(Box<str>),
    /// Updates the status of the quotas of a namespace.
    QuotaStatus(Box<str>),
    /// Deletes a finished job whose TTL is over.
    ExpireJob(Key),
    /// Updates aggregated ClusterRoles.
    Aggregation,
}

/// The grace period before the content of a terminating namespace is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Grace {
    Running,
    Over,
}

#[derive(Debug, Default)]
struct Inner {
    items: VecDeque<Work>,
    queued: HashSet<Work>,
    /// Terminating namespaces.
    terminating: HashMap<Box<str>, Grace>,
    /// Terminating CustomResourceDefinitions.
    definitions: HashSet<Box<str>>,
    /// Namespaces that have or had quotas.
    with_quotas: HashSet<Box<str>>,
    /// Failed work that is retried later, for example a write that a webhook refused.
    failed: HashSet<Work>,
    /// Work that is queued again at a later time.
    delayed: HashSet<(Work, Timestamp)>,
    /// Objects whose deletion was refused. The deletion is retried when the object changes.
    refused: HashSet<ObjectLocation>,
}

impl Inner {
    /// Reports whether the grace period of a terminating namespace is over.
    fn is_grace_over(&self, namespace: &str) -> bool {
        self.terminating.get(namespace) == Some(&Grace::Over)
    }
}

/// The queue of background work.
#[derive(Debug, Default)]
pub(crate) struct WorkQueue {
    inner: Mutex<Inner>,
    ready: Notify,
}

impl WorkQueue {
    pub(crate) fn push(&self, work: Work) {
        let mut inner = self.inner.lock();
        if inner.queued.insert(work.clone()) {
            inner.items.push_back(work);
            self.ready.notify_one();
        }
    }

    /// Requests another attempt to delete an object when the object changes.
    pub(crate) fn retry_on_change(&self, object: ObjectLocation) {
        self.inner.lock().refused.insert(object);
    }

    /// Ends the grace period of a terminating namespace.
    pub(crate) fn end_grace(&self, namespace: Box<str>) {
        if let Some(grace) = self.inner.lock().terminating.get_mut(&namespace) {
            *grace = Grace::Over;
        } else {
            return;
        }
        self.push(Work::EmptyNamespace(namespace));
    }

    /// Records that work is queued again at a time. Returns false if this is already recorded.
    pub(crate) fn delay(&self, work: Work, until: Timestamp) -> bool {
        self.inner.lock().delayed.insert((work, until))
    }

    /// Queues work whose delay has ended.
    pub(crate) fn end_delay(&self, work: Work, until: Timestamp) {
        self.inner.lock().delayed.remove(&(work.clone(), until));
        self.push(work);
    }

    /// Records failed work for a later retry.
    pub(crate) fn fail(&self, work: Work) {
        self.inner.lock().failed.insert(work);
    }

    /// Reports whether failed work waits for a retry.
    pub(crate) fn has_failed(&self) -> bool {
        !self.inner.lock().failed.is_empty()
    }

    /// Reports whether nothing is queued.
    pub(crate) fn is_empty(&self) -> bool {
        self.inner.lock().items.is_empty()
    }

    /// Queues the failed work again.
    pub(crate) fn retry(&self) {
        let failed = std::mem::take(&mut self.inner.lock().failed);
        for work in failed {
            self.push(work);
        }
    }

    pub(crate) fn pop(&self) -> Option<Work> {
        let mut inner = self.inner.lock();
        let work = inner.items.pop_front()?;
        inner.queued.remove(&work);
        Some(work)
    }

    /// Waits until work is queued. The queue may be empty again when this function returns.
    pub(crate) async fn wait(&self) {
        if self.inner.lock().items.is_empty() {
            self.ready.notified().await;
        }
    }

    /// Queues an update of the quotas in a namespace if a change affects their usage.
    fn observe_usage(&self, table: &TableName, change: &Change) {
        let namespace = &*change.current().key.namespace;
        let has_quotas = {
            let mut inner = self.inner.lock();
            if &**table == QUOTAS && matches!(change, Change::Added(_)) {
                inner.with_quotas.insert(namespace.into());
            }
            !inner.with_quotas.is_empty() && inner.with_quotas.contains(namespace)
        };
        // Updates of other kinds do not change the status of a quota.
        let changes_usage = !matches!(change, Change::Modified { .. })
            || matches!(
                &**table,
                "pods" | "services" | "persistentvolumeclaims" | QUOTAS
            );
        if has_quotas && changes_usage {
            self.push(Work::QuotaStatus(namespace.into()));
        }
    }

    /// Queues updates of the objects that the server maintains itself, such as default service accounts.
    fn observe_maintained(&self, table: &TableName, change: &Change) {
        let object = change.current();
        match &**table {
            CLUSTER_ROLES => self.push(Work::Aggregation),
            NAMESPACES if matches!(change, Change::Added(_)) => {
                self.push(Work::DefaultAccount((&*object.key.name).into()));
                self.push(Work::RootCa((&*object.key.name).into()));
            }
            CONFIG_MAPS if &*object.key.name == ROOT_CA => {
                self.push(Work::RootCa((&*object.key.namespace).into()));
            }
            SERVICES | ENDPOINTS | ENDPOINT_SLICES if is_api_service(&object.key) => {
                self.push(Work::ApiService);
            }
            SERVICE_ACCOUNTS if matches!(change, Change::Deleted { .. }) => {
                self.push(Work::TokenSecrets((&*object.key.namespace).into()));
                if &*object.key.name == DEFAULT_ACCOUNT {
                    self.push(Work::DefaultAccount((&*object.key.namespace).into()));
                }
            }
            SECRETS if !matches!(change, Change::Deleted { .. }) && may_be_token_secret(object) => {
                self.push(Work::TokenSecret(object.key.clone()));
            }
            JOBS if !matches!(change, Change::Deleted { .. }) && may_expire(object) => {
                self.push(Work::ExpireJob(object.key.clone()));
            }
            _ => {}
        }
    }

    /// Queues the background work that a change causes. The caller has locked the store.
    pub(crate) fn observe(&self, table: &TableName, change: &Change) {
        let object = change.current();
        let location = || ObjectLocation {
            table: table.clone(),
            key: object.key.clone(),
        };
        self.observe_usage(table, change);
        self.observe_maintained(table, change);
        if webhook_registry::is_configuration(table) {
            // The changed webhook configuration may allow writes that a webhook refused.
            self.retry();
        }
        if let Change::Deleted { .. } = change {
            if !object.owners.is_empty() {
                self.inner.lock().refused.remove(&location());
            }
            self.push(Work::CollectDependents(object.uid.clone()));
            for owner in &object.owners {
                self.push(Work::ContinueDeletion(owner.uid.clone()));
            }
            let (namespace, definition) = {
                let mut inner = self.inner.lock();
                if &**table == NAMESPACES {
                    inner.terminating.remove(&*object.key.name);
                }
                if &**table == DEFINITIONS {
                    inner.definitions.remove(&*object.key.name);
                }
                (
                    inner.is_grace_over(&object.key.namespace),
                    inner.definitions.contains(&**table),
                )
            };
            if namespace {
                self.push(Work::EmptyNamespace((&*object.key.namespace).into()));
            }
            if definition {
                self.push(Work::EmptyDefinition((&**table).into()));
            }
            return;
        }
        if !object.owners.is_empty() {
            let was_refused = {
                let mut inner = self.inner.lock();
                !inner.refused.is_empty() && inner.refused.remove(&location())
            };
            if was_refused || change.before().is_none_or(|b| b.owners != object.owners) {
                self.push(Work::CheckOwners(location()));
            }
        }
        if !object.deleting {
            // An admission hook may have refused the deletion of this object, and may allow the deletion after the
            // change. A new grace period leaves time for further changes.
            let restart_grace = {
                let mut inner = self.inner.lock();
                let grace = inner.terminating.get_mut(&*object.key.namespace);
                grace.is_some_and(|grace| std::mem::replace(grace, Grace::Running) == Grace::Over)
            };
            if restart_grace {
                self.push(Work::StartGrace((&*object.key.namespace).into()));
            }
            return;
        }
        if object
            .finalizers
            .iter()
            .any(|f| f == FOREGROUND_FINALIZER || f == ORPHAN_FINALIZER)
        {
            self.push(Work::Finalize(location()));
        }
        if &**table == NAMESPACES {
            let name: Box<str> = (&*object.key.name).into();
            let mut inner = self.inner.lock();
            let is_new = !inner.terminating.contains_key(&name);
            if is_new {
                inner.terminating.insert(name.clone(), Grace::Running);
            }
            let is_grace_over = inner.is_grace_over(&name);
            drop(inner);
            if is_new {
                self.push(Work::StartGrace(name));
            } else if is_grace_over {
                self.push(Work::EmptyNamespace(name));
            }
        }
        if &**table == DEFINITIONS {
            self.inner
                .lock()
                .definitions
                .insert((&*object.key.name).into());
            self.push(Work::EmptyDefinition((&*object.key.name).into()));
        }
    }
}

/// Reports whether a key belongs to the Service of the API server.
fn is_api_service(key: &Key) -> bool {
    (&*key.namespace, &*key.name) == API_SERVICE
}

/// Reports whether a job may be finished and have a TTL. The job is not parsed, to keep the lock of the store short.
fn may_expire(job: &Stored) -> bool {
    std::str::from_utf8(&job.bytes).is_ok_and(|text| {
        text.contains("ttlSecondsAfterFinished")
            && (text.contains("\"Complete\"") || text.contains("\"Failed\""))
    })
}

/// Reports whether a secret may contain a service account token. The secret is not parsed, to keep the lock of the
/// store short.
pub(crate) fn may_be_token_secret(secret: &Stored) -> bool {
    std::str::from_utf8(&secret.bytes).is_ok_and(|text| text.contains(TOKEN_SECRET_TYPE))
}
