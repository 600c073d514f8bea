//! The handlers of the distributor's watch events. They update the index and queue jobs.

use std::sync::Arc;

use berth_api::BindingKey;
use kube::ResourceExt as _;
use kube::api::DynamicObject;

use super::reconciler::{Distributor, Job, Source};
use super::record::{BindingRecord, Object, ObjectKey, ObjectKind, Role};
use crate::interpreter_configuration::ChangedKinds;
use crate::reconciler::informer::WatchEvent;
use crate::reconciler::observe::{ObjectName, Observe};

impl Distributor {
    pub(super) fn handle_watch_event(&mut self, source: &Source, event: WatchEvent) {
        if let Source::Interpreter(kind) = source {
            let changed = self.customizations.handle(*kind, event);
            if !changed.is_empty() {
                self.enqueue_kinds(&changed);
            }
            return;
        }
        self.observe(source, event);
    }

    /// Queues the bindings of templates of the changed kinds, because the dependencies of these templates may have
    /// changed.
    fn enqueue_kinds(&mut self, changed: &ChangedKinds) {
        let keys = self.index.binding_keys().filter(|key| {
            let resource = self.index.binding(key).map(|record| &record.resource);
            resource.is_some_and(|resource| changed.contains(&resource.api_version, &resource.kind))
        });
        for key in keys.cloned().collect::<Vec<_>>() {
            self.enqueue(Job::Resolve(key));
        }
    }

    pub(super) fn handle_binding_applied(&mut self, object: &DynamicObject) {
        let new = match BindingRecord::read(object) {
            Ok(record) => Arc::new(record),
            Err(error) => {
                let key = BindingKey::of(&object.metadata);
                tracing::warn!(binding = &*key.name, %error, "cannot read a binding: it is ignored");
                return self.handle_binding_deleted(&key);
            }
        };
        let key = new.key.clone();
        let old = self.index.put_binding(Arc::clone(&new));
        if old.as_ref() == Some(&new) {
            return;
        }
        let old_role = old.as_ref().map_or(Role::Unrelated, |old| old.role());
        let new_role = new.role();
        let role_changed = old_role != new_role;
        let spec_changed = old.as_ref().is_none_or(|old| {
            (old.generation, &old.uid, &old.id) != (new.generation, &new.uid, &new.id)
        });
        let dependencies_changed = old.as_ref().is_none_or(|old| {
            (&old.annotation, old.has_finalizer()) != (&new.annotation, new.has_finalizer())
        });
        if new_role != Role::Unrelated && (spec_changed || dependencies_changed || role_changed) {
            self.enqueue(Job::Resolve(key.clone()));
        }
        let is_related = new_role != Role::Unrelated || old_role != Role::Unrelated;
        if is_related && (spec_changed || role_changed) {
            self.enqueue_attached(&key);
        }
        if self.index.is_relevant(&new.object()) {
            self.enqueue(Job::Attach(new.object()));
        }
        if let Some(old) = old {
            self.enqueue_detaching(&old);
        }
    }

    fn handle_binding_deleted(&mut self, key: &BindingKey) {
        // The dependencies are queued first, because the removal also removes them from the index.
        self.enqueue_attached(key);
        let Some(old) = self.index.remove_binding(key) else {
            return;
        };
        self.reported.remove(key);
        self.enqueue(Job::Attach(old.object()));
        self.enqueue_detaching(&old);
    }

    /// Queues the detaching bindings that an attached binding referred to, because this may have been the last
    /// reference.
    fn enqueue_detaching(&mut self, attached: &BindingRecord) {
        let labels = attached.depended_by.keys();
        let referenced = labels.filter_map(|label| self.index.binding_with_label(label));
        let detaching: Vec<BindingKey> = referenced
            .filter(|record| record.role() == Role::Detaching)
            .map(|record| record.key.clone())
            .collect();
        for key in detaching {
            self.enqueue(Job::Resolve(key));
        }
    }

    /// Queues the dependencies of a binding, and the objects of its attached bindings.
    pub(super) fn enqueue_attached(&mut self, key: &BindingKey) {
        let attached = self.index.attached_to(key);
        let mut objects: Vec<ObjectKey> = attached.map(|record| record.object()).collect();
        objects.extend(self.index.dependencies_of(key));
        for object in objects {
            self.enqueue(Job::Attach(object));
        }
    }
}

impl Observe for Distributor {
    type Source = Source;

    fn applied(&mut self, source: &Source, object: DynamicObject) {
        match source {
            Source::Bindings => self.handle_binding_applied(&object),
            Source::Interpreter(_) => {}
            Source::Objects(kind) => {
                let key = object_key(
                    kind,
                    &object.namespace().unwrap_or_default(),
                    &object.name_any(),
                );
                let is_changed = self.index.put_object(&key, Object::read(&object));
                if is_changed && self.index.is_relevant(&key) {
                    self.enqueue(Job::Attach(key));
                }
            }
        }
    }

    fn removed(&mut self, source: &Source, namespace: &str, name: &str) {
        match source {
            Source::Bindings => self.handle_binding_deleted(&BindingKey::new(namespace, name)),
            Source::Interpreter(_) => {}
            // The garbage collector deletes the binding of the object.
            Source::Objects(kind) => {
                self.index.remove_object(&object_key(kind, namespace, name));
            }
        }
    }

    fn names(&self, source: &Source) -> Vec<ObjectName> {
        match source {
            Source::Bindings => {
                let keys = self.index.binding_keys();
                keys.map(|key| (key.namespace_or_empty().to_owned(), key.name.to_string()))
                    .collect()
            }
            Source::Interpreter(_) => Vec::new(),
            Source::Objects(kind) => {
                let keys = self.index.objects_of(kind).into_iter();
                keys.map(|key| (key.namespace, key.name)).collect()
            }
        }
    }

    fn listed(&mut self, source: &Source) {
        match source {
            Source::Bindings => self.bindings_synced = true,
            Source::Interpreter(_) => {}
            Source::Objects(kind) => {
                for key in self.index.objects_of(kind) {
                    if self.index.is_relevant(&key) {
                        self.enqueue(Job::Attach(key));
                    }
                }
                self.index.listed.insert(kind.clone());
                for key in self.index.named_of(kind) {
                    self.enqueue(Job::Attach(key));
                }
            }
        }
    }
}

fn object_key(kind: &ObjectKind, namespace: &str, name: &str) -> ObjectKey {
    ObjectKey {
        kind: kind.clone(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    }
}
