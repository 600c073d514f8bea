//! Selection of the best combination of groups of clusters, such as regions. The result equals that of Karmada's
//! exhaustive search, but is computed in polynomial time.
//!
//! Karmada sorts the groups by number of clusters, and then enumerates combinations of ascending indices, depth first.
//! It records a combination as soon as the combination has `min` groups and `target` clusters. It does not extend a
//! recorded combination. Among the recorded combinations, the greatest score wins. If scores are equal, the most
//! clusters win, then the combination that was found first.
//!
//! After the search has taken a group, its continuation depends only on the number of groups and the number of clusters
//! that were taken so far. Dynamic programming over these two numbers finds the greatest score and, for this score, the
//! most clusters: a table is filled from the last group to the first. Then a walk from the first group to the last
//! takes each group that preserves this optimum. The walk thus finds the first of several best combinations.

use std::cmp::Reverse;

/// A group of clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// The rank of the group in the order of names.
    pub rank: usize,
    /// The number of clusters in the group, at least 1.
    pub clusters: usize,
    /// The score of the group.
    pub score: i64,
}

/// Returns the best combination of `min` to `max` groups with at least `target` clusters in total. The returned groups
/// are sorted by descending score, then by name. The result is empty if there is no such combination.
///
/// ```
/// use berth_engine::{Group, select_groups};
///
/// let group = |rank, clusters, score| Group { rank, clusters, score };
/// let regions = [group(0, 1, 90), group(1, 3, 50), group(2, 2, 60)];
/// // Two regions with four clusters in total.
/// assert_eq!(select_groups(&regions, 2, 2, 4), [regions[0], regions[1]]);
/// // No two regions have six clusters in total.
/// assert!(select_groups(&regions, 2, 2, 6).is_empty());
/// ```
pub fn select_groups(groups: &[Group], min: usize, max: usize, target: usize) -> Vec<Group> {
    let mut groups = groups.to_vec();
    groups.sort_unstable_by_key(|group| (group.clusters, Reverse(group.score), group.rank));
    let max = max.min(groups.len());
    if min > max || (min == 0 && target == 0) {
        // Without a minimum and a target, Karmada's search records the empty combination and stops.
        return Vec::new();
    }
    let Some(mut best) = best_combination(&groups, min, max, target) else {
        return Vec::new();
    };
    best.sort_unstable_by_key(|group| (Reverse(group.score), group.rank));
    shortest_recorded_prefix(best, min, target)
}

/// Returns the shortest prefix of the best combination that Karmada's search also records. Karmada prefers such a
/// prefix to the whole combination.
fn shortest_recorded_prefix(mut best: Vec<Group>, min: usize, target: usize) -> Vec<Group> {
    let recorded = |prefix: &[Group]| {
        let clusters: usize = prefix.iter().map(|group| group.clusters).sum();
        let largest = prefix.iter().map(|group| group.clusters).max().unwrap_or(0);
        clusters >= target && (prefix.len() == min || clusters - largest < target)
    };
    let shortest = (min.max(1)..best.len()).find(|&len| recorded(&best[..len]));
    if let Some(len) = shortest {
        best.truncate(len);
    }
    best
}

fn best_combination(groups: &[Group], min: usize, max: usize, target: usize) -> Option<Vec<Group>> {
    // If even the smallest `min` groups have enough clusters, the target has no effect.
    let smallest: usize = groups.iter().take(min).map(|group| group.clusters).sum();
    let target = if min > 0 && smallest >= target {
        0
    } else {
        target
    };
    // Dividing all sizes by their common divisor makes the table smaller.
    let divisor = groups
        .iter()
        .fold(0, |divisor, group| gcd(divisor, group.clusters));
    let sizes: Vec<usize> = groups
        .iter()
        .map(|group| group.clusters / divisor.max(1))
        .collect();
    let search = Search::new(&sizes, min, max, target.div_ceil(divisor.max(1)));
    // The worth of a group combines its score and its number of clusters in one number. A greater score always has a
    // greater worth.
    let base = sizes.iter().fold(1_i128, |sum, &size| sum + size as i128);
    let worths: Vec<i128> = groups
        .iter()
        .zip(&sizes)
        .map(|(group, &size)| i128::from(group.score) * base + size as i128)
        .collect();
    let total = worths
        .iter()
        .fold(0_u128, |sum, worth| sum + worth.unsigned_abs());
    let chosen = if total < i64::MAX as u128 / 4 {
        let worths: Vec<i64> = worths
            .iter()
            .filter_map(|&worth| i64::try_from(worth).ok())
            .collect();
        search.best(&worths, i64::MIN / 2)
    } else {
        search.best(&worths, i128::MIN / 2)
    }?;
    Some(chosen.into_iter().map(|index| groups[index]).collect())
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// A search over states. A state consists of the number of groups and the number of clusters that were taken so far.
struct Search<'a> {
    /// The number of clusters of each group, in ascending order.
    sizes: &'a [usize],
    min: usize,
    max: usize,
    target: usize,
    /// The number of table rows. There is one row for each number of taken groups. If `max` has no effect, the last row
    /// also represents all greater numbers.
    rows: usize,
    /// Index `n` contains the number of clusters in the first `n` groups.
    reach: Vec<usize>,
}

