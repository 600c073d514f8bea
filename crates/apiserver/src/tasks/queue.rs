//! Work that writes cause. Filled while the store is locked, so it only notes what to look at; each item is
//! queued once however often it comes up.

use std::collections::{HashMap, HashSet, VecDeque};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::accounts::DEFAULT;
use super::aggregation::CLUSTER_ROLES;
use super::kubernetes_service;
use super::root_ca::ROOT_CA;
use super::tokens::{self, SECRETS};
use crate::quota::QUOTAS;
use crate::shared::CRDS;
use crate::store::{Change, Dependent, Key, TableName};
use crate::verbs::delete::{FOREGROUND, ORPHAN};
use crate::webhooks;

/// Something to look at.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Work {
    /// The object with this uid is gone: what becomes of its dependents?
    OwnerGone(Box<str>),
    /// A dependent of this one is gone: does that end a foreground deletion?
    Owner(Box<str>),
    /// Do the owners of this object exist?
    Check(Dependent),
    /// A terminating object with a garbage collection finalizer.
    Finalize(Dependent),
    /// A namespace whose deletion has begun.
    Terminating(Box<str>),
    /// A terminating namespace to be emptied.
    Namespace(Box<str>),
    /// A terminating CRD.
    Definition(Box<str>),
    /// A namespace that may want a default service account.
    Account(Box<str>),
    /// A namespace that may want the certificate of the authority.
    RootCa(Box<str>),
    /// The service of the API itself, or an address of it, has changed.
    ApiService,
    /// A secret that may be for a token of a service account.
    Token(Key),
    /// A namespace that a service account is gone from.
    Tokens(Box<str>),
    /// A namespace with quotas, whose use may have changed.
    Quotas(Box<str>),
    /// A ClusterRole has changed: those that aggregate others may have to.
    Aggregation,
}

/// Whether the content of a terminating namespace may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Grace {
    Running,
    Over,
}

#[derive(Debug, Default)]
struct Inner {
    items: VecDeque<Work>,
    queued: HashSet<Work>,
    /// Namespaces and CRD tables being emptied: deletes in them are worth a look.
    terminating: HashMap<Box<str>, Grace>,
    definitions: HashSet<Box<str>>,
    /// Namespaces that have or had quotas.
    limited: HashSet<Box<str>>,
    /// Work that failed, perhaps because of a webhook, and is tried again after a while.
    failed: HashSet<Work>,
    /// Objects whose collection was refused: whatever refused it may not after they change.
    refused: HashSet<Dependent>,
}

impl Inner {
    fn is_emptied(&self, namespace: &str) -> bool {
        self.terminating.get(namespace) == Some(&Grace::Over)
    }
}

