//! Templates: what plugins know of the objects that bindings propagate.
//!
//! A binding has neither the labels of its template nor the limits of its pods. Both are read from the template,
//! through one watch for each kind that is asked for, begun with the first question. Three labels and a QoS
//! class are kept of each object; where no plugin asks, nothing is watched.

mod kind_watch;
pub mod qos;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube::Client;
use kube::core::GroupVersionKind;
use tokio_util::sync::CancellationToken;

pub use self::qos::QosClass;
use crate::binding::{Binding, BindingKey};
use crate::framework::waiting::{Permits, Said};

/// The labels that are kept.
pub const LABELS: [&str; 3] = ["podGroup", "minAvailable", "groupPriority"];

/// What is kept of a template.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Those of [`LABELS`] that it has.
    pub labels: BTreeMap<&'static str, String>,
    /// The class of its pods.
    pub qos: QosClass,
}

/// What is known of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// Its kind is being read; the binding is looked at again when that is done.
    Pending,
    /// This; nothing in particular where it does not exist.
    Known(Facts),
    /// Its kind cannot be read, for this reason; the reading goes on.
    Unreadable(String),
}

/// The templates, of every kind that was asked for.
#[derive(Clone)]
pub struct Templates {
    source: Option<Source>,
    known: Arc<Mutex<Known>>,
}

#[derive(Debug, Default)]
struct Known {
    kinds: HashMap<GroupVersionKind, Kind>,
    /// The template of each binding that was asked about.
    of: HashMap<BindingKey, (GroupVersionKind, Place)>,
}

#[derive(Clone)]
struct Source {
    client: Client,
    said: tokio::sync::mpsc::UnboundedSender<Said>,
    stopping: CancellationToken,
}

/// The templates of one kind.
#[derive(Debug, Default)]
struct Kind {
    read: Read,
    /// By namespace and name.
    facts: HashMap<Place, Facts>,
    /// The bindings that were asked about.
    asked: HashMap<Place, Vec<BindingKey>>,
}

type Place = (String, String);

#[derive(Debug, Default)]
enum Read {
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
    pub(crate) fn new(
        client: Client,
        said: tokio::sync::mpsc::UnboundedSender<Said>,
        stopping: CancellationToken,
    ) -> Self {
        Self {
            source: Some(Source {
                client,
                said,
                stopping,
            }),
            known: Arc::default(),
        }
    }

    /// Templates that nobody reads: every one is known to have nothing in particular.
    pub fn unread() -> Self {
        Self {
            source: None,
            known: Arc::default(),
        }
    }

    /// What is known of the template of a binding. The first question for a kind begins to read it; when it
    /// is read, or the template changes, the binding is looked at again.
    pub fn of(&self, binding: &Binding) -> Lookup {
        let Some(source) = &self.source else {
            return Lookup::Known(Facts::default());
        };
        let resource = &binding.spec.resource;
        let (group, version) = match resource.api_version.split_once('/') {
            Some((group, version)) => (group, version),
            None => ("", resource.api_version.as_str()),
        };
        let gvk = GroupVersionKind::gvk(group, version, &resource.kind);
        let place = (
            resource.namespace.clone().unwrap_or_default(),
            resource.name.clone(),
        );
        let mut known = self.known();
        let template = (gvk.clone(), place.clone());
        known.of.insert(binding.key.clone(), template);
        let kind = known.kinds.entry(gvk.clone()).or_insert_with(|| {
            tokio::spawn(kind_watch::run(self.clone(), source.clone(), gvk));
            Kind::default()
        });
        let asked = kind.asked.entry(place.clone()).or_default();
        if !asked.contains(&binding.key) {
            asked.push(binding.key.clone());
        }
        match &kind.read {
            Read::Loading => Lookup::Pending,
            Read::Complete => Lookup::Known(kind.facts.get(&place).cloned().unwrap_or_default()),
            Read::Failed(why) => Lookup::Unreadable(why.clone()),
        }
    }

    /// A binding is gone: nobody asks for it any more.
    pub fn forget(&self, key: &BindingKey) {
        let mut known = self.known();
        let Some((gvk, place)) = known.of.remove(key) else {
            return;
        };
        if let Some(kind) = known.kinds.get_mut(&gvk)
            && let Some(asked) = kind.asked.get_mut(&place)
        {
            asked.retain(|one| one != key);
            if asked.is_empty() {
                kind.asked.remove(&place);
            }
        }
    }

    /// A kind was read from its beginning, or not: everybody who asked for it looks again.
    fn read(&self, gvk: &GroupVersionKind, read: Result<HashMap<Place, Facts>, String>) {
        let mut known = self.known();
        let Some(kind) = known.kinds.get_mut(gvk) else {
            return;
        };
        match read {
            Ok(facts) => {
                kind.facts = facts;
                kind.read = Read::Complete;
            }
            // What was read once stays good enough.
            Err(_) if matches!(kind.read, Read::Complete) => return,
            Err(why) if matches!(&kind.read, Read::Failed(before) if *before == why) => return,
            Err(why) => kind.read = Read::Failed(why),
        }
        let asked: Vec<BindingKey> = kind.asked.values().flatten().cloned().collect();
        drop(known);
        self.look_again(asked);
    }

    /// A template is there with these facts, or gone.
    fn changed(&self, gvk: &GroupVersionKind, place: Place, facts: Option<Facts>) {
        let mut known = self.known();
        let Some(kind) = known.kinds.get_mut(gvk) else {
            return;
        };
        let asked = kind.asked.get(&place).cloned().unwrap_or_default();
        let same = kind.facts.get(&place) == facts.as_ref();
        match facts {
            Some(facts) => kind.facts.insert(place, facts),
            None => kind.facts.remove(&place),
        };
        drop(known);
        if !same {
            self.look_again(asked);
        }
    }

    fn look_again(&self, asked: Vec<BindingKey>) {
        if let Some(source) = &self.source {
            Permits::new("Templates", source.said.clone()).look_again(asked);
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
