//! Shared read-only state: the fleet and the bindings, as any plugin may look at them from any task.
//!
//! Its one writer is the task that decides. Nothing is lent but shared pointers to values that never change,
//! so no lock is held by a plugin, across an await or otherwise.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

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
    bindings: HashMap<BindingKey, Arc<Binding>>,
}

impl Default for State {
    fn default() -> Self {
        Self(Arc::new(RwLock::new(Shown {
            fleet: Fleet::new().snapshot(),
            bindings: HashMap::new(),
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

    /// One binding.
    pub fn binding(&self, key: &BindingKey) -> Option<Arc<Binding>> {
        self.read().bindings.get(key).cloned()
    }

    /// All bindings of the control plane, in no particular order, whatever their scheduler. Decisions that are not
    /// stored yet are not in them.
    pub fn bindings(&self) -> Vec<Arc<Binding>> {
        self.read().bindings.values().cloned().collect()
    }

    pub(crate) fn show_fleet(&self, fleet: &Arc<Snapshot>) {
        self.write().fleet = Arc::clone(fleet);
    }

    pub(crate) fn show(&self, binding: &Arc<Binding>) {
        let (key, binding) = (binding.key.clone(), Arc::clone(binding));
        self.write().bindings.insert(key, binding);
    }

    pub(crate) fn forget(&self, key: &BindingKey) {
        self.write().bindings.remove(key);
    }

    fn read(&self) -> RwLockReadGuard<'_, Shown> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Shown> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Bindings for State {
    fn get(&self, key: &BindingKey) -> Option<Arc<Binding>> {
        self.binding(key)
    }

    fn iter(&self) -> Box<dyn Iterator<Item = Arc<Binding>> + '_> {
        Box::new(self.bindings().into_iter())
    }
}