/// See the module documentation.
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

    /// Notes that an object could not be collected, to try again when it changes.
    pub(crate) fn refused(&self, place: Dependent) {
        self.inner.lock().refused.insert(place);
    }

    /// Lets the content of a terminating namespace go.
    pub(crate) fn end_grace(&self, namespace: Box<str>) {
        if let Some(grace) = self.inner.lock().terminating.get_mut(&namespace) {
            *grace = Grace::Over;
        } else {
            return;
        }
        self.push(Work::Namespace(namespace));
    }

    /// Notes that work failed, to try again after a while.
    pub(crate) fn fail(&self, work: Work) {
        self.inner.lock().failed.insert(work);
    }

    /// Reports whether there is work to try again.
    pub(crate) fn has_failed(&self) -> bool {
        !self.inner.lock().failed.is_empty()
    }

    /// Reports whether nothing is queued.
    pub(crate) fn is_empty(&self) -> bool {
        self.inner.lock().items.is_empty()
    }

    /// Queues the work that failed.
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

    /// Waits until there may be work.
    pub(crate) async fn wait(&self) {
        if self.inner.lock().items.is_empty() {
            self.ready.notified().await;
        }
    }

    /// Notes that the use of quotas may have changed.
    fn observe_use(&self, table: &TableName, change: &Change) {
        let namespace = &*change.current().key.namespace;
        let limited = {
            let mut inner = self.inner.lock();
            if &**table == QUOTAS && matches!(change, Change::Added(_)) {
                inner.limited.insert(namespace.into());
            }
            !inner.limited.is_empty() && inner.limited.contains(namespace)
        };
        // What is changed in place may use more or less only for some kinds.
        let counts = !matches!(change, Change::Modified { .. })
            || matches!(
                &**table,
                "pods" | "services" | "persistentvolumeclaims" | QUOTAS
            );
        if limited && counts {
            self.push(Work::Quotas(namespace.into()));
        }
    }

    /// Notes what a change of objects of certain kinds means for what the server keeps up itself.
    fn observe_kind(&self, table: &TableName, change: &Change) {
        let object = change.current();
        match &**table {
            CLUSTER_ROLES => self.push(Work::Aggregation),
            "namespaces" if matches!(change, Change::Added(_)) => {
                self.push(Work::Account((&*object.key.name).into()));
                self.push(Work::RootCa((&*object.key.name).into()));
            }
            "configmaps" if &*object.key.name == ROOT_CA => {
                self.push(Work::RootCa((&*object.key.namespace).into()));
            }
            table if kubernetes_service::is_part(table, &object.key) => {
                self.push(Work::ApiService);
            }
            "serviceaccounts" if matches!(change, Change::Deleted { .. }) => {
                self.push(Work::Tokens((&*object.key.namespace).into()));
                if &*object.key.name == DEFAULT {
                    self.push(Work::Account((&*object.key.namespace).into()));
                }
            }
            SECRETS if !matches!(change, Change::Deleted { .. }) && tokens::may_be_one(object) => {
                self.push(Work::Token(object.key.clone()));
            }
            _ => {}
        }
    }

    /// Notes what a change means. Called with the store locked.
    pub(crate) fn observe(&self, table: &TableName, change: &Change) {
        let object = change.current();
        let place = || Dependent {
            table: table.clone(),
            key: object.key.clone(),
        };
        self.observe_use(table, change);
        self.observe_kind(table, change);
        if webhooks::is_configuration(table) {
            // What a webhook has refused, another one may allow.
            self.retry();
        }
        if let Change::Deleted { .. } = change {
            if !object.owners.is_empty() {
                self.inner.lock().refused.remove(&place());
            }
            self.push(Work::OwnerGone(object.uid.clone()));
            for owner in &object.owners {
                self.push(Work::Owner(owner.uid.clone()));
            }
            let (namespace, definition) = {
                let mut inner = self.inner.lock();
                if &**table == "namespaces" {
                    inner.terminating.remove(&*object.key.name);
                }
                if &**table == CRDS {
                    inner.definitions.remove(&*object.key.name);
                }
                (
                    inner.is_emptied(&object.key.namespace),
                    inner.definitions.contains(&**table),
                )
            };
            if namespace {
                self.push(Work::Namespace((&*object.key.namespace).into()));
            }
            if definition {
                self.push(Work::Definition((&**table).into()));
            }
            return;
        }
        if !object.owners.is_empty() {
            let regained = {
                let mut inner = self.inner.lock();
                !inner.refused.is_empty() && inner.refused.remove(&place())
            };
            if regained || change.before().is_none_or(|b| b.owners != object.owners) {
                self.push(Work::Check(place()));
            }
        }
        if !object.deleting {
            // A hook may have refused its deletion, and may not after this change. Its author may have more to change, such as
            // the namespace.
            let again = {
                let mut inner = self.inner.lock();
                let grace = inner.terminating.get_mut(&*object.key.namespace);
                grace.is_some_and(|grace| std::mem::replace(grace, Grace::Running) == Grace::Over)
            };
            if again {
                self.push(Work::Terminating((&*object.key.namespace).into()));
            }
            return;
        }
        if object
            .finalizers
            .iter()
            .any(|f| f == FOREGROUND || f == ORPHAN)
        {
            self.push(Work::Finalize(place()));
        }
        if &**table == "namespaces" {
            let name: Box<str> = (&*object.key.name).into();
            let mut inner = self.inner.lock();
            let is_new = !inner.terminating.contains_key(&name);
            if is_new {
                inner.terminating.insert(name.clone(), Grace::Running);
            }
            let is_emptied = inner.is_emptied(&name);
            drop(inner);
            if is_new {
                self.push(Work::Terminating(name));
            } else if is_emptied {
                self.push(Work::Namespace(name));
            }
        }
        if &**table == CRDS {
            self.inner
                .lock()
                .definitions
                .insert((&*object.key.name).into());
            self.push(Work::Definition((&*object.key.name).into()));
        }
    }
}
