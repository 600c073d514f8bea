//! [`Bits`]: a set of clusters, stored as one bit for each cluster of a snapshot.
//!
//! The bit of a cluster is at its ordinal, which is the index of the cluster in the snapshot. A snapshot sorts its
//! clusters by name.

/// The number of bits in a word.
const WORD: usize = u64::BITS as usize;

/// A set of clusters of one snapshot.
///
/// An operation on two sets requires that both sets belong to snapshots with the same clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bits {
    words: Vec<u64>,
    len: usize,
}

impl Bits {
    /// Returns the empty set for a snapshot with `len` clusters.
    pub fn none(len: usize) -> Self {
        Self {
            words: vec![0; len.div_ceil(WORD)],
            len,
        }
    }

    /// Returns the set of all clusters of a snapshot with `len` clusters.
    pub fn all(len: usize) -> Self {
        let mut words = vec![u64::MAX; len.div_ceil(WORD)];
        if let Some(last) = words.last_mut()
            && !len.is_multiple_of(WORD)
        {
            *last = (1 << (len % WORD)) - 1;
        }
        Self { words, len }
    }

    /// Returns the set of the ordinals below `len` for which the predicate is true.
    pub fn from_fn(len: usize, mut predicate: impl FnMut(usize) -> bool) -> Self {
        let mut words = Vec::with_capacity(len.div_ceil(WORD));
        let mut start = 0;
        while start < len {
            let end = len.min(start + WORD);
            let mut word = 0;
            for ordinal in start..end {
                word |= u64::from(predicate(ordinal)) << (ordinal - start);
            }
            words.push(word);
            start = end;
        }
        Self { words, len }
    }

    /// Returns the set of the clusters whose value satisfies the predicate. `column` contains one value for each
    /// cluster, indexed by ordinal.
    pub fn from_column<T: Copy>(column: &[T], predicate: impl Fn(T) -> bool) -> Self {
        let words = column
            .chunks(WORD)
            .map(|chunk| {
                chunk.iter().enumerate().fold(0, |word, (bit, &value)| {
                    word | (u64::from(predicate(value)) << bit)
                })
            })
            .collect();
        Self {
            words,
            len: column.len(),
        }
    }

    /// Returns the number of all clusters in the snapshot. [`Self::count`] returns the number of clusters in the set.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Reports whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|&word| word == 0)
    }

    /// Returns the number of clusters in the set.
    pub fn count(&self) -> usize {
        self.words
            .iter()
            .map(|word| word.count_ones() as usize)
            .sum()
    }

    /// Reports whether the set contains a cluster.
    pub fn contains(&self, ordinal: usize) -> bool {
        self.words
            .get(ordinal / WORD)
            .is_some_and(|word| word >> (ordinal % WORD) & 1 == 1)
    }

    /// Adds a cluster. Ignores an ordinal that is out of range.
    pub fn insert(&mut self, ordinal: usize) {
        self.set(ordinal, true);
    }

    /// Removes a cluster. Ignores an ordinal that is out of range.
    pub fn remove(&mut self, ordinal: usize) {
        self.set(ordinal, false);
    }

    /// Adds the cluster if `member` is true, and removes the cluster otherwise. Ignores an ordinal that is out of
    /// range.
    pub(crate) fn set(&mut self, ordinal: usize, member: bool) {
        if ordinal >= self.len {
            return;
        }
        if let Some(word) = self.words.get_mut(ordinal / WORD) {
            let bit = 1 << (ordinal % WORD);
            if member {
                *word |= bit;
            } else {
                *word &= !bit;
            }
        }
    }

    /// Resizes the set for a snapshot with `len` clusters, and removes ordinals that are out of range. A plugin may
    /// return a set of another size.
    pub(crate) fn trim(&mut self, len: usize) {
        if self.len != len {
            self.words.resize(len.div_ceil(WORD), 0);
            self.len = len;
        }
        if let Some(last) = self.words.last_mut()
            && !len.is_multiple_of(WORD)
        {
            *last &= (1 << (len % WORD)) - 1;
        }
    }

    /// Keeps only the clusters that are also in the other set.
    pub fn intersect(&mut self, other: &Self) {
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word &= other;
        }
    }

    /// Keeps only the clusters that are also in at least one of two other sets.
    pub fn intersect_either(&mut self, one: &Self, other: &Self) {
        for ((word, one), other) in self.words.iter_mut().zip(&one.words).zip(&other.words) {
            *word &= one | other;
        }
    }

    /// Adds the clusters of the other set.
    pub fn unite(&mut self, other: &Self) {
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word |= other;
        }
    }

    /// Removes the clusters of the other set.
    pub fn subtract(&mut self, other: &Self) {
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word &= !other;
        }
    }

    /// Iterates over the ordinals of the clusters in the set. The order is ascending, and therefore equals the order of
    /// the cluster names.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.words.iter().enumerate().flat_map(|(index, &word)| {
            let mut rest = word;
            std::iter::from_fn(move || {
                (rest != 0).then(|| {
                    let bit = rest.trailing_zeros() as usize;
                    rest &= rest - 1;
                    index * WORD + bit
                })
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn operations_match_those_of_btree_set(
            len in 0_usize..200,
            left in prop::collection::btree_set(0_usize..200, 0..80),
            right in prop::collection::btree_set(0_usize..200, 0..80),
        ) {
            let within = |set: &BTreeSet<usize>| set.iter().copied().filter(|&o| o < len).collect::<BTreeSet<_>>();
            let (left, right) = (within(&left), within(&right));
            let bits = |set: &BTreeSet<usize>| Bits::from_fn(len, |ordinal| set.contains(&ordinal));
            let members = |bits: &Bits| bits.iter().collect::<BTreeSet<_>>();
            let (a, b) = (bits(&left), bits(&right));
            prop_assert_eq!(&members(&a), &left);
            prop_assert_eq!(a.count(), left.len());
            let mut both = a.clone();
            both.intersect(&b);
            prop_assert_eq!(members(&both), &left & &right);
            let mut either = a.clone();
            either.unite(&b);
            prop_assert_eq!(members(&either), &left | &right);
            let mut only = a.clone();
            only.subtract(&b);
            prop_assert_eq!(members(&only), &left - &right);
            prop_assert_eq!(Bits::all(len).count(), len);
            let column: Vec<bool> = (0..len).map(|ordinal| left.contains(&ordinal)).collect();
            prop_assert_eq!(Bits::from_column(&column, |member| member), a);
        }
    }
}
