//! A cache of the managed objects in a member. It is filled by watch events and by the responses to writes of this
//! process.

use std::collections::HashMap;
use std::sync::Arc;

use berth_api::well_known::{WORK_NAME, WORK_NAMESPACE};
use berth_component_base::list_watch::Listing;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::api::DynamicObject;
use kube::core::TypeMeta;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::reconciler::informer::WatchEvent;
use crate::resource_type::ResourceType;
use berth_apimachinery::json_fields::{kind_of, text_at};

/// An object in a member.
#[derive(Debug)]
pub(super) struct MemberObject {
    /// The object, with `apiVersion` and `kind`.
    pub(super) value: Value,
    uid: String,
    /// The resource version, or 0 if the version is not a number.
    version: u64,
    /// The client of the member that set `spec.replicas` through the subresource `scale`, such as an autoscaler.
    scaled_by: Option<String>,
}

/// A change of the replicas by a client of the member that a write has undone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RevertedScale {
    /// Field manager of the client. Kubernetes' autoscaler is a part of kube-controller-manager.
    pub(crate) manager: String,
    /// The replicas that the client has set.
    pub(crate) from: Value,
    /// The replicas in the manifest.
    pub(crate) to: Value,
}

impl MemberObject {
    /// Converts an object of a resource type.
    pub(super) fn new(resource: &ResourceType, mut object: DynamicObject) -> Option<Self> {
        let scaled_by = object.metadata.managed_fields.take().and_then(scaler);
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
            scaled_by,
        })
    }

    /// Returns the change of the replicas by a client of the member that a write of `desired` undoes.
    pub(super) fn reverted_scale(&self, desired: &Value) -> Option<RevertedScale> {
        let replicas = |object: &Value| object.pointer("/spec/replicas").cloned();
        let (from, to) = (replicas(&self.value)?, replicas(desired)?);
        let manager = self.scaled_by.clone().filter(|_| from != to)?;
        Some(RevertedScale { manager, from, to })
    }

    fn key(&self) -> ObjectKey {
        ObjectKey::of(&self.value)
    }

    /// Returns the name of the object's Work, if the Work is in this namespace.
    pub(super) fn work(&self, execution_namespace: &str) -> Option<String> {
        let (namespace, name) = self.work_key()?;
        (namespace == execution_namespace).then(|| name.to_owned())
    }

    /// Returns the namespace and the name of the object's Work.
    fn work_key(&self) -> Option<(&str, &str)> {
        let annotations = self.value.pointer("/metadata/annotations")?;
        let namespace = annotations.get(WORK_NAMESPACE)?.as_str()?;
        Some((namespace, annotations.get(WORK_NAME)?.as_str()?))
    }
}

/// Returns the manager that owns `spec.replicas` because it has written the subresource `scale`.
fn scaler(managed_fields: Vec<ManagedFieldsEntry>) -> Option<String> {
    let mut entries = managed_fields.into_iter();
    let entry = entries.find(|entry| {
        let fields = entry.fields_v1.as_ref();
        entry.subresource.as_deref() == Some("scale")
            && fields.is_some_and(|fields| fields.0.pointer("/f:spec/f:replicas").is_some())
    })?;
    entry.manager
}

/// The namespace and name of an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ObjectKey {
    namespace: String,
    name: String,
}

impl ObjectKey {
    /// Returns the key of a manifest or object.
    fn of(manifest: &Value) -> Self {
        Self {
            namespace: text_at(manifest, "/metadata/namespace").to_owned(),
            name: text_at(manifest, "/metadata/name").to_owned(),
        }
    }
}

/// The result of a lookup in the cache.
#[derive(Clone, Debug)]
pub(super) enum Cached {
    /// The objects of the kind are not listed yet, so the object must be read from the member.
    Unknown,
    /// The member has no such managed object.
    Absent,
    /// The member has this managed object.
    Present(Arc<MemberObject>),
}

