//! The configuration of the resource interpreter that a controller watches: scripts and webhooks. [`Customizations`]
//! loads them into the controller's interpreter, and returns the kinds that may be interpreted differently.

use std::fmt::Display;
use std::sync::Arc;

use berth_api::interpreter_customization::CustomizationTarget;
use berth_api::interpreter_webhook::InterpreterWebhook;
use berth_api::{ResourceInterpreterCustomization, ResourceInterpreterWebhookConfiguration};
use berth_interpreter::{Interpreter, names_kind};
use kube::core::ApiResource;
use serde::de::DeserializeOwned;

use crate::reconciler::informer::WatchEvent;
use crate::reconciler::store::{Former, Store};

/// A kind of interpreter configuration that controllers watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ConfigurationKind {
    /// ResourceInterpreterCustomizations.
    Scripts,
    /// ResourceInterpreterWebhookConfigurations.
    Webhooks,
}

impl ConfigurationKind {
    pub(crate) const ALL: [Self; 2] = [Self::Scripts, Self::Webhooks];

    /// Returns the API resource to watch.
    pub(crate) fn resource(self) -> ApiResource {
        match self {
            Self::Scripts => ApiResource::erase::<ResourceInterpreterCustomization>(&()),
            Self::Webhooks => ApiResource::erase::<ResourceInterpreterWebhookConfiguration>(&()),
        }
    }
}

/// The kinds of objects whose interpretation may have changed.
#[derive(Debug, Default)]
pub(crate) struct ChangedKinds {
    targets: Vec<CustomizationTarget>,
    webhooks: Vec<InterpreterWebhook>,
}

impl ChangedKinds {
    pub(crate) fn is_empty(&self) -> bool {
        self.targets.is_empty() && self.webhooks.is_empty()
    }

    pub(crate) fn contains(&self, api_version: &str, kind: &str) -> bool {
        let mut targets = self.targets.iter();
        let mut webhooks = self.webhooks.iter();
        targets.any(|target| {
            (target.api_version.as_str(), target.kind.as_str()) == (api_version, kind)
        }) || webhooks.any(|webhook| names_kind(webhook, api_version, kind))
    }
}

/// The observed customizations and webhooks.
#[derive(Debug)]
pub(crate) struct Customizations {
    interpreter: Interpreter,
    scripts: Store<ResourceInterpreterCustomization>,
    webhooks: Store<ResourceInterpreterWebhookConfiguration>,
}

impl Default for Customizations {
    fn default() -> Self {
        Self {
            interpreter: Interpreter::default(),
            scripts: Store::new(ignore_unreadable::<ResourceInterpreterCustomization>),
            webhooks: Store::new(ignore_unreadable::<ResourceInterpreterWebhookConfiguration>),
        }
    }
}

impl Customizations {
    /// Returns the interpreter with these customizations and webhooks. Clones of the interpreter also get later
    /// changes.
    pub(crate) fn interpreter(&self) -> &Interpreter {
        &self.interpreter
    }

    /// Reports whether all customizations and webhooks are listed. Before that, an object might be interpreted with the
    /// wrong rule.
    pub(crate) fn has_synced(&self) -> bool {
        self.scripts.has_synced && self.webhooks.has_synced
    }

    /// Applies a watch event. Returns the kinds of objects whose interpretation may have changed. Events before the end
    /// of the first list return no kinds.
    pub(crate) fn handle(&mut self, kind: ConfigurationKind, event: WatchEvent) -> ChangedKinds {
        match kind {
            ConfigurationKind::Scripts => {
                let effect = handle(&mut self.scripts, event, |a, b| a.spec == b.spec);
                if effect.must_load {
                    self.interpreter.load(all(&self.scripts));
                }
                let targets = effect.changed.iter();
                let targets = targets.map(|script| script.spec.target.clone());
                ChangedKinds {
                    targets: targets.collect(),
                    webhooks: Vec::new(),
                }
            }
            ConfigurationKind::Webhooks => {
                let effect = handle(&mut self.webhooks, event, |a, b| a.spec == b.spec);
                if effect.must_load {
                    self.interpreter.load_webhooks(all(&self.webhooks));
                }
                let changed = effect.changed.iter();
                ChangedKinds {
                    targets: Vec::new(),
                    webhooks: changed
                        .flat_map(|configuration| configuration.spec.webhooks.clone())
                        .collect(),
                }
            }
        }
    }
}

/// The effect of a watch event.
struct Effect<K> {
    /// The former and new states of the changed objects. Empty before the end of the first list.
    changed: Vec<Arc<K>>,
    /// True if the interpreter has to load the objects again.
    must_load: bool,
}

/// Updates a store with a watch event. `is_same` reports whether two states of an object are interpreted in the same
/// way.
fn handle<K: kube::Resource + DeserializeOwned>(
    store: &mut Store<K>,
    event: WatchEvent,
    is_same: fn(&K, &K) -> bool,
) -> Effect<K> {
    let had_synced = store.has_synced;
    // A server that does not serve the kind has no objects of this kind.
    let is_unserved = matches!(event, WatchEvent::Unserved);
    let replacements = store.handle(event).into_iter();
    store.has_synced |= is_unserved;
    let replacements = replacements.filter(|one| {
        let both = one.old.as_ref().zip(one.new.as_ref());
        !both.is_some_and(|(old, new)| is_same(old, new))
    });
    let mut changed: Vec<Arc<K>> = replacements
        .flat_map(|one| one.old.into_iter().chain(one.new))
        .collect();
    let just_synced = store.has_synced && !had_synced;
    let must_load = just_synced || (had_synced && !changed.is_empty());
    if !had_synced {
        changed.clear();
    }
    Effect { changed, must_load }
}

