//! The observed objects of one cluster-scoped kind.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;

use kube::ResourceExt as _;
use kube::api::DynamicObject;
use serde::de::DeserializeOwned;

use super::informer::WatchEvent;
use super::observe::{ObjectName, Observe, cluster_scoped};

/// The former state of an object whose new state cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Former {
    Kept,
    Removed,
}

/// A change of an object.
#[derive(Debug)]
pub(crate) struct Change<K> {
    pub(crate) name: String,
    pub(crate) old: Option<Arc<K>>,
    /// The new state, or `None` if the object was removed.
    pub(crate) new: Option<Arc<K>>,
}

/// The observed objects of a kind.
#[derive(Debug)]
pub(crate) struct Store<K> {
    /// The objects by name.
    pub(crate) objects: BTreeMap<String, Arc<K>>,
    /// True after the first list is complete.
    pub(crate) has_synced: bool,
    /// Logs that the object of this name cannot be read.
    unreadable: fn(&str, &dyn Display) -> Former,
    /// The changes of the current event.
    changes: Vec<Change<K>>,
}

impl<K: kube::Resource + DeserializeOwned> Store<K> {
    /// Returns an empty store. `unreadable` logs that the object of this name cannot be read.
    pub(crate) fn new(unreadable: fn(&str, &dyn Display) -> Former) -> Self {
        Self {
            objects: BTreeMap::new(),
            has_synced: false,
            unreadable,
            changes: Vec::new(),
        }
    }

    /// Updates the objects with a watch event. Returns the changes.
    pub(crate) fn handle(&mut self, event: WatchEvent) -> Vec<Change<K>> {
        self.observe(&(), event);
        std::mem::take(&mut self.changes)
    }
}

impl<K: kube::Resource + DeserializeOwned> Observe for Store<K> {
    type Source = ();

    fn applied(&mut self, (): &(), object: DynamicObject) {
        let name = object.name_any();
        match object.try_parse() {
            Ok(object) => {
                let new = Arc::new(object);
                self.changes.push(Change {
                    old: self.objects.insert(name.clone(), Arc::clone(&new)),
                    new: Some(new),
                    name,
                });
            }
            Err(error) => match (self.unreadable)(&name, &error) {
                Former::Kept => {}
                Former::Removed => self.removed(&(), "", &name),
            },
        }
    }

    fn removed(&mut self, (): &(), _: &str, name: &str) {
        if let Some(old) = self.objects.remove(name) {
            self.changes.push(Change {
                name: name.to_owned(),
                old: Some(old),
                new: None,
            });
        }
    }

    fn names(&self, (): &()) -> Vec<ObjectName> {
        cluster_scoped(self.objects.keys())
    }

    fn listed(&mut self, (): &()) {
        self.has_synced = true;
    }
}

#[cfg(test)]
mod tests {
    use berth_component_base::list_watch::Listing;
    use k8s_openapi::api::core::v1::Namespace;
    use serde_json::{Value, json};

    use super::*;

    fn object(name: &str, spec: Value) -> DynamicObject {
        serde_json::from_value(json!({ "apiVersion": "v1", "kind": "Namespace",
            "metadata": { "name": name }, "spec": spec }))
        .unwrap()
    }

    /// Applies an event. Returns the changes, such as `+a` for an added, `~a` for a changed and `-a` for a removed
    /// object.
    fn handle(store: &mut Store<Namespace>, event: WatchEvent) -> Vec<String> {
        let changes = store.handle(event).into_iter();
        let described = changes.map(|change| {
            let sign = match (change.old, change.new) {
                (None, _) => '+',
                (Some(_), Some(_)) => '~',
                (Some(_), None) => '-',
            };
            format!("{sign}{}", change.name)
        });
        described.collect()
    }

    #[test]
    fn a_list_removes_the_unlisted_objects() {
        let mut store = Store::new(|_, _| Former::Kept);
        let applied = |name| WatchEvent::Applied(Box::new(object(name, json!({}))));
        for name in ["a", "b", "c"] {
            assert_eq!(handle(&mut store, applied(name)), [format!("+{name}")]);
        }
        assert_eq!(handle(&mut store, applied("a")), ["~a"]);
        let deleted = WatchEvent::Deleted(Box::new(object("a", json!({}))));
        assert_eq!(handle(&mut store, deleted), ["-a"]);
        assert!(handle(&mut store, WatchEvent::Unserved).is_empty());
        assert!(!store.has_synced);
        let listing = Listing::from_iter([&object("c", json!({}))]);
        assert_eq!(handle(&mut store, WatchEvent::Listed(listing)), ["-b"]);
        assert!(store.has_synced && store.objects.contains_key("c"));
    }

    #[test]
    fn an_unreadable_state_keeps_or_removes_the_former_state() {
        let kept = Store::new(|_, _| Former::Kept);
        let removed = Store::new(|_, _| Former::Removed);
        for (mut store, changes) in [(kept, &[][..]), (removed, &["-a"])] {
            let applied = |spec| WatchEvent::Applied(Box::new(object("a", spec)));
            handle(&mut store, applied(json!({})));
            assert_eq!(handle(&mut store, applied(json!("broken"))), changes);
        }
    }
}
