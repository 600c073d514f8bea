//! The ready keys of one lane. Keys of the highest rank come first. Among keys of equal rank, the namespaces take turns,
//! so that a namespace with thousands of keys does not delay the few keys of another one. Within a namespace, the key
//! that became ready first comes first.
//!
//! In each turn, a namespace gets as many keys as its weight. A namespace that becomes ready therefore waits for at most
//! one turn of each other namespace (weighted round robin). Only namespaces with ready keys use memory.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use berth_api::BindingKey;

use super::{Rank, SortKey};

/// The turns of namespaces among keys of equal rank.
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

/// The namespace that takes turns. Without turns, all keys belong to `None`.
type Tenant = Option<Arc<str>>;

/// The ready keys of one lane.
#[derive(Debug, Default)]
pub(super) struct ReadyKeys {
    turns: Turns,
    ranks: BTreeMap<Reverse<Rank>, RankedKeys>,
    len: usize,
}

/// The ready keys of one rank.
#[derive(Debug, Default)]
struct RankedKeys {
    /// The keys of each namespace. No set is empty.
    keys: HashMap<Tenant, BTreeSet<(Instant, u64, BindingKey)>>,
    /// The namespaces in `keys`, the next one first.
    rotation: VecDeque<Tenant>,
    /// The number of keys that the first namespace got in its present turn.
    served: u32,
}

impl ReadyKeys {
    pub(super) fn new(turns: Turns) -> Self {
        Self {
            turns,
            ..Self::default()
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn insert(&mut self, (rank, since, serial): SortKey, key: &BindingKey) {
        let tenant = self.tenant(key);
        let ranked = self.ranks.entry(rank).or_default();
        let keys = ranked.keys.entry(tenant).or_insert_with_key(|tenant| {
            ranked.rotation.push_back(tenant.clone());
            BTreeSet::new()
        });
        if keys.insert((since, serial, key.clone())) {
            self.len += 1;
        }
    }

    /// Removes a key. Reports whether the lane contained it.
    pub(super) fn remove(&mut self, (rank, since, serial): SortKey, key: &BindingKey) -> bool {
        let tenant = self.tenant(key);
        let Some(ranked) = self.ranks.get_mut(&rank) else {
            return false;
        };
        let Some(keys) = ranked.keys.get_mut(&tenant) else {
            return false;
        };
        let is_removed = keys.remove(&(since, serial, key.clone()));
        if keys.is_empty() {
            ranked.keys.remove(&tenant);
            if ranked.rotation.front() == Some(&tenant) {
                ranked.served = 0;
            }
            ranked.rotation.retain(|other| *other != tenant);
        }
        if ranked.keys.is_empty() {
            self.ranks.remove(&rank);
        }
        self.len -= usize::from(is_removed);
        is_removed
    }

    /// Removes the next key, and returns it with the time at which it became ready.
    pub(super) fn pop(&mut self) -> Option<(Instant, BindingKey)> {
        let mut first = self.ranks.first_entry()?;
        let ranked = first.get_mut();
        let tenant = ranked.rotation.front()?.clone();
        let keys = ranked.keys.get_mut(&tenant)?;
        let (since, _, key) = keys.pop_first()?;
        self.len -= 1;
        ranked.served += 1;
        let weight = match &self.turns {
            Turns::ByNamespace(weights) => weights.of(tenant.as_deref().unwrap_or_default()),
            Turns::None => u32::MAX,
        };
        if keys.is_empty() {
            ranked.keys.remove(&tenant);
            ranked.rotation.pop_front();
            ranked.served = 0;
        } else if ranked.served >= weight {
            ranked.rotation.rotate_left(1);
            ranked.served = 0;
        }
        if ranked.keys.is_empty() {
            first.remove();
        }
        Some((since, key))
    }

    /// Returns the time at which the oldest key became ready.
    pub(super) fn oldest(&self) -> Option<Instant> {
        let keys = self.ranks.values().flat_map(|ranked| ranked.keys.values());
        keys.filter_map(|keys| keys.first())
            .map(|(since, ..)| *since)
            .min()
    }

    fn tenant(&self, key: &BindingKey) -> Tenant {
        match self.turns {
            Turns::ByNamespace(_) => key.namespace.clone(),
            Turns::None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn lane(turns: Turns, keys: &[(&str, i64)]) -> ReadyKeys {
        let mut lane = ReadyKeys::new(turns);
        let start = Instant::now();
        for (number, (name, rank)) in (0_u32..).zip(keys) {
            let (namespace, _) = name.split_at(1);
            let since = start + Duration::from_millis(number.into());
            let sort_key = (Reverse(Rank::of(*rank)), since, number.into());
            lane.insert(sort_key, &BindingKey::new(namespace, name));
        }
        lane
    }

    fn names(mut lane: ReadyKeys) -> String {
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
            let mut lane = ReadyKeys::new(Turns::ByNamespace(weights));
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
            prop_assert_eq!(lane.len(), present.len());
            let mut popped: Vec<(i64, String, u64)> = Vec::new();
            while let Some((_, key)) = lane.pop() {
                let number: u64 = key.name.parse().unwrap();
                let index = usize::try_from(number).unwrap();
                popped.push((keys[index].1, key.namespace.unwrap().to_string(), number));
            }
            prop_assert!(lane.is_empty() && lane.oldest().is_none());
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
    }
}
