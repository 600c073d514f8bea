//! Capacity that is reserved for bindings that preempt other bindings. Bindings of lower priority must not use this
//! capacity.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use berth_api::{Binding, BindingKey};
use berth_engine::{Assumed, AssumedWorkload, Placement};

use super::assumed_capacity::assumed_workload;

/// Lifetime of a reservation that is not renewed.
const LIFETIME: Duration = Duration::from_mins(6);

/// The reservations, by the key of the preempting binding.
#[derive(Debug, Default)]
pub(super) struct Reservations(HashMap<BindingKey, Reservation>);

#[derive(Debug)]
struct Reservation {
    priority: i32,
    shares: Vec<(String, AssumedWorkload)>,
    until: Instant,
}

impl Reservations {
    /// Replaces the reservation of a binding. If `placement` is `None`, removes the reservation. A reservation contains
    /// only the replicas that the binding does not have in the cluster yet.
    pub(super) fn set(&mut self, binding: &Binding, placement: Option<&Placement>, now: Instant) {
        let Some(placement) = placement else {
            self.0.remove(&binding.key);
            return;
        };
        let shares = placement.targets.iter().filter_map(|target| {
            let mut clusters = binding.spec.clusters.iter();
            let placed = clusters.find(|old| old.name == *target.name);
            let new = target.replicas - placed.map_or(0, |old| old.replicas);
            let workload = assumed_workload(&binding.spec, new.max(0)).ok()?;
            Some((target.name.to_string(), workload))
        });
        let reservation = Reservation {
            priority: binding.spec.priority(),
            shares: shares.collect(),
            until: now + LIFETIME,
        };
        self.0.insert(binding.key.clone(), reservation);
    }

    /// Removes the reservation of a deleted binding.
    pub(super) fn remove(&mut self, key: &BindingKey) {
        self.0.remove(key);
    }

    /// Adds the reservations of bindings with a higher priority than `binding` to the taken capacity.
    pub(super) fn add_to(&self, taken: &mut Assumed, binding: &Binding, now: Instant) {
        let priority = binding.spec.priority();
        for (key, reservation) in &self.0 {
            if *key != binding.key && reservation.priority > priority && reservation.until > now {
                for (cluster, workload) in &reservation.shares {
                    taken.add(cluster, workload.clone());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use berth_api::ResourceBinding;
    use berth_engine::Target;
    use serde_json::json;

    use super::*;

    fn binding(name: &str, priority: i32) -> Binding {
        serde_json::from_value::<ResourceBinding>(json!({
            "metadata": { "name": name, "namespace": "n" },
            "spec": {
                "resource": { "apiVersion": "apps/v1", "kind": "Deployment", "name": name },
                "replicas": 3, "schedulePriority": { "priority": priority },
                "replicaRequirements": { "resourceRequest": { "cpu": "1" } },
            },
        }))
        .unwrap()
        .into()
    }

    #[test]
    fn bindings_of_lower_priority_cannot_use_a_reservation() {
        let now = Instant::now();
        let high = binding("high", 9);
        let placement = Placement {
            targets: vec![Target {
                name: Arc::from("m1"),
                replicas: 3,
                components: Vec::new(),
            }],
            affinity: None,
            waiting: 0,
        };
        let mut reservations = Reservations::default();
        reservations.set(&high, Some(&placement), now);
        let reserved_against = |reservations: &Reservations, name: &str, priority: i32| {
            let mut taken = Assumed::default();
            reservations.add_to(&mut taken, &binding(name, priority), now);
            let workloads = taken.of("m1").iter();
            let replicas = workloads.flat_map(|workload| &workload.components);
            replicas.map(|(replicas, _)| replicas).sum::<i32>()
        };
        assert_eq!(reserved_against(&reservations, "low", 0), 3);
        assert_eq!(reserved_against(&reservations, "other", 9), 0);
        assert_eq!(
            reserved_against(&reservations, "high", 0),
            0,
            "a binding can use its own reservation"
        );
        reservations.set(&high, None, now);
        assert_eq!(reserved_against(&reservations, "low", 0), 0);
    }
}
