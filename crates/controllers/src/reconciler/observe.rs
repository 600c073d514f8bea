//! The update of a controller's observed objects by watch events. [`Observe::observe`] implements the protocol of lists
//! once: a controller only stores and removes single objects.

use berth_component_base::list_watch::Listing;
use kube::ResourceExt as _;
use kube::api::DynamicObject;

use super::informer::WatchEvent;

/// The namespace and the name of an object. The namespace of a cluster-scoped object is empty.
pub(crate) type ObjectName = (String, String);

/// The observed objects of a controller.
pub(crate) trait Observe {
    /// A watched resource. `()` if there is only one.
    type Source;

    /// Stores a new or changed object.
    fn applied(&mut self, source: &Self::Source, object: DynamicObject);

    /// Removes a deleted object.
    fn removed(&mut self, source: &Self::Source, namespace: &str, name: &str);

    /// Returns the names of the stored objects of a source.
    fn names(&self, source: &Self::Source) -> Vec<ObjectName>;

    /// Handles the end of a list, after the removal of the unlisted objects.
    fn listed(&mut self, _: &Self::Source) {}

    /// Handles a failed watch of a resource that the server does not serve. The stored objects stay, because the server
    /// may serve the resource again soon.
    fn unserved(&mut self, _: &Self::Source) {}

    /// Updates the objects with a watch event.
    fn observe(&mut self, source: &Self::Source, event: WatchEvent) {
        match event {
            WatchEvent::Applied(object) => self.applied(source, *object),
            WatchEvent::Deleted(object) => {
                let namespace = object.namespace().unwrap_or_default();
                self.removed(source, &namespace, &object.name_any());
            }
            WatchEvent::Listed(listing) => {
                self.remove_unlisted(source, &listing);
                self.listed(source);
            }
            WatchEvent::Unserved => self.unserved(source),
        }
    }

    /// Removes the stored objects that a list does not contain. They were deleted while the watch was interrupted.
    fn remove_unlisted(&mut self, source: &Self::Source, listing: &Listing) {
        for (namespace, name) in self.names(source) {
            if !listing.contains(&namespace, &name) {
                self.removed(source, &namespace, &name);
            }
        }
    }
}

/// Returns the names of cluster-scoped objects.
pub(crate) fn cluster_scoped<'a>(names: impl IntoIterator<Item = &'a String>) -> Vec<ObjectName> {
    let names = names.into_iter();
    names.map(|name| (String::new(), name.clone())).collect()
}
