//! A cache of the labels and QoS classes of templates. A template is the object that a binding propagates.
//!
//! A binding lacks the labels of its template and the limits of its pods. The cache reads both from the template. The
//! first lookup of a template starts a watch of all templates of its kind. The cache keeps three labels and a QoS class
//! of each template.

mod kind_watch;
mod qos;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use berth_api::{Binding, BindingKey};
use kube::Client;
use kube::core::GroupVersionKind;
use tokio_util::sync::CancellationToken;

pub use self::qos::QosClass;

/// Labels of templates that the cache keeps.
pub const LABELS: [&str; 3] = ["podGroup", "minAvailable", "groupPriority"];

/// Cached properties of a template.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TemplateProperties {
    /// The template's labels whose names are in [`LABELS`].
    pub labels: BTreeMap<&'static str, String>,
    /// QoS class of the template's pods.
    pub qos: QosClass,
}

/// Result of a template lookup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// The templates of the kind are being read. The binding is requeued afterwards.
    Pending,
    /// The template exists.
    Known(TemplateProperties),
    /// The template does not exist, or the watch has not reported it yet. The binding is requeued when the template
    /// appears.
    Absent,
    /// The templates of the kind cannot be read, for this reason. The cache tries again.
    Unreadable(String),
}

/// Cache of the templates of all kinds that were looked up.
#[derive(Clone)]
pub struct Templates {
    source: Option<Source>,
    cache: Arc<Mutex<Cache>>,
}

#[derive(Debug, Default)]
struct Cache {
    kinds: HashMap<GroupVersionKind, Kind>,
    /// Template of each binding whose template was looked up.
    template_of: HashMap<BindingKey, (GroupVersionKind, TemplateKey)>,
    /// Updates that [`Templates::apply_updates`] has not applied yet.
    updates: Vec<(GroupVersionKind, Update)>,
}

/// An update of the templates of one kind.
#[derive(Debug)]
enum Update {
    /// All templates of a kind.
    All(HashMap<TemplateKey, TemplateProperties>),
    /// The templates of the kind cannot be read, for this reason.
    Failed(String),
    /// A template changed or was deleted.
    One(TemplateKey, Option<TemplateProperties>),
}

impl Kind {
    /// Applies an update and returns the affected bindings.
    fn apply(&mut self, update: Update) -> Vec<BindingKey> {
        match update {
            Update::All(properties) => {
                self.properties = properties;
                self.status = ReadStatus::Complete;
            }
            // A failure of the watch does not remove templates that were read before.
            Update::Failed(_) if matches!(self.status, ReadStatus::Complete) => return Vec::new(),
            Update::Failed(why) => self.status = ReadStatus::Failed(why),
            Update::One(key, properties) => {
                if self.properties.get(&key) == properties.as_ref() {
                    return Vec::new();
                }
                let requested_by = self.requested_by.get(&key).cloned().unwrap_or_default();
                match properties {
                    Some(properties) => self.properties.insert(key, properties),
                    None => self.properties.remove(&key),
                };
                return requested_by;
            }
        }
        self.requested_by.values().flatten().cloned().collect()
    }
}

#[derive(Clone)]
struct Source {
    client: Client,
    on_update: Arc<dyn Fn() + Send + Sync>,
    stopping: CancellationToken,
}

/// Templates of one kind.
#[derive(Debug, Default)]
struct Kind {
    status: ReadStatus,
    /// Properties of each template.
    properties: HashMap<TemplateKey, TemplateProperties>,
    /// Bindings that looked up each template.
    requested_by: HashMap<TemplateKey, Vec<BindingKey>>,
}

/// Namespace and name of a template.
type TemplateKey = (String, String);

#[derive(Debug, Default)]
enum ReadStatus {
    #[default]
    Loading,
    Complete,
    Failed(String),
}

impl std::fmt::Debug for Templates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Templates").finish_non_exhaustive()
    }
}

impl Templates {
    /// Creates a cache. The cache calls `on_update` when [`Self::apply_updates`] has updates to apply.
    pub(crate) fn new(
        client: Client,
        on_update: impl Fn() + Send + Sync + 'static,
        stopping: CancellationToken,
    ) -> Self {
        Self {
            source: Some(Source {
                client,
                on_update: Arc::new(on_update),
                stopping,
            }),
            cache: Arc::default(),
        }
    }

    /// Creates a cache without watches. Every template has default properties.
    pub fn disabled() -> Self {
        Self {
            source: None,
            cache: Arc::default(),
        }
    }

    /// Looks up the template of a binding. The first lookup of a kind starts its watch. The binding is requeued when
    /// the template has been read, and whenever the kept properties of the template change.
    pub fn of(&self, binding: &Binding) -> Lookup {
        let Some(source) = &self.source else {
            return Lookup::Known(TemplateProperties::default());
        };
        let resource = &binding.spec.resource;
        let (group, version) = match resource.api_version.split_once('/') {
            Some((group, version)) => (group, version),
            None => ("", resource.api_version.as_str()),
        };
        let gvk = GroupVersionKind::gvk(group, version, &resource.kind);
        let key = (
            resource.namespace.clone().unwrap_or_default(),
            resource.name.clone(),
        );
        let mut cache = self.cache();
        let template = (gvk.clone(), key.clone());
        cache.template_of.insert(binding.key.clone(), template);
        let kind = cache.kinds.entry(gvk.clone()).or_insert_with(|| {
            tokio::spawn(kind_watch::run(self.clone(), source.clone(), gvk));
            Kind::default()
        });
        let requested_by = kind.requested_by.entry(key.clone()).or_default();
        if !requested_by.contains(&binding.key) {
            requested_by.push(binding.key.clone());
        }
        match &kind.status {
            ReadStatus::Loading => Lookup::Pending,
            ReadStatus::Complete => match kind.properties.get(&key) {
                Some(properties) => Lookup::Known(properties.clone()),
                None => Lookup::Absent,
            },
            ReadStatus::Failed(why) => Lookup::Unreadable(why.clone()),
        }
    }

    /// Removes a deleted binding from the cache.
    pub fn forget(&self, key: &BindingKey) {
        let mut cache = self.cache();
        let Some((gvk, template)) = cache.template_of.remove(key) else {
            return;
        };
        if let Some(kind) = cache.kinds.get_mut(&gvk)
            && let Some(requested_by) = kind.requested_by.get_mut(&template)
        {
            requested_by.retain(|one| one != key);
            if requested_by.is_empty() {
                kind.requested_by.remove(&template);
            }
        }
    }

    /// Applies all pending updates at once and returns the affected bindings.
    pub fn apply_updates(&self) -> Vec<BindingKey> {
        let mut cache = self.cache();
        let mut affected = Vec::new();
        for (gvk, update) in std::mem::take(&mut cache.updates) {
            if let Some(kind) = cache.kinds.get_mut(&gvk) {
                affected.extend(kind.apply(update));
            }
        }
        affected
    }

    /// Adds an update, which takes effect in [`Self::apply_updates`].
    fn update(&self, gvk: &GroupVersionKind, update: Update) {
        self.cache().updates.push((gvk.clone(), update));
        if let Some(source) = &self.source {
            (source.on_update)();
        }
    }

    fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
