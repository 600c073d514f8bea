//! The ready keys of one lane. Keys of the highest rank come first. Among keys of equal rank, the tenants take turns, so
//! that a tenant with thousands of keys does not delay the few keys of another one. A tenant is a ClusterQueue, or a
//! namespace without one. Within a tenant, the key that became ready first comes first.
//!
//! In each turn, a tenant gets as many keys as its weight. A tenant that becomes ready therefore waits for at most one turn
//! of each other tenant (weighted round robin). Only tenants with ready keys use memory. Each operation takes logarithmic
//! time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Instant;

use berth_api::BindingKey;

use super::{Rank, SortKey};

/// The turns of tenants among keys of equal rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turns {
    /// Each namespace takes turns. ClusterResourceBindings are one more namespace, whose name is empty.
    ByNamespace(NamespaceWeights),
    /// There are no turns: the key that became ready first comes first, whatever its namespace is.
    None,
}

impl Default for Turns {
    fn default() -> Self {
        Self::ByNamespace(NamespaceWeights::default())
    }
}

/// The number of keys that namespaces get in one turn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamespaceWeights(BTreeMap<String, u32>);

impl NamespaceWeights {
    /// Creates the weights. Namespaces without a weight have the weight 1, and the weight 0 counts as 1.
    pub fn new(weights: impl IntoIterator<Item = (String, u32)>) -> Self {
        Self(weights.into_iter().collect())
    }

    fn of(&self, namespace: &str) -> u32 {
        self.0.get(namespace).copied().unwrap_or(1).max(1)
    }
}

/// The owner of turns.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Tenant {
    /// A ClusterQueue.
    ClusterQueue(Arc<str>),
    /// A namespace without a ClusterQueue. Of ClusterResourceBindings, `None`.
    Namespace(Option<Arc<str>>),
    /// All keys, if there are no turns.
    #[default]
    All,
}

/// The keys of a tenant and the number of its next turn.
type Waiting<'a> = (&'a Tenant, &'a TenantKeys);

/// The ready keys of one lane.
#[derive(Debug, Default)]
pub(super) struct ReadyKeys {
    ranks: BTreeMap<Reverse<Rank>, RankedKeys>,
    len: usize,
}

/// The ready keys of one rank.
#[derive(Debug, Default)]
pub(super) struct RankedKeys {
    /// The keys of each tenant. No set is empty.
    tenants: HashMap<Tenant, TenantKeys>,
    /// The tenants in `tenants` by the number of their next turn.
    rotation: BTreeMap<u64, Tenant>,
    last_turn: u64,
    /// The number of keys that the first tenant got in its present turn.
    served: u32,
}

#[derive(Debug)]
struct TenantKeys {
    turn: u64,
    keys: BTreeSet<(Instant, u64, BindingKey)>,
}

/// The position of a key among the ready keys of its lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    /// The position among the keys of the tenant, from 1.
    pub(crate) place: usize,
    /// The number of ready keys of the tenant with the same rank.
    pub(crate) of: usize,
    /// The number of tenants with ready keys of the same rank.
    pub(crate) tenants: usize,
    /// The number of keys that come first, if no key becomes ready or delayed meanwhile.
    pub(crate) before: usize,
}

impl RankedKeys {
    fn next_turn(&mut self) -> u64 {
        self.last_turn += 1;
        self.last_turn
    }

    /// Ends the turn of the first tenant, whose keys are `rest`.
    fn end_turn(&mut self, tenant: Tenant, rest: Option<BTreeSet<(Instant, u64, BindingKey)>>) {
        self.rotation.pop_first();
        self.served = 0;
        if let Some(keys) = rest {
            let turn = self.next_turn();
            self.rotation.insert(turn, tenant.clone());
            self.tenants.insert(tenant, TenantKeys { turn, keys });
        }
    }

