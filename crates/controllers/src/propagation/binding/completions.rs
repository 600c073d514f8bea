//! Division of a Job's completions among clusters in proportion to their replicas (Webster's method).

use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap};

use berth_api::binding::TargetCluster;

/// A cluster that competes for the next completion. `votes` are its replicas, and `seats` are its completions so far.
#[derive(Debug, PartialEq, Eq)]
struct Candidate<'a> {
    votes: i64,
    seats: i64,
    name: &'a str,
    /// True if the greater name wins when quotients and seats are equal.
    greater_first: bool,
}

impl Candidate<'_> {
    fn divisor(&self) -> i128 {
        i128::from(self.seats) * 2 + 1
    }
}

impl Ord for Candidate<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let quotient = i128::from(self.votes) * other.divisor();
        let others = i128::from(other.votes) * self.divisor();
        let by_name = if self.greater_first {
            self.name.cmp(other.name)
        } else {
            other.name.cmp(self.name)
        };
        quotient
            .cmp(&others)
            .then_with(|| other.seats.cmp(&self.seats))
            .then(by_name)
    }
}

impl PartialOrd for Candidate<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Returns the completions of each cluster, or an empty map if no cluster has replicas. In a tie, the cluster with
/// fewer completions so far wins. If these are equal too, a hash of the template's UID decides whether the smaller or
/// the greater name wins.
pub(super) fn divide(
    completions: i32,
    clusters: &[TargetCluster],
    template_uid: &str,
) -> BTreeMap<String, i32> {
    let total: i64 = clusters.iter().map(|c| i64::from(c.replicas)).sum();
    if total <= 0 {
        return BTreeMap::new();
    }
    let greater_first = !template_uid.is_empty() && fnv1a(template_uid) & 1 == 1;
    let mut heap: BinaryHeap<Candidate<'_>> = clusters
        .iter()
        .map(|cluster| Candidate {
            votes: i64::from(cluster.replicas),
            seats: 0,
            name: &cluster.name,
            greater_first,
        })
        .collect();
    for _ in 0..completions {
        if let Some(mut first) = heap.peek_mut() {
            first.seats += 1;
        }
    }
    heap.into_iter()
        .map(|cluster| {
            let seats = i32::try_from(cluster.seats).unwrap_or(i32::MAX);
            (cluster.name.to_owned(), seats)
        })
        .collect()
}

/// Returns the completions of each cluster, like [`divide`]. A Job that exists in a cluster keeps its completions, which
/// are immutable. The rest is divided among the other clusters. `existing` contains the completions of existing Jobs,
/// and `may_change` reports whether a Job can get this share of completions nevertheless.
pub(super) fn divide_rest(
    completions: i32,
    clusters: &[TargetCluster],
    template_uid: &str,
    existing: &BTreeMap<String, i32>,
    may_change: impl Fn(&TargetCluster, i32) -> bool,
) -> BTreeMap<String, i32> {
    let fresh = divide(completions, clusters, template_uid);
    let kept: BTreeMap<String, i32> = clusters
        .iter()
        .filter(|cluster| {
            let share = fresh.get(&cluster.name);
            share.is_none_or(|share| !may_change(cluster, *share))
        })
        .filter_map(|cluster| Some((cluster.name.clone(), *existing.get(&cluster.name)?)))
        .collect();
    if kept
        .iter()
        .all(|(name, kept)| fresh.get(name) == Some(kept))
    {
        return fresh;
    }
    let others: Vec<TargetCluster> = clusters
        .iter()
        .filter(|cluster| !kept.contains_key(&cluster.name))
        .cloned()
        .collect();
    let rest = kept
        .values()
        .fold(completions, |rest, kept| rest.saturating_sub(*kept));
    let mut shares: BTreeMap<String, i32> = others
        .iter()
        .map(|cluster| (cluster.name.clone(), 0))
        .collect();
    shares.extend(divide(rest.max(0), &others, template_uid));
    shares.extend(kept);
    shares
}

/// Returns the 32-bit FNV-1a hash of a text.
fn fnv1a(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn divided(completions: i32, replicas: &[i32], uid: &str) -> Vec<i32> {
        let numbered = replicas.iter().enumerate();
        let clusters: Vec<TargetCluster> = numbered
            .map(|(index, replicas)| TargetCluster {
                name: format!("m{index}"),
                replicas: *replicas,
                ..TargetCluster::default()
            })
            .collect();
        divide(completions, &clusters, uid).into_values().collect()
    }

    #[test]
    fn completions_are_proportional_to_replicas() {
        assert_eq!(divided(10, &[1, 1], ""), [5, 5]);
        assert_eq!(divided(10, &[3, 1, 1], ""), [6, 2, 2]);
        assert_eq!(divided(3, &[1, 0], ""), [3, 0]);
        assert_eq!(divided(5, &[0, 0], ""), Vec::<i32>::new());
    }

    #[test]
    fn existing_jobs_keep_their_completions_and_others_get_the_rest() {
        let target = |name: &str, replicas: i32| TargetCluster {
            name: name.to_owned(),
            replicas,
            ..TargetCluster::default()
        };
        let shares = |targets: &[TargetCluster], existing: &[(&str, i32)], elastic: bool| {
            let existing = existing
                .iter()
                .map(|(name, share)| ((*name).to_owned(), *share));
            let may_change = |target: &TargetCluster, share| elastic && share == target.replicas;
            let shares = divide_rest(40, targets, "", &existing.collect(), may_change);
            shares.into_iter().collect::<Vec<_>>()
        };
        let named = |shares: &[(&str, i32)]| -> Vec<(String, i32)> {
            let shares = shares.iter();
            shares
                .map(|(name, share)| ((*name).to_owned(), *share))
                .collect()
        };
        let (m1, m2, m3) = (target("m1", 1), target("m2", 1), target("m3", 2));
        for (about, targets, existing, expected) in [
            (
                "a new Job",
                vec![m1.clone(), m2.clone()],
                vec![],
                vec![("m1", 20), ("m2", 20)],
            ),
            (
                "m1 left",
                vec![m2.clone()],
                vec![("m1", 20), ("m2", 20)],
                vec![("m2", 20)],
            ),
            (
                "m3 replaces m1",
                vec![m2.clone(), m3.clone()],
                vec![("m1", 20), ("m2", 20)],
                vec![("m2", 20), ("m3", 20)],
            ),
            (
                "m3 is added",
                vec![m1.clone(), m2.clone(), m3],
                vec![("m1", 20), ("m2", 20)],
                vec![("m1", 20), ("m2", 20), ("m3", 0)],
            ),
            (
                "the replicas move",
                vec![m1, target("m2", 3)],
                vec![("m1", 20), ("m2", 20)],
                vec![("m1", 20), ("m2", 20)],
            ),
            (
                "a cluster of a dependent",
                vec![m2, target("m3", 0)],
                vec![("m2", 20)],
                vec![("m2", 20), ("m3", 0)],
            ),
        ] {
            assert_eq!(
                shares(&targets, &existing, false),
                named(&expected),
                "{about}"
            );
        }
        let tandem = [target("m2", 40)];
        assert_eq!(shares(&tandem, &[("m2", 20)], true), named(&[("m2", 40)]));
    }

    #[test]
    fn the_uid_decides_ties() {
        assert_eq!(divided(1, &[1, 1], ""), [1, 0]);
        let odd = (0..1000)
            .map(|n: i32| n.to_string())
            .find(|uid| fnv1a(uid) & 1 == 1);
        assert_eq!(divided(1, &[1, 1], &odd.unwrap()), [0, 1]);
    }
}