/// The `apiVersion` and `kind` of objects.
pub(super) type KindKey = (String, String);

/// The cache of a member, by kind.
#[derive(Debug, Default)]
pub(super) struct ObjectCache(HashMap<KindKey, KindCache>);

impl ObjectCache {
    /// Removes all objects and stops their watches.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns the cached object of a manifest.
    pub(super) fn get(&self, manifest: &Value) -> Cached {
        let (api_version, kind) = kind_of(manifest);
        let kind = (api_version.to_owned(), kind.to_owned());
        match self.0.get(&kind) {
            Some(objects) => objects.get(&ObjectKey::of(manifest)),
            None => Cached::Unknown,
        }
    }

    /// Reports whether the kind is cached with this resource type.
    pub(super) fn has_kind(&self, resource: &ResourceType) -> bool {
        let cached = self.0.get(&kind_key(resource));
        cached.is_some_and(|objects| *objects.resource == *resource)
    }

    /// Adds an empty cache for a kind. The token `watch` is cancelled when this cache is dropped.
    pub(super) fn add_kind(&mut self, resource: Arc<ResourceType>, watch: CancellationToken) {
        let key = kind_key(&resource);
        self.0.insert(key, KindCache::new(resource, watch));
    }

    /// Handles a watch event of a kind. Returns the affected objects, or `None` if the kind is not cached.
    pub(super) fn handle_watch_event(
        &mut self,
        kind: &KindKey,
        event: WatchEvent,
    ) -> Option<Vec<Arc<MemberObject>>> {
        Some(self.0.get_mut(kind)?.handle_watch_event(event))
    }

    /// Stores the response to a write, unless a watch has reported the deletion of the object since.
    pub(super) fn store_response(&mut self, resource: &ResourceType, object: MemberObject) {
        if let Some(objects) = self.0.get_mut(&kind_key(resource)) {
            objects.store_response(object);
        }
    }
}

/// Returns the key of a resource type's objects.
pub(super) fn kind_key(resource: &ResourceType) -> KindKey {
    (resource.api.api_version.clone(), resource.api.kind.clone())
}

/// The managed objects of one kind.
#[derive(Debug)]
struct KindCache {
    resource: Arc<ResourceType>,
    has_synced: bool,
    objects: HashMap<ObjectKey, Arc<MemberObject>>,
    /// The UIDs of deleted objects, which a late response must not restore.
    deleted: HashMap<ObjectKey, String>,
    watch: CancellationToken,
}

impl Drop for KindCache {
    fn drop(&mut self) {
        self.watch.cancel();
    }
}

impl KindCache {
    fn new(resource: Arc<ResourceType>, watch: CancellationToken) -> Self {
        Self {
            resource,
            has_synced: false,
            objects: HashMap::new(),
            deleted: HashMap::new(),
            watch,
        }
    }

    fn get(&self, key: &ObjectKey) -> Cached {
        match self.objects.get(key) {
            Some(object) => Cached::Present(Arc::clone(object)),
            None if self.has_synced => Cached::Absent,
            None => Cached::Unknown,
        }
    }

    /// Handles a watch event. Returns the objects that it changed or deleted. If an object now belongs to another Work,
    /// also returns the former object, because its Work has lost the object.
    fn handle_watch_event(&mut self, event: WatchEvent) -> Vec<Arc<MemberObject>> {
        match event {
            WatchEvent::Listed(listing) => {
                self.has_synced = true;
                let objects = &mut self.objects;
                let deleted =
                    objects.extract_if(|key, _| !listing.contains(&key.namespace, &key.name));
                let deleted: Vec<(ObjectKey, Arc<MemberObject>)> = deleted.collect();
                // Earlier deletions are dropped, because no late response about these objects is expected any more.
                self.deleted = deleted
                    .iter()
                    .map(|(key, object)| (key.clone(), object.uid.clone()))
                    .collect();
                deleted.into_iter().map(|(_, object)| object).collect()
            }
            // A kind that is not served has no objects. The watch may have missed the deletion of the former objects.
            WatchEvent::Unserved => self.handle_watch_event(WatchEvent::Listed(Listing::default())),
            WatchEvent::Applied(object) => {
                let Some(object) = MemberObject::new(&self.resource, *object) else {
                    return Vec::new();
                };
                let former = self.objects.get(&object.key()).map(Arc::clone);
                let Some(object) = self.store(object) else {
                    return Vec::new();
                };
                let former = former.filter(|former| former.work_key() != object.work_key());
                former.into_iter().chain([object]).collect()
            }
            WatchEvent::Deleted(object) => MemberObject::new(&self.resource, *object)
                .and_then(|object| self.remove(&object))
                .into_iter()
                .collect(),
        }
    }

