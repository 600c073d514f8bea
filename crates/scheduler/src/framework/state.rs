//! The store of the clusters and bindings that the scheduler knows, which any plugin can read on any task.
//!
//! Only the scheduler's task changes this state. Readers receive shared pointers to immutable values, so plugins never
//! hold a lock.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use berth_api::binding::TargetCluster;
use berth_api::{Binding, BindingKey};
use berth_engine::{Fleet, Snapshot};

use super::traits::Bindings;

/// The clusters and bindings that the scheduler knows. Clones are cheap and share the content.
///
/// The state is empty while plugins are created, and filled before the first decision. Each call of a method returns
/// the current content, so two calls may return different content. While a plugin runs on the scheduler's task, the
/// content does not change, and [`State::fleet`] is the snapshot of the current decision.
#[derive(Clone)]
pub struct State(Arc<RwLock<Content>>);

struct Content {
    fleet: Arc<Snapshot>,
    /// The stored bindings.
    bindings: HashMap<BindingKey, Arc<Binding>>,
    /// Decisions that are not stored yet.
    decided: HashMap<BindingKey, Decision>,
}

impl Content {
    /// Returns a binding with the clusters of its unstored decision, or the stored binding if there is no such
    /// decision.
    fn current(&self, stored: &Arc<Binding>) -> Arc<Binding> {
        match self.decided.get(&stored.key) {
            None => Arc::clone(stored),
            Some(decision) => decision.applied_to(stored),
        }
    }
}

/// The end of a decision that was visible before its write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DecisionFate {
    /// The API server has stored its clusters.
    Stored,
    /// Its write failed, or a plugin stopped it. The binding keeps its stored clusters.
    Dropped,
}

struct Decision {
    targets: Arc<[TargetCluster]>,
    /// The binding with these clusters. It is created when a plugin first reads it, because most decisions are stored
    /// before a plugin reads the binding.
    with_targets: OnceLock<Arc<Binding>>,
}

impl Decision {
    fn new(targets: Arc<[TargetCluster]>) -> Self {
        let with_targets = OnceLock::new();
        Self {
            targets,
            with_targets,
        }
    }

    fn applied_to(&self, stored: &Arc<Binding>) -> Arc<Binding> {
        let with_targets = self.with_targets.get_or_init(|| {
            let mut binding = Binding::clone(stored);
            binding.spec.clusters = self.targets.to_vec();
            Arc::new(binding)
        });
        Arc::clone(with_targets)
    }
}

impl Default for State {
    fn default() -> Self {
        Self(Arc::new(RwLock::new(Content {
            fleet: Fleet::new().snapshot(),
            bindings: HashMap::new(),
            decided: HashMap::new(),
        })))
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let content = self.read();
        f.debug_struct("State")
            .field("clusters", &content.fleet.len())
            .field("bindings", &content.bindings.len())
            .finish()
    }
}

impl State {
    /// Returns the cluster snapshot of the latest decision.
    pub fn fleet(&self) -> Arc<Snapshot> {
        Arc::clone(&self.read().fleet)
    }

    /// Returns a binding. While a decision about the binding waits for Permit or is being written, the returned binding
    /// has the decided clusters. If the decision fails, the returned binding has the stored clusters again.
    pub fn binding(&self, key: &BindingKey) -> Option<Arc<Binding>> {
        let content = self.read();
        let stored = content.bindings.get(key)?;
        Some(content.current(stored))
    }

    /// Returns all bindings of the control plane, with any scheduler name, in no particular order. Each binding has the
    /// clusters that [`State::binding`] returns.
    pub fn bindings(&self) -> Vec<Arc<Binding>> {
        let content = self.read();
        let stored = content.bindings.values();
        stored.map(|stored| content.current(stored)).collect()
    }

    /// Returns the stored binding, without an unstored decision.
    pub(crate) fn stored(&self, key: &BindingKey) -> Option<Arc<Binding>> {
        self.read().bindings.get(key).cloned()
    }

    /// Reports whether there are decisions that are not stored yet.
    pub(crate) fn has_decisions(&self) -> bool {
        !self.read().decided.is_empty()
    }

    pub(crate) fn set_fleet(&self, snapshot: &Arc<Snapshot>) {
        self.write().fleet = Arc::clone(snapshot);
    }

