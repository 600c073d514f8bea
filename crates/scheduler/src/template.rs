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
    /// This.
    Known(Facts),
    /// It does not exist, or is not seen yet: a binding may be seen before its template. The binding is looked
    /// at again when the template comes.
    Absent,
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
    /// What was read and is not published yet.
    news: Vec<(GroupVersionKind, News)>,
}

/// Something that was read.
#[derive(Debug)]
enum News {
    /// All of a kind.
    All(HashMap<Place, Facts>),
    /// The kind cannot be read, for this reason.
    Failed(String),
    /// A template has these facts, or is gone.
    One(Place, Option<Facts>),
}

impl Kind {
    /// Returns the bindings that were asked about what is new.
    fn learn(&mut self, news: News) -> Vec<BindingKey> {
        match news {
            News::All(facts) => {
                self.facts = facts;
                self.read = Read::Complete;
            }
            // What was read once stays good enough.
            News::Failed(_) if matches!(self.read, Read::Complete) => return Vec::new(),
            News::Failed(why) => self.read = Read::Failed(why),
            News::One(place, facts) => {
                if self.facts.get(&place) == facts.as_ref() {
                    return Vec::new();
                }
                let asked = self.asked.get(&place).cloned().unwrap_or_default();
                match facts {
                    Some(facts) => self.facts.insert(place, facts),
                    None => self.facts.remove(&place),
                };
                return asked;
            }
        }
        self.asked.values().flatten().cloned().collect()
    }
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
            Read::Complete => match kind.facts.get(&place) {
                Some(facts) => Lookup::Known(facts.clone()),
                None => Lookup::Absent,
            },
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

    /// Takes over what was read since, all at once. Returns the bindings that were asked about it.
    pub fn publish(&self) -> Vec<BindingKey> {
        let mut known = self.known();
        let mut asked = Vec::new();
        for (gvk, news) in std::mem::take(&mut known.news) {
            if let Some(kind) = known.kinds.get_mut(&gvk) {
                asked.extend(kind.learn(news));
            }
        }
        asked
    }

    /// Something was read; it counts once it is published.
    fn tell(&self, gvk: &GroupVersionKind, news: News) {
        self.known().news.push((gvk.clone(), news));
        if let Some(source) = &self.source {
            Permits::new("Templates", source.said.clone()).refresh();
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
