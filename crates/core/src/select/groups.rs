//! The best combination of groups, with the result of an exhaustive search at polynomial cost.
//!
//! Karmada sorts the groups by number of clusters, then enumerates index-increasing combinations depth
//! first. A combination is recorded as soon as it has `min` groups and `target` clusters, and is then not
//! extended. Of the recorded ones the greatest score wins, then the most clusters, then the first found.
//!
//! Since a combination's last group is its largest, what is recorded can be told from (groups so far,
//! clusters so far) alone, which makes it a shortest-path problem: one table over both, filled from the
//! last group to the first, gives the greatest score and number of clusters. Walking the table forwards and
//! taking a group whenever that loses nothing gives the first combination found among equals.

use std::cmp::Reverse;

/// A group of clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its rank by name.
    pub rank: usize,
    /// The number of its clusters, at least 1.
    pub clusters: usize,
    /// Its score.
    pub score: i64,
}

/// The best combination of `min` to `max` groups that have `target` clusters together, in the order of
/// score, then name. Empty when there is none.
pub fn select_groups(groups: &[Group], min: usize, max: usize, target: usize) -> Vec<Group> {
    let mut groups = groups.to_vec();
    groups.sort_unstable_by_key(|group| (group.clusters, Reverse(group.score), group.rank));
    let max = max.min(groups.len());
    if min > max || (min == 0 && target == 0) {
        // With nothing to reach, the search records the empty combination and stops.
        return Vec::new();
    }
    let Some(mut best) = best_combination(&groups, min, max, target) else {
        return Vec::new();
    };
    best.sort_unstable_by_key(|group| (Reverse(group.score), group.rank));
    shortest_recorded_prefix(best, min, target)
}

/// Of all recorded combinations that are a prefix of the best, the search prefers the shortest.
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

/// A score with the number of clusters behind it, to be compared as one. None is no combination.
type Worth = Option<(i128, usize)>;

fn best_combination(groups: &[Group], min: usize, max: usize, target: usize) -> Option<Vec<Group>> {
    Search::new(groups, min, max, target).best()
}

/// The table over (groups so far, clusters so far), and which groups to take.
struct Search<'a> {
    groups: &'a [Group],
    min: usize,
    max: usize,
    target: usize,
    /// The width of a row: clusters so far, from 0 to `target`.
    width: usize,
    /// The number of rows: groups so far. Without an upper bound, `min` stands for all above it.
    rows: usize,
}

impl<'a> Search<'a> {
    fn new(groups: &'a [Group], min: usize, max: usize, target: usize) -> Self {
        let unbounded = max >= groups.len();
        Self {
            groups,
            min,
            max,
            target,
            width: target + 1,
            rows: if unbounded { min.max(1) + 1 } else { max + 1 },
        }
    }

    fn done(&self, len: usize, clusters: usize) -> bool {
        len >= self.min && clusters >= self.target
    }

    fn best(&self) -> Option<Vec<Group>> {
        let mut table: Vec<Worth> = vec![None; self.rows * self.width];
        let mut takes = vec![false; self.groups.len() * self.rows * self.width];
        for (index, group) in self.groups.iter().enumerate().rev() {
            for len in 0..self.rows {
                for clusters in 0..self.width {
                    if self.done(len, clusters) || len >= self.max {
                        continue;
                    }
                    let with = self.after(&table, len, clusters, group);
                    let place = len * self.width + clusters;
                    if with.is_some() && with >= table[place] {
                        table[place] = with;
                        takes[index * self.rows * self.width + place] = true;
                    }
                }
            }
        }
        table.first().copied().flatten()?;
        let (mut len, mut clusters, mut chosen) = (0, 0, Vec::new());
        for (index, group) in self.groups.iter().enumerate() {
            if takes[index * self.rows * self.width + len * self.width + clusters] {
                chosen.push(*group);
                clusters = (clusters + group.clusters).min(self.target);
                if self.done(chosen.len(), clusters) {
                    break;
                }
                len = (len + 1).min(self.rows - 1);
            }
        }
        Some(chosen)
    }

    fn after(&self, table: &[Worth], len: usize, clusters: usize, group: &Group) -> Worth {
        let more = (clusters + group.clusters).min(self.target);
        let own = (i128::from(group.score), group.clusters);
        if self.done(len + 1, more) {
            return Some(own);
        }
        let next = (len + 1).min(self.rows - 1);
        let (score, count) = table[next * self.width + more]?;
        Some((score + own.0, count + own.1))
    }
}
