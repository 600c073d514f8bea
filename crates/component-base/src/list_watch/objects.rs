//! The events of a list and watch, with the names of the listed objects.

use std::collections::{HashMap, HashSet};
use std::fmt::Debug;

use futures::StreamExt as _;
use futures::stream::BoxStream;
use kube::api::Api;
use kube::runtime::watcher::Event;
use serde::de::DeserializeOwned;

use super::{Config, Error, events};

/// A change of the watched objects.
#[derive(Clone, Debug)]
pub enum ObjectEvent<K> {
    /// An object was created or changed, or a list contains it.
    Applied(K),
    /// An object was deleted.
    Deleted(K),
    /// A list is complete. Each listed object was sent as [`Self::Applied`] before, and an unlisted object does not
    /// exist.
    Listed(Listing),
}

/// The names of the listed objects.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// The names of the objects by namespace. The namespace is empty for cluster-scoped objects.
    names: HashMap<String, HashSet<String>>,
}

impl Listing {
    /// Reports whether an object was listed.
    pub fn contains(&self, namespace: &str, name: &str) -> bool {
        let names = self.names.get(namespace);
        names.is_some_and(|names| names.contains(name))
    }

    fn add(&mut self, object: &impl kube::Resource) {
        let metadata = object.meta();
        let namespace = metadata.namespace.clone().unwrap_or_default();
        let names = self.names.entry(namespace).or_default();
        names.insert(metadata.name.clone().unwrap_or_default());
    }

    /// Adds the listed objects of an event. Returns `None` for the start of a list.
    fn record<K: kube::Resource>(&mut self, event: Event<K>) -> Option<ObjectEvent<K>> {
        match event {
            Event::Init => {
                *self = Self::default();
                None
            }
            Event::InitApply(object) => {
                self.add(&object);
                Some(ObjectEvent::Applied(object))
            }
            Event::InitDone => Some(ObjectEvent::Listed(std::mem::take(self))),
            Event::Apply(object) => Some(ObjectEvent::Applied(object)),
            Event::Delete(object) => Some(ObjectEvent::Deleted(object)),
        }
    }
}

impl<'a, K: kube::Resource> FromIterator<&'a K> for Listing {
    fn from_iter<I: IntoIterator<Item = &'a K>>(objects: I) -> Self {
        let mut listing = Self::default();
        objects.into_iter().for_each(|object| listing.add(object));
        listing
    }
}

/// Lists and watches objects like [`events`], and collects the names of the listed objects.
pub fn objects<K>(api: Api<K>, config: Config) -> BoxStream<'static, Result<ObjectEvent<K>, Error>>
where
    K: kube::Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let mut listing = Listing::default();
    events(api, config)
        .filter_map(move |event| {
            let event = event.map(|event| listing.record(event));
            std::future::ready(event.transpose())
        })
        .boxed()
}