fn all<K: Clone>(store: &Store<K>) -> Vec<K> {
    let objects = store.objects.values();
    objects.map(|object| K::clone(object)).collect()
}

fn ignore_unreadable<K: kube::Resource<DynamicType = ()>>(
    name: &str,
    error: &dyn Display,
) -> Former {
    let kind = K::kind(&());
    tracing::warn!(name, %error, "cannot read a {kind}: it is ignored");
    Former::Removed
}

#[cfg(test)]
mod tests {
    use berth_component_base::list_watch::Listing;
    use berth_interpreter::Operation;
    use kube::api::DynamicObject;
    use serde_json::json;

    use super::*;

    fn object(name: &str, kind: &str) -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterCustomization",
            "metadata": {"name": name},
            "spec": {"target": {"apiVersion": "x/v1", "kind": kind}, "customizations": {
                "healthInterpretation": {"luaScript": "function InterpretHealth() return true end"}}},
        }))
        .unwrap()
    }

    /// Returns the customizations of a server that does not serve webhook configurations.
    fn customizations() -> Customizations {
        let mut known = Customizations::default();
        known.handle(ConfigurationKind::Webhooks, WatchEvent::Unserved);
        known
    }

    fn kinds(changed: &ChangedKinds) -> Vec<&str> {
        let kinds = ["A", "B", "C"].into_iter();
        kinds
            .filter(|kind| changed.contains("x/v1", kind))
            .collect()
    }

    #[test]
    fn changes_after_the_first_list_name_the_affected_kinds() {
        let mut known = customizations();
        let interpreter = known.interpreter().clone();
        let is_known = |kind| interpreter.is_customized("x/v1", kind, Operation::InterpretHealth);
        let (a, b) = (object("a", "A"), object("a", "B"));
        assert!(
            known
                .handle(
                    ConfigurationKind::Scripts,
                    WatchEvent::Applied(Box::new(a.clone()))
                )
                .is_empty()
        );
        assert!(!known.has_synced() && !is_known("A"));
        let listing: Listing = [&a].into_iter().collect();
        assert!(
            known
                .handle(ConfigurationKind::Scripts, WatchEvent::Listed(listing))
                .is_empty()
        );
        assert!(known.has_synced() && is_known("A"));
        assert!(
            known
                .handle(ConfigurationKind::Scripts, WatchEvent::Applied(Box::new(a)))
                .is_empty()
        );
        let changed = known.handle(
            ConfigurationKind::Scripts,
            WatchEvent::Applied(Box::new(b.clone())),
        );
        assert_eq!(kinds(&changed), ["A", "B"]);
        assert!(is_known("B") && !is_known("A"));
        let changed = known.handle(ConfigurationKind::Scripts, WatchEvent::Deleted(Box::new(b)));
        assert_eq!(kinds(&changed), ["B"]);
        assert!(!is_known("B"));
    }

    #[test]
    fn unreadable_customizations_are_ignored() {
        let mut known = customizations();
        known.handle(ConfigurationKind::Scripts, WatchEvent::Unserved);
        assert!(known.has_synced());
        let mut broken = object("a", "A");
        broken.data["spec"]["target"] = json!("x");
        assert!(
            known
                .handle(
                    ConfigurationKind::Scripts,
                    WatchEvent::Applied(Box::new(broken))
                )
                .is_empty()
        );
    }

    #[test]
    fn changed_webhooks_name_the_affected_kinds() {
        let webhooks = ConfigurationKind::Webhooks;
        let configuration = |kind: &str| -> DynamicObject {
            serde_json::from_value(json!({
                "apiVersion": "config.karmada.io/v1alpha1",
                "kind": "ResourceInterpreterWebhookConfiguration", "metadata": {"name": "w"},
                "webhooks": [{"name": "a.b.c", "clientConfig": {"url": "https://a"},
                    "rules": [{"operations": ["Retain"], "apiGroups": ["x"], "apiVersions": ["*"],
                        "kinds": [kind]}],
                    "interpreterContextVersions": ["v1alpha1"]}]}))
            .unwrap()
        };
        let mut known = Customizations::default();
        known.handle(ConfigurationKind::Scripts, WatchEvent::Unserved);
        assert!(!known.has_synced());
        let first = configuration("A");
        known.handle(webhooks, WatchEvent::Applied(Box::new(first.clone())));
        let listing: Listing = [&first].into_iter().collect();
        assert!(
            known
                .handle(webhooks, WatchEvent::Listed(listing))
                .is_empty()
        );
        assert!(known.has_synced());
        let retains = |known: &Customizations, kind| {
            let interpreter = known.interpreter();
            interpreter.is_customized("x/v1", kind, Operation::Retain)
        };
        assert!(retains(&known, "A") && !retains(&known, "B"));
        let changed = known.handle(webhooks, WatchEvent::Applied(Box::new(configuration("B"))));
        assert_eq!(kinds(&changed), ["A", "B"]);
        assert!(retains(&known, "B") && !retains(&known, "A"));
        let changed = known.handle(webhooks, WatchEvent::Deleted(Box::new(configuration("*"))));
        assert_eq!(kinds(&changed), ["B"]);
        assert!(!retains(&known, "B"));
    }
}