    pub(crate) fn set_binding(&self, binding: &Arc<Binding>) {
        let mut content = self.write();
        if let Some(decision) = content.decided.get_mut(&binding.key) {
            decision.with_targets.take();
        }
        let (key, binding) = (binding.key.clone(), Arc::clone(binding));
        content.bindings.insert(key, binding);
    }

    pub(crate) fn remove_binding(&self, key: &BindingKey) {
        let mut content = self.write();
        content.bindings.remove(key);
        content.decided.remove(key);
    }

    /// Adds an unstored decision about a binding, until [`State::complete`] removes it.
    pub(crate) fn decided(&self, key: &BindingKey, targets: Arc<[TargetCluster]>) {
        let decision = Decision::new(targets);
        self.write().decided.insert(key.clone(), decision);
    }

    /// Removes the unstored decision about a binding.
    pub(crate) fn complete(&self, key: &BindingKey, fate: DecisionFate) {
        let mut content = self.write();
        let Some(decision) = content.decided.remove(key) else {
            return;
        };
        // The decided clusters remain visible until the watch delivers the stored binding.
        if fate == DecisionFate::Stored
            && let Some(stored) = content.bindings.get_mut(key)
        {
            *stored = decision.applied_to(stored);
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Content> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Content> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Access to the stored bindings, without unstored decisions, because only stored assignments can be evicted.
impl Bindings for State {
    fn get(&self, key: &BindingKey) -> Option<Arc<Binding>> {
        self.stored(key)
    }

    fn iter(&self) -> Box<dyn Iterator<Item = Arc<Binding>> + '_> {
        let stored: Vec<Arc<Binding>> = self.read().bindings.values().cloned().collect();
        Box::new(stored.into_iter())
    }
}

#[cfg(test)]
mod tests {
    use berth_api::binding::ResourceBinding;

    use super::*;

    fn stored(clusters: &[&str]) -> Arc<Binding> {
        let clusters: Vec<_> = clusters
            .iter()
            .map(|name| serde_json::json!({ "name": name }))
            .collect();
        let object = serde_json::json!({
            "metadata": { "name": "web", "namespace": "default", "generation": clusters.len() },
            "spec": { "resource": { "apiVersion": "v1", "kind": "ConfigMap", "name": "web" }, "clusters": clusters },
        });
        let object: ResourceBinding = serde_json::from_value(object).unwrap();
        Arc::new(Binding::from(object))
    }

    fn targets(clusters: &[&str]) -> Arc<[TargetCluster]> {
        stored(clusters).spec.clusters.clone().into()
    }

    fn seen(state: &State) -> (Vec<String>, Vec<String>) {
        let names = |binding: &Binding| -> Vec<String> {
            let clusters = binding.spec.clusters.iter();
            clusters.map(|cluster| cluster.name.clone()).collect()
        };
        let key = &stored(&[]).key;
        let one = names(&state.binding(key).unwrap());
        let all = state.bindings();
        assert_eq!(all.len(), 1);
        assert_eq!(names(&all[0]), one);
        let as_stored = Bindings::get(state, key).unwrap();
        (one, names(&as_stored))
    }

    fn both(shown: &[&str], stored: &[&str]) -> (Vec<String>, Vec<String>) {
        let own = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        (own(shown), own(stored))
    }

    #[test]
    fn a_pending_decision_is_visible_until_it_is_stored_or_fails() {
        let state = State::default();
        let key = stored(&[]).key.clone();
        state.set_binding(&stored(&[]));
        assert_eq!(seen(&state), both(&[], &[]));
        state.decided(&key, targets(&["m1"]));
        assert_eq!(seen(&state), both(&["m1"], &[]));
        // Another writer changes the binding meanwhile.
        state.set_binding(&stored(&["old"]));
        assert_eq!(seen(&state), both(&["m1"], &["old"]));
        state.complete(&key, DecisionFate::Dropped);
        assert_eq!(seen(&state), both(&["old"], &["old"]));

        state.decided(&key, targets(&["m2"]));
        state.complete(&key, DecisionFate::Stored);
        assert_eq!(seen(&state), both(&["m2"], &["m2"]));
        state.set_binding(&stored(&["m2"]));
        assert_eq!(seen(&state), both(&["m2"], &["m2"]));

        // A decision can also remove all clusters.
        state.decided(&key, targets(&[]));
        assert_eq!(seen(&state), both(&[], &["m2"]));
        state.remove_binding(&key);
        assert!(state.bindings().is_empty());
        state.set_binding(&stored(&["again"]));
        assert_eq!(seen(&state), both(&["again"], &["again"]));
    }
}
