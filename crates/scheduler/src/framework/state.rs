//! Shared read-only state: the fleet and the bindings, as any plugin may look at them from any task.
//!
//! Its one writer is the task that decides. Nothing is lent but shared pointers to values that never change,
//! so no lock is held by a plugin, across an await or otherwise.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use berth_api::binding::TargetCluster;
use berth_core::{Fleet, Snapshot};

use super::waiting::Bindings;
use crate::binding::{Binding, BindingKey};

/// The fleet and the bindings as the scheduler knows them. Cheap to clone; all clones see the same.
///
/// It is empty when a plugin is made, and filled before the first decision. Each question is answered as things
/// are at that moment: two answers may belong to different moments, and one that is kept grows old. At the
/// points that run on the owner's task nothing changes until the point returns, and [`State::fleet`] is the
/// very fleet of the decision at hand.
#[derive(Clone)]
pub struct State(Arc<RwLock<Shown>>);

struct Shown {
    fleet: Arc<Snapshot>,
    /// As they are stored.
    bindings: HashMap<BindingKey, Arc<Binding>>,
    /// Decisions that are on their way to the control plane.
    decided: HashMap<BindingKey, Decision>,
}

impl Shown {
    /// A binding with what is decided for it.
    fn current(&self, stored: &Arc<Binding>) -> Arc<Binding> {
        match self.decided.get(&stored.key) {
            None => Arc::clone(stored),
            Some(decision) => decision.over(stored),
        }
    }
}

struct Decision {
    targets: Arc<[TargetCluster]>,
    /// The binding with these clusters, made when somebody asks: most decisions are stored before.
    shown: OnceLock<Arc<Binding>>,
}

impl Decision {
    fn new(targets: Arc<[TargetCluster]>) -> Self {
        let shown = OnceLock::new();
        Self { targets, shown }
    }

    fn over(&self, stored: &Arc<Binding>) -> Arc<Binding> {
        let shown = self.shown.get_or_init(|| {
            let mut binding = Binding::clone(stored);
            binding.spec.clusters = self.targets.to_vec();
            Arc::new(binding)
        });
        Arc::clone(shown)
    }
}

impl Default for State {
    fn default() -> Self {
        Self(Arc::new(RwLock::new(Shown {
            fleet: Fleet::new().snapshot(),
            bindings: HashMap::new(),
            decided: HashMap::new(),
        })))
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.read();
        f.debug_struct("State")
            .field("clusters", &shown.fleet.len())
            .field("bindings", &shown.bindings.len())
            .finish()
    }
}

impl State {
    /// The clusters, as of the newest decision.
    pub fn fleet(&self) -> Arc<Snapshot> {
        Arc::clone(&self.read().fleet)
    }

    /// One binding. Where it is decided and the decision is not stored yet, because it waits for a plugin or is being
    /// written, its clusters are those of the decision; they are the stored ones again if that fails.
    pub fn binding(&self, key: &BindingKey) -> Option<Arc<Binding>> {
        let shown = self.read();
        let stored = shown.bindings.get(key)?;
        Some(shown.current(stored))
    }

    /// All bindings of the control plane, in no particular order, whatever their scheduler, each as
    /// [`State::binding`] has it.
    pub fn bindings(&self) -> Vec<Arc<Binding>> {
        let shown = self.read();
        let stored = shown.bindings.values();
        stored.map(|stored| shown.current(stored)).collect()
    }

    /// A binding as it is stored, whatever is decided for it meanwhile.
    pub(crate) fn stored(&self, key: &BindingKey) -> Option<Arc<Binding>> {
        self.read().bindings.get(key).cloned()
    }

    /// Whether decisions are on their way to the control plane.
    pub(crate) fn has_decisions(&self) -> bool {
        !self.read().decided.is_empty()
    }

    pub(crate) fn show_fleet(&self, fleet: &Arc<Snapshot>) {
        self.write().fleet = Arc::clone(fleet);
    }

    pub(crate) fn show(&self, binding: &Arc<Binding>) {
        let mut shown = self.write();
        if let Some(decision) = shown.decided.get_mut(&binding.key) {
            decision.shown.take();
        }
        let (key, binding) = (binding.key.clone(), Arc::clone(binding));
        shown.bindings.insert(key, binding);
    }

    pub(crate) fn forget(&self, key: &BindingKey) {
        let mut shown = self.write();
        shown.bindings.remove(key);
        shown.decided.remove(key);
    }

    /// These clusters are decided for a binding, until [`State::settled`].
    pub(crate) fn decided(&self, key: &BindingKey, targets: Arc<[TargetCluster]>) {
        let decision = Decision::new(targets);
        self.write().decided.insert(key.clone(), decision);
    }

    /// What was decided for a binding is stored, or will not be.
    pub(crate) fn settled(&self, key: &BindingKey, landed: bool) {
        let mut shown = self.write();
        let Some(decision) = shown.decided.remove(key) else {
            return;
        };
        // The stored binding comes in a moment; until then nobody sees the clusters of before.
        if landed && let Some(stored) = shown.bindings.get_mut(key) {
            *stored = decision.over(stored);
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Shown> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Shown> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// As they are stored: what is not there yet cannot be taken away.
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
    fn a_decision_is_seen_until_it_is_stored_or_given_up() {
        let state = State::default();
        let key = stored(&[]).key.clone();
        state.show(&stored(&[]));
        assert_eq!(seen(&state), both(&[], &[]));
        state.decided(&key, targets(&["m1"]));
        assert_eq!(seen(&state), both(&["m1"], &[]));
        // Somebody else writes meanwhile.
        state.show(&stored(&["old"]));
        assert_eq!(seen(&state), both(&["m1"], &["old"]));
        state.settled(&key, false);
        assert_eq!(seen(&state), both(&["old"], &["old"]));

        state.decided(&key, targets(&["m2"]));
        state.settled(&key, true);
        assert_eq!(seen(&state), both(&["m2"], &["m2"]));
        state.show(&stored(&["m2"]));
        assert_eq!(seen(&state), both(&["m2"], &["m2"]));

        // A result that is withdrawn is a decision, too.
        state.decided(&key, targets(&[]));
        assert_eq!(seen(&state), both(&[], &["m2"]));
        state.forget(&key);
        assert!(state.bindings().is_empty());
        state.show(&stored(&["again"]));
        assert_eq!(seen(&state), both(&["again"], &["again"]));
    }
}