    fn store_response(&mut self, object: MemberObject) {
        if self.deleted.get(&object.key()) != Some(&object.uid) {
            self.store(object);
        }
    }

    /// Stores an object, unless the same or a later version is cached. Returns the stored object.
    fn store(&mut self, object: MemberObject) -> Option<Arc<MemberObject>> {
        let key = object.key();
        if let Some(cached) = self.objects.get(&key)
            && cached.uid == object.uid
            && cached.version != 0
            && cached.version >= object.version
        {
            return None;
        }
        let object = Arc::new(object);
        self.objects.insert(key, Arc::clone(&object));
        Some(object)
    }

    /// Removes a deleted object, unless a new object of the same name is cached. Returns the removed object.
    fn remove(&mut self, object: &MemberObject) -> Option<Arc<MemberObject>> {
        let key = object.key();
        self.deleted.insert(key.clone(), object.uid.clone());
        if self.objects.get(&key)?.uid != object.uid {
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

    fn cache() -> KindCache {
        let api = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "ConfigMap"));
        let resource = ResourceType {
            api,
            namespaced: true,
        };
        KindCache::new(Arc::new(resource), CancellationToken::new())
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
    fn no_object_is_absent_before_the_first_list() {
        let mut cache = cache();
        assert!(matches!(cache.get(&key("a")), Cached::Unknown));
        cache.handle_watch_event(WatchEvent::Applied(object("a", "1", "1")));
        assert!(matches!(cache.get(&key("b")), Cached::Unknown));
        let listing = [&*object("a", "1", "1")].into_iter().collect();
        cache.handle_watch_event(WatchEvent::Listed(listing));
        assert!(matches!(cache.get(&key("a")), Cached::Present(_)));
        assert!(matches!(cache.get(&key("b")), Cached::Absent));
    }

    #[test]
    fn objects_missing_from_a_new_list_are_deleted_and_returned() {
        let mut cache = cache();
        cache.handle_watch_event(WatchEvent::Applied(object("a", "1", "1")));
        let nothing = WatchEvent::Listed(Listing::default());
        assert_eq!(cache.handle_watch_event(nothing).len(), 1);
        assert!(matches!(cache.get(&key("a")), Cached::Absent));
    }

    #[test]
    fn each_unserved_event_deletes_all_objects() {
        let mut cache = cache();
        for uid in ["1", "2"] {
            let response = MemberObject::new(&cache.resource, *object("a", uid, "1")).unwrap();
            cache.store_response(response);
            assert_eq!(cache.handle_watch_event(WatchEvent::Unserved).len(), 1);
            assert!(matches!(cache.get(&key("a")), Cached::Absent));
            assert!(cache.handle_watch_event(WatchEvent::Unserved).is_empty());
        }
    }

    #[test]
    fn a_late_response_does_not_restore_a_deleted_object() {
        let mut cache = cache();
        let response =
            |cache: &KindCache| MemberObject::new(&cache.resource, *object("a", "1", "5")).unwrap();
        cache.handle_watch_event(WatchEvent::Applied(object("a", "1", "4")));
        cache.handle_watch_event(WatchEvent::Listed(Listing::default()));
        let late = response(&cache);
        cache.store_response(late);
        assert!(matches!(cache.get(&key("a")), Cached::Absent));
        cache.handle_watch_event(WatchEvent::Applied(object("b", "2", "6")));
        cache.handle_watch_event(WatchEvent::Deleted(object("b", "2", "7")));
        let late = MemberObject::new(&cache.resource, *object("b", "2", "6")).unwrap();
        cache.store_response(late);
        assert!(matches!(cache.get(&key("b")), Cached::Absent));
        let recreated = MemberObject::new(&cache.resource, *object("b", "3", "8")).unwrap();
        cache.store_response(recreated);
        assert!(matches!(cache.get(&key("b")), Cached::Present(_)));
    }

    #[test]
    fn the_works_before_and_after_a_change_of_the_owner_are_affected() {
        let mut cache = cache();
        let mut event = |version: &str, namespace: &str| {
            let mut object = object("a", "1", version);
            let annotations = [(WORK_NAMESPACE, namespace), (WORK_NAME, "w")];
            object.metadata.annotations = Some(
                annotations
                    .map(|(key, value)| (key.to_owned(), value.to_owned()))
                    .into(),
            );
            let changed = cache.handle_watch_event(WatchEvent::Applied(object));
            let works = changed
                .iter()
                .map(|object| object.work_key().unwrap().0.to_owned());
            works.collect::<Vec<_>>()
        };
        assert_eq!(event("1", "karmada-es-m1"), ["karmada-es-m1"]);
        assert_eq!(event("2", "karmada-es-m1"), ["karmada-es-m1"]);
        assert_eq!(
            event("3", "karmada-es-east"),
            ["karmada-es-m1", "karmada-es-east"]
        );
    }

    #[test]
    fn a_write_that_undoes_a_scale_names_the_client_that_scaled() {
        let deployment = |subresource: &str, replicas: i64| {
            let object = json!({ "metadata": { "name": "a", "managedFields": [{
                    "manager": "kube-controller-manager", "operation": "Update", "subresource": subresource,
                    "fieldsV1": { "f:spec": { "f:replicas": {} } } }] },
                "spec": { "replicas": replicas } });
            MemberObject::new(&cache().resource, serde_json::from_value(object).unwrap()).unwrap()
        };
        let desired = json!({ "spec": { "replicas": 2 } });
        let reverted = RevertedScale {
            manager: "kube-controller-manager".to_owned(),
            from: json!(5),
            to: json!(2),
        };
        assert_eq!(
            deployment("scale", 5).reverted_scale(&desired),
            Some(reverted)
        );
        assert_eq!(deployment("scale", 2).reverted_scale(&desired), None);
        assert_eq!(deployment("", 5).reverted_scale(&desired), None);
    }

    #[test]
    fn stale_events_change_nothing() {
        let mut cache = cache();
        assert_eq!(
            cache
                .handle_watch_event(WatchEvent::Applied(object("a", "1", "5")))
                .len(),
            1
        );
        assert!(
            cache
                .handle_watch_event(WatchEvent::Applied(object("a", "1", "5")))
                .is_empty()
        );
        assert!(
            cache
                .handle_watch_event(WatchEvent::Applied(object("a", "1", "4")))
                .is_empty()
        );
        // The object is recreated before the deletion of the former object is reported.
        assert_eq!(
            cache
                .handle_watch_event(WatchEvent::Applied(object("a", "2", "7")))
                .len(),
            1
        );
        assert!(
            cache
                .handle_watch_event(WatchEvent::Deleted(object("a", "1", "6")))
                .is_empty()
        );
        assert!(matches!(cache.get(&key("a")), Cached::Present(_)));
        assert_eq!(
            cache
                .handle_watch_event(WatchEvent::Deleted(object("a", "2", "8")))
                .len(),
            1
        );
    }
}