    fn position(&self, tenant: &Tenant, key: &BindingKey, weights: &Weights) -> Option<Position> {
        let own = self.tenants.get(tenant)?;
        let index = own.keys.iter().position(|(.., other)| other == key)?;
        let first = self.rotation.first_key_value().map(|(turn, _)| *turn);
        let served = |turn: u64| {
            if first == Some(turn) {
                u64::from(self.served)
            } else {
                0
            }
        };
        let place = u64::try_from(index).unwrap_or(u64::MAX);
        let weight = u64::from(weights.of(tenant));
        // The turn of the tenant in which the key comes, from 0.
        let round = (place + served(own.turn)) / weight;
        let others = self.tenants.iter().filter(|(other, _)| *other != tenant);
        let before = others.map(|(other, keys): Waiting<'_>| {
            let rounds = round + u64::from(keys.turn < own.turn);
            let weight = u64::from(weights.of(other));
            let gets = (rounds * weight).saturating_sub(served(keys.turn).min(rounds * weight));
            usize::try_from(gets)
                .unwrap_or(usize::MAX)
                .min(keys.keys.len())
        });
        Some(Position {
            place: index + 1,
            of: own.keys.len(),
            tenants: self.tenants.len(),
            before: index + before.sum::<usize>(),
        })
    }
}

/// The number of keys that each tenant gets in one turn.
#[derive(Clone, Debug, Default)]
pub(super) struct Weights {
    pub(super) namespaces: NamespaceWeights,
    pub(super) queues: BTreeMap<Arc<str>, u32>,
}

impl Weights {
    pub(super) fn of(&self, tenant: &Tenant) -> u32 {
        match tenant {
            Tenant::ClusterQueue(name) => self.queues.get(name).copied().unwrap_or(1).max(1),
            Tenant::Namespace(name) => self.namespaces.of(name.as_deref().unwrap_or_default()),
            Tenant::All => u32::MAX,
        }
    }
}

impl ReadyKeys {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn insert(
        &mut self,
        (rank, since, serial): SortKey,
        tenant: &Tenant,
        key: &BindingKey,
    ) {
        let ranked = self.ranks.entry(rank).or_default();
        let entry = (since, serial, key.clone());
        let is_new = if let Some(tenant) = ranked.tenants.get_mut(tenant) {
            tenant.keys.insert(entry)
        } else {
            let turn = ranked.next_turn();
            ranked.rotation.insert(turn, tenant.clone());
            let keys = BTreeSet::from([entry]);
            ranked
                .tenants
                .insert(tenant.clone(), TenantKeys { turn, keys });
            true
        };
        self.len += usize::from(is_new);
    }

    /// Removes a key. Reports whether the lane contained it.
    pub(super) fn remove(
        &mut self,
        (rank, since, serial): SortKey,
        tenant: &Tenant,
        key: &BindingKey,
    ) -> bool {
        let Some(ranked) = self.ranks.get_mut(&rank) else {
            return false;
        };
        let Some(of_tenant) = ranked.tenants.get_mut(tenant) else {
            return false;
        };
        let is_removed = of_tenant.keys.remove(&(since, serial, key.clone()));
        if of_tenant.keys.is_empty() {
            let turn = of_tenant.turn;
            ranked.tenants.remove(tenant);
            if ranked
                .rotation
                .first_key_value()
                .is_some_and(|(first, _)| *first == turn)
            {
                ranked.served = 0;
            }
            ranked.rotation.remove(&turn);
        }
        if ranked.tenants.is_empty() {
            self.ranks.remove(&rank);
        }
        self.len -= usize::from(is_removed);
        is_removed
    }

    /// Removes the next key, and returns it with the time at which it became ready.
    pub(super) fn pop(&mut self, weights: &Weights) -> Option<(Instant, BindingKey)> {
        let mut first = self.ranks.first_entry()?;
        let ranked = first.get_mut();
        let tenant = ranked.rotation.first_key_value()?.1.clone();
        let of_tenant = ranked.tenants.get_mut(&tenant)?;
        let (since, _, key) = of_tenant.keys.pop_first()?;
        self.len -= 1;
        ranked.served += 1;
        if of_tenant.keys.is_empty() {
            ranked.tenants.remove(&tenant);
            ranked.end_turn(tenant, None);
        } else if ranked.served >= weights.of(&tenant) {
            let rest = std::mem::take(&mut of_tenant.keys);
            ranked.end_turn(tenant, Some(rest));
        }
        if ranked.tenants.is_empty() {
            first.remove();
        }
        Some((since, key))
    }

    /// Returns the time at which the oldest key became ready.
    pub(super) fn oldest(&self) -> Option<Instant> {
        let tenants = self
            .ranks
            .values()
            .flat_map(|ranked| ranked.tenants.values());
        tenants
            .filter_map(|tenant| tenant.keys.first())
            .map(|(since, ..)| *since)
            .min()
    }

