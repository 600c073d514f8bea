//! The claimed templates that the detector has observed lately. The propagation reads them here and not from the server.
//!
//! The cache is bounded: a template that is missing is read from the server. A template in the cache may be older than
//! that of the server, but never older than the version that the detector has written into the binding.

use std::sync::{Arc, Mutex, PoisonError};

use berth_api::binding::ObjectReference;
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use kube::core::TypeMeta;
use lru::LruCache;
use serde_json::Value;

/// Maximum size of all templates together, in bytes as [`estimated_bytes`] estimates them.
const MAX_BYTES: usize = 32 << 20;
/// Maximum size of one template.
const MAX_TEMPLATE_BYTES: usize = 256 << 10;

/// The recently observed templates. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct RecentTemplates(Arc<Mutex<Cache>>);

#[derive(Debug)]
struct Cache {
    templates: LruCache<Key, (Arc<DynamicObject>, usize)>,
    bytes: usize,
}

impl Default for Cache {
    fn default() -> Self {
        Self {
            templates: LruCache::unbounded(),
            bytes: 0,
        }
    }
}

/// API version, kind, namespace and name.
type Key = (String, String, String, String);

impl RecentTemplates {
    /// Stores a new version of a template. An older version is ignored.
    pub(crate) fn store(&self, api_version: &str, kind: &str, mut template: DynamicObject) {
        // Watches and responses may lack `apiVersion` and `kind`.
        template.types = Some(TypeMeta {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
        });
        template.metadata.managed_fields = None;
        let key = (
            api_version.to_owned(),
            kind.to_owned(),
            template.namespace().unwrap_or_default(),
            template.name_any(),
        );
        let size = estimated_bytes(&template.data);
        self.with(|cache| {
            if let Some((known, _)) = cache.templates.peek(&key)
                && known.uid() == template.uid()
                && version(known) > version(&template)
            {
                return;
            }
            cache.remove(&key);
            if size > MAX_TEMPLATE_BYTES {
                return;
            }
            cache.bytes += size;
            cache.templates.put(key, (Arc::new(template), size));
            while cache.bytes > MAX_BYTES {
                let Some((_, (_, evicted))) = cache.templates.pop_lru() else {
                    return;
                };
                cache.bytes -= evicted;
            }
        });
    }

    /// Removes a deleted template.
    pub(crate) fn remove(&self, api_version: &str, kind: &str, namespace: &str, name: &str) {
        let key = (
            api_version.to_owned(),
            kind.to_owned(),
            namespace.to_owned(),
            name.to_owned(),
        );
        self.with(|cache| cache.remove(&key));
    }

    /// Returns the template of a binding, if it is stored and not older than the version in the binding.
    pub(crate) fn get(&self, reference: &ObjectReference) -> Option<Arc<DynamicObject>> {
        let key = (
            reference.api_version.clone(),
            reference.kind.clone(),
            reference.namespace.clone().unwrap_or_default(),
            reference.name.clone(),
        );
        let template = self.with(|cache| {
            let found = cache.templates.get(&key);
            found.map(|(template, _)| Arc::clone(template))
        })?;
        let wanted = reference.resource_version.as_deref();
        let wanted: Option<u64> = wanted.and_then(|version| version.parse().ok());
        let is_same = template.uid() == reference.uid;
        (is_same && wanted.is_some() && version(&template) >= wanted).then_some(template)
    }

    fn with<T>(&self, action: impl FnOnce(&mut Cache) -> T) -> T {
        action(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Cache {
    fn remove(&mut self, key: &Key) {
        if let Some((_, size)) = self.templates.pop(key) {
            self.bytes -= size;
        }
    }
}

fn version(object: &DynamicObject) -> Option<u64> {
    object.metadata.resource_version.as_deref()?.parse().ok()
}

/// Returns the estimated memory of a JSON value in bytes.
fn estimated_bytes(value: &Value) -> usize {
    const NODE: usize = size_of::<Value>();
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => NODE,
        Value::String(text) => NODE + text.len(),
        Value::Array(items) => NODE + items.iter().map(estimated_bytes).sum::<usize>(),
        Value::Object(fields) => {
            let of_field = |(name, field): (&String, _)| NODE + name.len() + estimated_bytes(field);
            NODE + fields.iter().map(of_field).sum::<usize>()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn template(uid: &str, version: &str, text: &str) -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": "a", "namespace": "n", "uid": uid, "resourceVersion": version },
            "data": { "text": text },
        }))
        .unwrap()
    }

    fn reference(uid: &str, version: &str) -> ObjectReference {
        serde_json::from_value(json!({
            "apiVersion": "v1", "kind": "ConfigMap", "namespace": "n", "name": "a",
            "uid": uid, "resourceVersion": version,
        }))
        .unwrap()
    }

    #[test]
    fn a_template_is_never_older_than_its_binding_expects() {
        let templates = RecentTemplates::default();
        templates.store("v1", "ConfigMap", template("u", "7", ""));
        for (uid, version, expected) in [
            ("u", "7", true),
            ("u", "6", true),
            ("u", "8", false),
            ("other", "7", false),
            ("u", "", false),
        ] {
            let found = templates.get(&reference(uid, version));
            assert_eq!(found.is_some(), expected, "{uid} {version}");
        }
        templates.store("v1", "ConfigMap", template("u", "5", ""));
        assert!(templates.get(&reference("u", "7")).is_some());
        templates.remove("v1", "ConfigMap", "n", "a");
        assert!(templates.get(&reference("u", "5")).is_none());
    }

    #[test]
    fn large_templates_are_not_kept_and_old_ones_make_room() {
        let templates = RecentTemplates::default();
        let large = "x".repeat(MAX_TEMPLATE_BYTES);
        templates.store("v1", "ConfigMap", template("u", "1", ""));
        templates.store("v1", "ConfigMap", template("u", "2", &large));
        assert!(templates.get(&reference("u", "1")).is_none());

        let text = "x".repeat(MAX_TEMPLATE_BYTES / 2);
        for number in 0..MAX_BYTES / text.len() + 10 {
            let mut template = template("u", "1", &text);
            template.metadata.name = Some(format!("t{number}"));
            templates.store("v1", "ConfigMap", template);
        }
        templates.with(|cache| {
            assert!(cache.bytes <= MAX_BYTES && cache.templates.len() > 10);
            let sum: usize = cache.templates.iter().map(|(_, (_, size))| size).sum();
            assert_eq!(cache.bytes, sum);
        });
    }
}