impl<'a> Search<'a> {
    fn new(sizes: &'a [usize], min: usize, max: usize, target: usize) -> Self {
        let mut reach = Vec::with_capacity(sizes.len() + 1);
        reach.push(0);
        for size in sizes {
            reach.push(reach.last().copied().unwrap_or(0) + size);
        }
        Self {
            sizes,
            min,
            max,
            target,
            rows: if max >= sizes.len() {
                min.max(1) + 1
            } else {
                max + 1
            },
            reach,
        }
    }

    fn done(&self, len: usize, clusters: usize) -> bool {
        len >= self.min && clusters >= self.target
    }

    /// Reports whether the row `len` represents `len` or more groups.
    fn is_open(&self, len: usize) -> bool {
        self.max >= self.sizes.len() && len + 1 == self.rows
    }

    /// Returns the range of taken clusters from which the search can still succeed, if `len` of the first `index`
    /// groups are taken.
    fn span(&self, index: usize, len: usize) -> std::ops::Range<usize> {
        let nothing = 0..0;
        let left = self.sizes.len() - index;
        if len > index || len >= self.max || (!self.is_open(len) && len + left < self.min) {
            return nothing;
        }
        let most = if self.is_open(len) {
            self.reach[index]
        } else {
            self.reach[index] - self.reach[index - len]
        };
        let ahead = self.reach[self.sizes.len()] - self.reach[index];
        let low = self.reach[len]
            .min(self.target)
            .max(self.target.saturating_sub(ahead));
        // If enough groups are taken, the search ends at `target` clusters.
        let ceiling = if len >= self.min {
            self.target
        } else {
            self.target + 1
        };
        low..(most + 1).min(ceiling).max(low)
    }

