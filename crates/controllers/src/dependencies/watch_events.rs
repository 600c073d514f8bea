//! How observations change what is known, and what has to be looked at because of them.

use std::sync::Arc;

use kube::api::DynamicObject;

use super::owner::{Job, Owner, Source};
use super::record::{Kind, Object, ObjectKey, Record, Role, key_of};
use crate::binding_key::BindingKey;
use crate::informer::{Listing, Observation};

impl Owner {
    pub(super) fn take_in(&mut self, source: Source, observation: Observation) {
        match observation {
            Observation::Listed(listing) => self.list_done(&source, &listing),
            Observation::Applied(object) => self.applied(&source, &object),
            Observation::Deleted(object) => self.deleted(&source, &key_of(&object)),
            Observation::Unserved => {}
        }
    }

    fn applied(&mut self, source: &Source, object: &DynamicObject) {
        match source {
            Source::Bindings => self.binding_applied(object),
            Source::Objects(kind) => {
                let key = object_key(kind, &key_of(object));
                if self.index.keep_object(&key, Object::read(object)) && self.index.concerns(&key) {
                    self.enqueue(Job::Attach(key));
                }
            }
        }
    }

    fn deleted(&mut self, source: &Source, key: &BindingKey) {
        match source {
            Source::Bindings => self.binding_deleted(key),
            // Its binding is collected.
            Source::Objects(kind) => self.index.forget_object(&object_key(kind, key)),
        }
    }

    /// What was known and is not in a new list has been deleted meanwhile.
    fn list_done(&mut self, source: &Source, seen: &Listing) {
        match source {
            Source::Bindings => {
                let known = self.index.binding_keys();
                let gone: Vec<BindingKey> = known
                    .filter(|key| !seen.contains(&key.namespace, &key.name))
                    .cloned()
                    .collect();
                for key in gone {
                    self.binding_deleted(&key);
                }
                self.bindings_listed = true;
            }
            Source::Objects(kind) => {
                for key in self.index.objects_of(kind) {
                    if !seen.contains(&key.namespace, &key.name) {
                        self.index.forget_object(&key);
                    } else if self.index.concerns(&key) {
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

    pub(super) fn binding_applied(&mut self, object: &DynamicObject) {
        let new = match Record::read(object) {
            Ok(record) => Arc::new(record),
            Err(error) => {
                let key = key_of(object);
                tracing::warn!(binding = key.name, %error, "cannot read a binding: it is left alone");
                return self.binding_deleted(&key);
            }
        };
        let key = new.key.clone();
        let old = self.index.keep_binding(Arc::clone(&new));
        if old.as_ref() == Some(&new) {
            return;
        }
        let role = |record: &Option<Arc<Record>>| record.as_ref().map_or(Role::Alone, |r| r.role());
        let (was, is) = (role(&old), new.role());
        let respecified = old.as_ref().is_none_or(|old| {
            (old.generation, &old.uid, &old.id) != (new.generation, &new.uid, &new.id)
        });
        let renoted = old.as_ref().is_none_or(|old| {
            (&old.annotation, old.is_guarded()) != (&new.annotation, new.is_guarded())
        });
        if is != Role::Alone && (respecified || renoted || was != is) {
            self.enqueue(Job::Explore(key.clone()));
        }
        if (is != Role::Alone || was != Role::Alone) && (respecified || was != is) {
            self.touch(&key);
        }
        if self.index.concerns(&new.object()) {
            self.enqueue(Job::Attach(new.object()));
        }
        if let Some(old) = old {
            self.may_go(&old);
        }
    }

    fn binding_deleted(&mut self, key: &BindingKey) {
        // Before what it names is forgotten.
        self.touch(key);
        let Some(old) = self.index.forget_binding(key) else {
            return;
        };
        self.told.remove(key);
        self.enqueue(Job::Attach(old.object()));
        self.may_go(&old);
    }

    /// A binding was followed by those whom this one followed: they may go when nobody does any more.
    fn may_go(&mut self, attached: &Record) {
        let labels = attached.depended_by.keys();
        let followed = labels.filter_map(|label| self.index.followed_by_label(label));
        let left: Vec<BindingKey> = followed
            .filter(|record| record.role() == Role::Left)
            .map(|record| record.key.clone())
            .collect();
        for key in left {
            self.enqueue(Job::Explore(key));
        }
    }

    /// Looks at everything that a binding names, and at everything that says it does.
    pub(super) fn touch(&mut self, key: &BindingKey) {
        let attached = self.index.attached_to(key);
        let mut objects: Vec<ObjectKey> = attached.map(|record| record.object()).collect();
        objects.extend(self.index.named_by(key));
        for object in objects {
            self.enqueue(Job::Attach(object));
        }
    }
}

fn object_key(kind: &Kind, key: &BindingKey) -> ObjectKey {
    ObjectKey {
        kind: kind.clone(),
        namespace: key.namespace.clone(),
        name: key.name.clone(),
    }
}
