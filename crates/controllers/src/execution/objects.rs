//! What has been seen in a member, by kind.

use std::collections::HashMap;
use std::sync::Arc;

use berth_api::well_known::{WORK_NAME, WORK_NAMESPACE};
use kube::api::DynamicObject;
use kube::core::TypeMeta;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::informer::{Listing, Observation};
use crate::resource_type::ResourceType;

/// An object in a member.
#[derive(Debug)]
pub(super) struct Seen {
    /// The object, with its kind.
    pub(super) value: Value,
    uid: String,
    /// Greater is later; 0 where the server counts otherwise.
    version: u64,
}

impl Seen {
    /// Keeps an object of a kind.
    pub(super) fn new(resource: &ResourceType, mut object: DynamicObject) -> Option<Self> {
        object.metadata.managed_fields = None;
        object.types = Some(TypeMeta {
            api_version: resource.api.api_version.clone(),
            kind: resource.api.kind.clone(),
        });
        let uid = object.metadata.uid.clone().unwrap_or_default();
        let version = object.metadata.resource_version.as_deref();
        let version = version.and_then(|text| text.parse().ok()).unwrap_or(0);
        let value = serde_json::to_value(object).ok()?;
        Some(Self {
            value,
            uid,
            version,
        })
    }

    fn key(&self) -> ObjectKey {
        ObjectKey::of(&self.value)
    }

    /// The Work that it came from, if that lies in this namespace.
    pub(super) fn work(&self, execution_namespace: &str) -> Option<String> {
        let annotations = self.value.pointer("/metadata/annotations")?;
        let namespace = annotations.get(WORK_NAMESPACE)?.as_str()?;
        let name = annotations.get(WORK_NAME)?.as_str()?;
        (namespace == execution_namespace).then(|| name.to_owned())
    }
}

/// Names an object among those of its kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ObjectKey {
    namespace: String,
    name: String,
}

impl ObjectKey {
    /// The key of a manifest or object.
    pub(super) fn of(manifest: &Value) -> Self {
        let text = |pointer: &str| {
            let value = manifest.pointer(pointer).and_then(Value::as_str);
            value.unwrap_or_default().to_owned()
        };
        Self {
            namespace: text("/metadata/namespace"),
            name: text("/metadata/name"),
        }
    }
}

/// What is known of an object.
#[derive(Clone, Debug)]
pub(super) enum Known {
    /// Nothing: it has to be asked for.
    Unknown,
    /// That there is none which came from here.
    Absent,
    /// This.
    Present(Arc<Seen>),
}

/// The objects of one kind that came from here.
#[derive(Debug)]
pub(super) struct KindView {
    resource: Arc<ResourceType>,
    listed: bool,
    objects: HashMap<ObjectKey, Arc<Seen>>,
    /// The UIDs of objects that are gone: an answer from before may come late, and must not bring them back.
    gone: HashMap<ObjectKey, String>,
    end: CancellationToken,
}

impl Drop for KindView {
    fn drop(&mut self) {
        self.end.cancel();
    }
}

impl KindView {
    /// Nothing is known yet; the token ends the watch.
    pub(super) fn new(resource: Arc<ResourceType>, end: CancellationToken) -> Self {
        Self {
            resource,
            listed: false,
            objects: HashMap::new(),
            gone: HashMap::new(),
            end,
        }
    }

    /// Whether it shows the kind as it is served like this.
    pub(super) fn is_of(&self, resource: &ResourceType) -> bool {
        *self.resource == *resource
    }

    /// What is known of an object.
    pub(super) fn get(&self, key: &ObjectKey) -> Known {
        match self.objects.get(key) {
            Some(seen) => Known::Present(Arc::clone(seen)),
            None if self.listed => Known::Absent,
            None => Known::Unknown,
        }
    }

    /// Takes in what a watch says; the objects that are to be looked at because of that.
    pub(super) fn observe(&mut self, observation: Observation) -> Vec<Arc<Seen>> {
        match observation {
            Observation::Listed(listing) => {
                self.listed = true;
                let objects = &mut self.objects;
                let gone =
                    objects.extract_if(|key, _| !listing.contains(&key.namespace, &key.name));
                let gone: Vec<(ObjectKey, Arc<Seen>)> = gone.collect();
                // What the list lacks is all that an answer can be late for.
                self.gone = gone
                    .iter()
                    .map(|(key, seen)| (key.clone(), seen.uid.clone()))
                    .collect();
                gone.into_iter().map(|(_, seen)| seen).collect()
            }
            // Nobody has told of the end of its objects if the watch was not there at that moment.
            Observation::Unserved => self.observe(Observation::Listed(Listing::default())),
            Observation::Applied(object) => Seen::new(&self.resource, *object)
                .and_then(|seen| self.keep(seen))
                .into_iter()
                .collect(),
            Observation::Deleted(object) => Seen::new(&self.resource, *object)
                .and_then(|seen| self.forget(&seen))
                .into_iter()
                .collect(),
        }
    }