    /// Returns the indices of the groups in the best combination. `none` is a value below all possible worths.
    fn best<W>(&self, worths: &[W], none: W) -> Option<Vec<usize>>
    where
        W: Copy + Ord + std::ops::Add<Output = W>,
    {
        let width = self.target + 1;
        let mut table = vec![none; self.rows * width];
        // For each group and row, one flag for each number of clusters in the span: true if the search takes the group.
        let mut takes: Vec<Vec<bool>> = vec![Vec::new(); self.sizes.len() * self.rows];
        for (index, (&size, &worth)) in self.sizes.iter().zip(worths).enumerate().rev() {
            for len in 0..self.rows {
                let span = self.span(index, len);
                if span.is_empty() {
                    continue;
                }
                let next = if self.is_open(len) { len } else { len + 1 };
                let takes = &mut takes[index * self.rows + len];
                takes.reserve_exact(span.len());
                for clusters in span {
                    let more = (clusters + size).min(self.target);
                    let gain = if self.done(len + 1, more) {
                        worth
                    } else {
                        // The table has no rows for more than `max` groups.
                        let rest = table.get(next * width + more).copied().unwrap_or(none);
                        if rest == none { none } else { rest + worth }
                    };
                    let cell = &mut table[len * width + clusters];
                    let take = gain != none && gain >= *cell;
                    if take {
                        *cell = gain;
                    }
                    takes.push(take);
                }
            }
        }
        if table.first().is_none_or(|worth| *worth == none) {
            return None;
        }
        let (mut len, mut clusters, mut chosen) = (0, 0_usize, Vec::new());
        for (index, &size) in self.sizes.iter().enumerate() {
            let low = self.span(index, len).start;
            let take = clusters
                .checked_sub(low)
                .and_then(|offset| takes[index * self.rows + len].get(offset))
                .is_some_and(|take| *take);
            if take {
                chosen.push(index);
                clusters = (clusters + size).min(self.target);
                if self.done(chosen.len(), clusters) {
                    break;
                }
                len = if self.is_open(len) { len } else { len + 1 };
            }
        }
        Some(chosen)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Searches like Karmada: all combinations, depth first.
    fn exhaustive(groups: &[Group], min: usize, max: usize, target: usize) -> Vec<Group> {
        struct Paths<'a> {
            groups: &'a [Group],
            min: usize,
            max: usize,
            target: usize,
            found: Vec<Vec<Group>>,
        }
        impl Paths<'_> {
            fn descend(&mut self, path: &mut Vec<Group>, from: usize) {
                let clusters: usize = path.iter().map(|group| group.clusters).sum();
                if clusters >= self.target && (self.min..=self.max).contains(&path.len()) {
                    self.found.push(path.clone());
                    return;
                }
                if path.len() >= self.max {
                    return;
                }
                for index in from..self.groups.len() {
                    path.push(self.groups[index]);
                    self.descend(path, index + 1);
                    path.pop();
                }
            }
        }
        let mut groups = groups.to_vec();
        groups.sort_by_key(|group| (group.clusters, Reverse(group.score), group.rank));
        let mut paths = Paths {
            groups: &groups,
            min,
            max,
            target,
            found: Vec::new(),
        };
        paths.descend(&mut Vec::new(), 0);
        let mut found = paths.found;
        for path in &mut found {
            path.sort_by_key(|group| (Reverse(group.score), group.rank));
        }
        // The sort is stable, so the combination that was found first stays first among equal combinations.
        found.sort_by_key(|path| {
            let score: i128 = path.iter().map(|group| i128::from(group.score)).sum();
            (
                Reverse(score),
                Reverse(path.iter().map(|group| group.clusters).sum::<usize>()),
            )
        });
        let Some((first, rest)) = found.split_first() else {
            return Vec::new();
        };
        rest.iter().fold(first.clone(), |best, path| {
            if path.len() < best.len() && best.starts_with(path) {
                path.clone()
            } else {
                best
            }
        })
    }

    fn groups(list: &[(usize, i64)]) -> Vec<Group> {
        list.iter()
            .enumerate()
            .map(|(rank, &(clusters, score))| Group {
                rank,
                clusters,
                score,
            })
            .collect()
    }

    #[test]
    fn best_combination_of_groups_is_selected() {
        for (list, min, max, target, expected) in [
            (&[][..], 1, 2, 1, &[][..]),
            // The next case has too few groups, and the case after it has too few clusters.
            (&[(5, 10)], 2, 2, 1, &[]),
            (&[(1, 10), (2, 10)], 1, 2, 4, &[]),
            (&[(5, 10)], 1, 1, 1, &[0]),
            // All groups are selected, the group with the greater score first.
            (&[(1, 10), (2, 20)], 2, 2, 3, &[1, 0]),
            // The greatest score wins.
            (&[(2, 10), (2, 30), (2, 20)], 1, 1, 2, &[1]),
            // More clusters win among equal scores.
            (&[(2, 30), (4, 30)], 1, 1, 2, &[1]),
            // The combination that was found first wins among equal scores and clusters.
            (&[(2, 30), (2, 30), (2, 30)], 2, 2, 4, &[0, 1]),
            // A prefix of the best combination wins if it has enough groups and clusters.
            (&[(3, 60), (2, 50)], 1, 2, 3, &[0]),
            // Without a minimum and a target, nothing is selected.
            (&[(3, 60), (2, 50)], 0, 2, 0, &[]),
        ] {
            let found: Vec<usize> = select_groups(&groups(list), min, max, target)
                .iter()
                .map(|group| group.rank)
                .collect();
            assert_eq!(
                found, expected,
                "{list:?} min {min} max {max} target {target}"
            );
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(3000))]

        #[test]
        fn result_equals_exhaustive_search(
            list in prop::collection::vec(
                (1_usize..8, prop_oneof![0_i64..4, 0_i64..100_000, -3_i64..3]), 0..=12,
            ),
            min in 0_usize..8,
            more in 0_usize..8,
            target in 0_usize..50,
        ) {
            let groups = groups(&list);
            let max = min + more;
            prop_assert_eq!(select_groups(&groups, min, max, target), exhaustive(&groups, min, max, target));
        }

        #[test]
        fn result_equals_exhaustive_search_for_equal_sizes(
            scores in prop::collection::vec(0_i64..6, 0..=12), size in 1_usize..11, min in 0_usize..8, more in 0_usize..8,
            target in 0_usize..90,
        ) {
            let list: Vec<(usize, i64)> = scores.into_iter().map(|score| (size, score)).collect();
            let groups = groups(&list);
            let max = min + more;
            prop_assert_eq!(select_groups(&groups, min, max, target), exhaustive(&groups, min, max, target));
        }

        #[test]
        fn huge_scores_do_not_overflow(
            list in prop::collection::vec((1_usize..5, (i64::MAX - 10)..=i64::MAX), 1..=8), target in 0_usize..20,
        ) {
            let groups = groups(&list);
            prop_assert_eq!(select_groups(&groups, 1, 8, target), exhaustive(&groups, 1, 8, target));
        }
    }
}