    /// Returns the position of a key, or `None` if the lane does not contain it. Reads all tenants of the lane.
    pub(super) fn position(
        &self,
        rank: Reverse<Rank>,
        tenant: &Tenant,
        key: &BindingKey,
        weights: &Weights,
    ) -> Option<Position> {
        let higher = self.ranks.range(..rank);
        let higher = higher.flat_map(|(_, ranked)| ranked.tenants.values());
        let higher: usize = higher.map(|tenant| tenant.keys.len()).sum();
        let position = self.ranks.get(&rank)?.position(tenant, key, weights)?;
        Some(Position {
            before: higher + position.before,
            ..position
        })
    }

    /// Returns the number of ready keys of each tenant, and the time at which its oldest key became ready.
    pub(super) fn by_tenant(&self) -> impl Iterator<Item = (&Tenant, usize, Instant)> {
        let tenants = self.ranks.values().flat_map(|ranked| &ranked.tenants);
        tenants.filter_map(|(tenant, of_tenant)| {
            let (since, ..) = of_tenant.keys.first()?;
            Some((tenant, of_tenant.keys.len(), *since))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    /// A lane with its turns.
    struct Lane(ReadyKeys, Turns, Weights);

    impl Lane {
        fn new(turns: Turns) -> Self {
            let mut weights = Weights::default();
            if let Turns::ByNamespace(namespaces) = &turns {
                weights.namespaces = namespaces.clone();
            }
            weights.queues = BTreeMap::from([("q".into(), 2)]);
            Self(ReadyKeys::default(), turns, weights)
        }

        /// Returns the tenant of a key. The namespaces p and q belong to the ClusterQueue q.
        fn tenant(&self, key: &BindingKey) -> Tenant {
            match (&self.1, key.namespace.as_deref()) {
                (Turns::None, _) => Tenant::All,
                (_, Some("p" | "q")) => Tenant::ClusterQueue("q".into()),
                _ => Tenant::Namespace(key.namespace.clone()),
            }
        }

        fn insert(&mut self, sort_key: SortKey, key: &BindingKey) {
            self.0.insert(sort_key, &self.tenant(key), key);
        }

        fn remove(&mut self, sort_key: SortKey, key: &BindingKey) -> bool {
            self.0.remove(sort_key, &self.tenant(key), key)
        }

        fn position(&self, sort_key: SortKey, key: &BindingKey) -> Option<Position> {
            self.0.position(sort_key.0, &self.tenant(key), key, &self.2)
        }

        fn pop(&mut self) -> Option<(Instant, BindingKey)> {
            self.0.pop(&self.2)
        }
    }

    /// A tenant, with its keys and their numbers.
    type Waiting = (Tenant, Vec<(u64, BindingKey)>);

    /// Tenants in the order of their turns, for each rank. The first tenant has got `served` keys.
    #[derive(Default)]
    struct PlainRoundRobin(BTreeMap<Reverse<i64>, (u32, Vec<Waiting>)>);

    impl PlainRoundRobin {
        fn insert(&mut self, rank: i64, tenant: Tenant, number: u64, key: BindingKey) {
            let (_, tenants) = self.0.entry(Reverse(rank)).or_default();
            match tenants.iter_mut().find(|(known, _)| *known == tenant) {
                Some((_, keys)) => keys.push((number, key)),
                None => tenants.push((tenant, vec![(number, key)])),
            }
        }

        fn remove_oldest(&mut self, rank: i64, tenant: &Tenant) -> Option<(u64, BindingKey)> {
            let (served, tenants) = self.0.get_mut(&Reverse(rank))?;
            let index = tenants.iter().position(|(known, _)| known == tenant)?;
            let removed = tenants[index].1.remove(0);
            if tenants[index].1.is_empty() {
                tenants.remove(index);
                if index == 0 {
                    *served = 0;
                }
            }
            if tenants.is_empty() {
                self.0.remove(&Reverse(rank));
            }
            Some(removed)
        }

        fn pop(&mut self, weights: &Weights) -> Option<BindingKey> {
            let mut first = self.0.first_entry()?;
            let (served, tenants) = first.get_mut();
            let (tenant, mut keys) = tenants.remove(0);
            let (_, key) = keys.remove(0);
            *served += 1;
            if keys.is_empty() {
                *served = 0;
            } else if *served >= weights.of(&tenant) {
                *served = 0;
                tenants.push((tenant, keys));
            } else {
                tenants.insert(0, (tenant, keys));
            }
            if tenants.is_empty() {
                first.remove();
            }
            Some(key)
        }
    }

    fn lane(turns: Turns, keys: &[(&str, i64)]) -> Lane {
        let mut lane = Lane::new(turns);
        let start = Instant::now();
        for (number, (name, rank)) in (0_u32..).zip(keys) {
            let (namespace, _) = name.split_at(1);
            let since = start + Duration::from_millis(number.into());
            let sort_key = (Reverse(Rank::of(*rank)), since, number.into());
            lane.insert(sort_key, &BindingKey::new(namespace, name));
        }
        lane
    }

    fn names(mut lane: Lane) -> String {
        let keys = std::iter::from_fn(|| lane.pop());
        let names: Vec<String> = keys.map(|(_, key)| key.name.to_string()).collect();
        names.join(" ")
    }

    #[test]
    fn namespaces_take_turns_within_a_rank() {
        let keys = [
            ("a1", 0),
            ("a2", 0),
            ("a3", 0),
            ("b1", 0),
            ("a4", 5),
            ("c1", 0),
            ("a5", 0),
        ];
        let weights = NamespaceWeights::new([("a".to_owned(), 2), ("b".to_owned(), 0)]);
        for (turns, expected) in [
            (Turns::default(), "a4 a1 b1 c1 a2 a3 a5"),
            (Turns::ByNamespace(weights), "a4 a1 a2 b1 c1 a3 a5"),
            (Turns::None, "a4 a1 a2 a3 b1 c1 a5"),
        ] {
            assert_eq!(names(lane(turns.clone(), &keys)), expected, "{turns:?}");
        }
    }

    #[test]
    fn the_namespaces_of_a_queue_share_its_turns() {
        let keys = ["p1", "a1", "q1", "p2", "q2", "a2", "b1"].map(|name| (name, 0));
        assert_eq!(names(lane(Turns::default(), &keys)), "p1 q1 a1 b1 p2 q2 a2");
    }

    #[test]
    fn ten_bindings_do_not_wait_for_ten_thousand() {
        let many: Vec<String> = (0..10_000).map(|number| format!("a{number}")).collect();
        let mut keys: Vec<(&str, i64)> = many.iter().map(|name| (&**name, 0)).collect();
        keys.extend(
            ["b0", "b1", "b2", "b3", "b4", "b5", "b6", "b7", "b8", "b9"].map(|name| (name, 0)),
        );
        let mut lane = lane(Turns::default(), &keys);
        let first: Vec<String> = (0..20)
            .map(|_| lane.pop().unwrap().1.name.to_string())
            .collect();
        assert_eq!(
            first.iter().filter(|name| name.starts_with('b')).count(),
            10
        );
    }

    proptest! {
        /// A key waits for at most `weight` keys of each other namespace for each key before it in its own namespace.
        #[test]
        fn the_wait_is_bounded_and_no_key_is_lost(
            keys in prop::collection::vec(("[abc]", 0..2_i64, any::<bool>()), 0..60),
            weight in 1..4_u32,
        ) {
            let weights = NamespaceWeights::new([("a".to_owned(), weight)]);
            let mut lane = Lane::new(Turns::ByNamespace(weights));
            let now = Instant::now();
            let mut present = Vec::new();
            for (number, (namespace, rank, removed)) in (0_u64..).zip(&keys) {
                let key = BindingKey::new(namespace, &number.to_string());
                let sort_key = (Reverse(Rank::of(*rank)), now, number);
                lane.insert(sort_key, &key);
                if *removed {
                    prop_assert!(lane.remove(sort_key, &key));
                    prop_assert!(!lane.remove(sort_key, &key));
                } else {
                    present.push((*rank, namespace.clone(), number));
                }
            }
            prop_assert_eq!(lane.0.len(), present.len());
            let mut popped: Vec<(i64, String, u64)> = Vec::new();
            while let Some((_, key)) = lane.pop() {
                let number: u64 = key.name.parse().unwrap();
                let index = usize::try_from(number).unwrap();
                popped.push((keys[index].1, key.namespace.unwrap().to_string(), number));
            }
            prop_assert!(lane.0.is_empty() && lane.0.oldest().is_none());
            let of = |list: &[(i64, String, u64)], rank: i64, namespace: &str| -> Vec<u64> {
                let mine = list.iter().filter(|(of, name, _)| *of == rank && name == namespace);
                mine.map(|(.., number)| *number).collect()
            };
            for rank in 0..2 {
                let same_rank: Vec<_> = popped.iter().filter(|(of, ..)| *of == rank).cloned().collect();
                for namespace in ["a", "b", "c"] {
                    prop_assert_eq!(of(&popped, rank, namespace), of(&present, rank, namespace));
                    let places = same_rank.iter().enumerate();
                    let mine = places.filter(|(_, (_, name, _))| name == namespace);
                    for (before, (place, _)) in mine.enumerate() {
                        let turns = if namespace == "a" { before / usize::try_from(weight).unwrap() } else { before };
                        let others = if namespace == "a" { 2 } else { 1 + usize::try_from(weight).unwrap() };
                        prop_assert!(place <= before + (turns + 1) * others);
                    }
                }
            }
            let ranks: Vec<i64> = popped.iter().map(|(rank, ..)| *rank).collect();
            prop_assert!(ranks.is_sorted_by(|a, b| a >= b));
        }

        /// The lane is a plain weighted round robin, whatever is removed and added between two turns.
        #[test]
        fn the_order_is_that_of_a_plain_round_robin(
            steps in prop::collection::vec(("[abpq]", 0..2_i64, 0..3_u8), 0..80),
            weight in 1..4_u32,
        ) {
            let weights = NamespaceWeights::new([("a".to_owned(), weight)]);
            let mut lane = Lane::new(Turns::ByNamespace(weights));
            let mut plain = PlainRoundRobin::default();
            let now = Instant::now();
            for (number, (namespace, rank, step)) in (0_u64..).zip(&steps) {
                let key = BindingKey::new(namespace, &number.to_string());
                let sort_key = (Reverse(Rank::of(*rank)), now, number);
                let tenant = lane.tenant(&key);
                match step {
                    0 => {
                        let popped = lane.pop().map(|(_, key)| key);
                        prop_assert_eq!(popped, plain.pop(&lane.2));
                    }
                    1 => {
                        let removed = plain.remove_oldest(*rank, &tenant);
                        if let Some((number, key)) = removed {
                            prop_assert!(lane.remove((Reverse(Rank::of(*rank)), now, number), &key));
                        }
                    }
                    _ => {
                        lane.insert(sort_key, &key);
                        plain.insert(*rank, tenant, number, key);
                    }
                }
            }
            while let Some((_, key)) = lane.pop() {
                prop_assert_eq!(Some(key), plain.pop(&lane.2));
            }
            prop_assert_eq!(plain.pop(&lane.2), None);
        }

        /// The position of a key is the number of keys that come before it, at any time.
        #[test]
        fn the_position_is_exact(
            keys in prop::collection::vec(("[abpq]", 0..2_i64), 1..40),
            weight in 1..4_u32,
            popped in 0..10_usize,
        ) {
            let weights = NamespaceWeights::new([("a".to_owned(), weight)]);
            let mut lane = Lane::new(Turns::ByNamespace(weights));
            let now = Instant::now();
            let keys: Vec<(SortKey, BindingKey)> = (0_u64..).zip(&keys).map(|(number, (namespace, rank))| {
                let sort_key = (Reverse(Rank::of(*rank)), now, number);
                (sort_key, BindingKey::new(namespace, &number.to_string()))
            }).collect();
            for (sort_key, key) in &keys {
                lane.insert(*sort_key, key);
            }
            for _ in 0..popped {
                lane.pop();
            }
            let positions: HashMap<BindingKey, usize> = keys
                .iter()
                .filter_map(|(sort_key, key)| Some((key.clone(), lane.position(*sort_key, key)?.before)))
                .collect();
            prop_assert_eq!(positions.len(), lane.0.len());
            for place in 0.. {
                let Some((_, key)) = lane.pop() else { break };
                prop_assert_eq!(positions[&key], place);
            }
        }
    }
}