    /// Keeps what the member has answered to a write, unless the watch knows better.
    pub(super) fn keep_answer(&mut self, seen: Seen) {
        if self.gone.get(&seen.key()) != Some(&seen.uid) {
            self.keep(seen);
        }
    }

    /// Keeps an object unless a later version is known.
    fn keep(&mut self, seen: Seen) -> Option<Arc<Seen>> {
        let key = seen.key();
        if let Some(known) = self.objects.get(&key)
            && known.uid == seen.uid
            && known.version != 0
            && known.version >= seen.version
        {
            return None;
        }
        let seen = Arc::new(seen);
        self.objects.insert(key, Arc::clone(&seen));
        Some(seen)
    }

    /// An object is gone, unless it is known to have come back since.
    fn forget(&mut self, seen: &Seen) -> Option<Arc<Seen>> {
        let key = seen.key();
        self.gone.insert(key.clone(), seen.uid.clone());
        if self.objects.get(&key)?.uid != seen.uid {
            return None;
        }
        self.objects.remove(&key)
    }
}

#[cfg(test)]
mod tests {
    use kube::core::{ApiResource, GroupVersionKind};
    use serde_json::json;

    use super::*;

    fn view() -> KindView {
        let api = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "ConfigMap"));
        let resource = ResourceType {
            api,
            namespaced: true,
        };
        KindView::new(Arc::new(resource), CancellationToken::new())
    }

    fn object(name: &str, uid: &str, version: &str) -> Box<DynamicObject> {
        Box::new(
            serde_json::from_value(
                json!({"metadata": {"name": name, "uid": uid, "resourceVersion": version}}),
            )
            .unwrap(),
        )
    }

    fn key(name: &str) -> ObjectKey {
        ObjectKey {
            namespace: String::new(),
            name: name.to_owned(),
        }
    }

    #[test]
    fn before_the_list_is_complete_nothing_is_known_to_be_absent() {
        let mut view = view();
        assert!(matches!(view.get(&key("a")), Known::Unknown));
        view.observe(Observation::Applied(object("a", "1", "1")));
        assert!(matches!(view.get(&key("b")), Known::Unknown));
        let listing = [&*object("a", "1", "1")].into_iter().collect();
        view.observe(Observation::Listed(listing));
        assert!(matches!(view.get(&key("a")), Known::Present(_)));
        assert!(matches!(view.get(&key("b")), Known::Absent));
    }

    #[test]
    fn what_a_new_list_lacks_is_gone_and_looked_at() {
        let mut view = view();
        view.observe(Observation::Applied(object("a", "1", "1")));
        let nothing = Observation::Listed(Listing::default());
        assert_eq!(view.observe(nothing).len(), 1);
        assert!(matches!(view.get(&key("a")), Known::Absent));
    }

    #[test]
    fn of_a_kind_that_is_not_served_everything_is_gone_each_time_that_is_said() {
        let mut view = view();
        for uid in ["1", "2"] {
            let answer = Seen::new(&view.resource, *object("a", uid, "1")).unwrap();
            view.keep_answer(answer);
            assert_eq!(view.observe(Observation::Unserved).len(), 1);
            assert!(matches!(view.get(&key("a")), Known::Absent));
            assert!(view.observe(Observation::Unserved).is_empty());
        }
    }

    #[test]
    fn a_late_answer_brings_nothing_back() {
        let mut view = view();
        let answer = |view: &KindView| Seen::new(&view.resource, *object("a", "1", "5")).unwrap();
        view.observe(Observation::Applied(object("a", "1", "4")));
        view.observe(Observation::Listed(Listing::default()));
        let late = answer(&view);
        view.keep_answer(late);
        assert!(matches!(view.get(&key("a")), Known::Absent));
        view.observe(Observation::Applied(object("b", "2", "6")));
        view.observe(Observation::Deleted(object("b", "2", "7")));
        let late = Seen::new(&view.resource, *object("b", "2", "6")).unwrap();
        view.keep_answer(late);
        assert!(matches!(view.get(&key("b")), Known::Absent));
        let anew = Seen::new(&view.resource, *object("b", "3", "8")).unwrap();
        view.keep_answer(anew);
        assert!(matches!(view.get(&key("b")), Known::Present(_)));
    }

    #[test]
    fn old_news_changes_nothing() {
        let mut view = view();
        assert_eq!(
            view.observe(Observation::Applied(object("a", "1", "5")))
                .len(),
            1
        );
        assert!(
            view.observe(Observation::Applied(object("a", "1", "5")))
                .is_empty()
        );
        assert!(
            view.observe(Observation::Applied(object("a", "1", "4")))
                .is_empty()
        );
        // Deleted and made anew meanwhile: the news of the old one's end comes late.
        assert_eq!(
            view.observe(Observation::Applied(object("a", "2", "7")))
                .len(),
            1
        );
        assert!(
            view.observe(Observation::Deleted(object("a", "1", "6")))
                .is_empty()
        );
        assert!(matches!(view.get(&key("a")), Known::Present(_)));
        assert_eq!(
            view.observe(Observation::Deleted(object("a", "2", "8")))
                .len(),
            1
        );
    }
}
