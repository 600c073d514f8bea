//! The ResourceInterpreterCustomizations that a controller has observed, loaded into its interpreter.

use std::collections::{BTreeMap, BTreeSet};

use berth_api::ResourceInterpreterCustomization;
use berth_api::interpreter_customization::CustomizationTarget;
use berth_interpreter::Interpreter;
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use kube::core::ApiResource;

use crate::reconciler::informer::WatchEvent;

/// The observed customizations.
#[derive(Debug, Default)]
pub(crate) struct Customizations {
    interpreter: Interpreter,
    known: BTreeMap<String, ResourceInterpreterCustomization>,
    is_listed: bool,
}

impl Customizations {
    /// Returns the API resource to watch.
    pub(crate) fn resource() -> ApiResource {
        ApiResource::erase::<ResourceInterpreterCustomization>(&())
    }

    /// Returns the interpreter with these customizations. Its clones follow later changes.
    pub(crate) fn interpreter(&self) -> &Interpreter {
        &self.interpreter
    }

    /// Reports whether all customizations are known. Before, an object might be interpreted by the wrong rule.
    pub(crate) fn is_listed(&self) -> bool {
        self.is_listed
    }

    /// Applies a watch event. Returns the kinds whose interpretation may have changed since the list was complete.
    pub(crate) fn handle(&mut self, event: WatchEvent) -> BTreeSet<CustomizationTarget> {
        let mut changed = BTreeSet::new();
        let was_listed = self.is_listed;
        match event {
            WatchEvent::Applied(object) => changed.extend(self.put(*object)),
            WatchEvent::Deleted(object) => changed.extend(self.remove(&object.name_any())),
            WatchEvent::Listed(listing) => {
                let gone = self.known.keys().filter(|name| !listing.contains("", name));
                for name in gone.cloned().collect::<Vec<_>>() {
                    changed.extend(self.remove(&name));
                }
                self.is_listed = true;
            }
            // A server without the definition has no customizations.
            WatchEvent::Unserved => self.is_listed = true,
        }
        let is_complete = self.is_listed && !was_listed;
        if is_complete || (was_listed && !changed.is_empty()) {
            self.interpreter
                .load(self.known.values().cloned().collect());
        }
        if was_listed { changed } else { BTreeSet::new() }
    }

    /// Stores a customization. Returns its former and its new kind, unless it is unchanged.
    fn put(&mut self, object: DynamicObject) -> Vec<CustomizationTarget> {
        let name = object.name_any();
        let new: ResourceInterpreterCustomization = match object.try_parse() {
            Ok(new) => new,
            Err(error) => {
                tracing::warn!(
                    customization = name,
                    %error,
                    "cannot read a ResourceInterpreterCustomization: it is ignored"
                );
                return self.remove(&name);
            }
        };
        let target = new.spec.target.clone();
        if self
            .known
            .get(&name)
            .is_some_and(|old| old.spec == new.spec)
        {
            return Vec::new();
        }
        let old = self.known.insert(name, new);
        let old = old.map(|old| old.spec.target);
        old.into_iter().chain([target]).collect()
    }

    fn remove(&mut self, name: &str) -> Vec<CustomizationTarget> {
        let old = self.known.remove(name);
        old.map(|old| old.spec.target).into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use berth_interpreter::Operation;
    use serde_json::json;

    use super::*;
    use crate::reconciler::informer::Listing;

    fn object(name: &str, kind: &str) -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterCustomization",
            "metadata": {"name": name},
            "spec": {"target": {"apiVersion": "x/v1", "kind": kind}, "customizations": {
                "healthInterpretation": {"luaScript": "function InterpretHealth() return true end"}}},
        }))
        .unwrap()
    }

    fn kinds(changed: BTreeSet<CustomizationTarget>) -> Vec<String> {
        changed.into_iter().map(|target| target.kind).collect()
    }

    #[test]
    fn changes_after_the_first_list_name_the_affected_kinds() {
        let mut known = Customizations::default();
        let interpreter = known.interpreter().clone();
        let is_known = |kind| interpreter.is_customized("x/v1", kind, Operation::InterpretHealth);
        let (a, b) = (object("a", "A"), object("a", "B"));
        assert!(
            known
                .handle(WatchEvent::Applied(Box::new(a.clone())))
                .is_empty()
        );
        assert!(!known.is_listed() && !is_known("A"));
        let listing: Listing = [&a].into_iter().collect();
        assert!(known.handle(WatchEvent::Listed(listing)).is_empty());
        assert!(known.is_listed() && is_known("A"));
        assert!(known.handle(WatchEvent::Applied(Box::new(a))).is_empty());
        let changed = known.handle(WatchEvent::Applied(Box::new(b.clone())));
        assert_eq!(kinds(changed), ["A", "B"]);
        assert!(is_known("B") && !is_known("A"));
        assert_eq!(kinds(known.handle(WatchEvent::Deleted(Box::new(b)))), ["B"]);
        assert!(!is_known("B"));
    }

    #[test]
    fn unreadable_customizations_are_ignored() {
        let mut known = Customizations::default();
        known.handle(WatchEvent::Unserved);
        assert!(known.is_listed());
        let mut broken = object("a", "A");
        broken.data["spec"]["target"] = json!("x");
        assert!(
            known
                .handle(WatchEvent::Applied(Box::new(broken)))
                .is_empty()
        );
    }
}
