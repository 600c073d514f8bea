//! Room that is kept for bindings that preempt: what matters less does not take it while they wait.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use berth_core::{Assumed, AssumedWorkload, Placement};

use crate::assume::workload;
use crate::binding::{Binding, BindingKey};

/// How long room is kept for a binding that is not looked at again.
const KEPT: Duration = Duration::from_mins(6);

/// Where bindings will go when their room is there.
#[derive(Debug, Default)]
pub(super) struct Promises(HashMap<BindingKey, Promise>);

#[derive(Debug)]
struct Promise {
    priority: i32,
    shares: Vec<(String, AssumedWorkload)>,
    until: Instant,
}

impl Promises {
    /// Keeps this room for a binding; `None` gives up what was kept.
    pub(super) fn keep(&mut self, binding: &Binding, place: Option<&Placement>, now: Instant) {
        let Some(place) = place else {
            self.0.remove(&binding.key);
            return;
        };
        let shares = place.targets.iter().filter_map(|target| {
            let mut clusters = binding.spec.clusters.iter();
            let placed = clusters.find(|old| old.name == *target.name);
            let new = target.replicas - placed.map_or(0, |old| old.replicas);
            let workload = workload(&binding.spec, new.max(0)).ok()?;
            Some((target.name.to_string(), workload))
        });
        let promise = Promise {
            priority: binding.spec.priority(),
            shares: shares.collect(),
            until: now + KEPT,
        };
        self.0.insert(binding.key.clone(), promise);
    }

    /// A binding is gone.
    pub(super) fn forget(&mut self, key: &BindingKey) {
        self.0.remove(key);
    }

    /// What a binding may not take: the room of those that matter more.
    pub(super) fn add_to(&self, assumed: &mut Assumed, binding: &Binding, now: Instant) {
        let priority = binding.spec.priority();
        for (key, promise) in &self.0 {
            if *key != binding.key && promise.priority > priority && promise.until > now {
                for (cluster, workload) in &promise.shares {
                    assumed.add(cluster, workload.clone());
                }
            }
        }
    }
}
