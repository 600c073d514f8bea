//! The score of a group of clusters, computed from the capacity and the scores of its clusters.

use crate::Candidate;

/// The score of one unit of capacity. A unit is a replica or, for duplicated workloads, a cluster with enough capacity.
/// This value exceeds the average score of clusters, so capacity decides before cluster scores.
const UNIT: i64 = 1000;

/// The demand of a workload that groups of clusters must satisfy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GroupDemand {
    /// Every cluster gets all replicas.
    Duplicated { replicas: i64 },
    /// The replicas are divided among the groups.
    Divided {
        replicas: i64,
        /// The minimum number of groups.
        min_groups: usize,
        /// The minimum number of clusters in all groups together.
        min_clusters: usize,
    },
}

/// Returns the score of a group. `clusters` contains the clusters of the group in order of preference.
pub(super) fn group_score(clusters: &[Candidate], demand: GroupDemand) -> i64 {
    match demand {
        GroupDemand::Duplicated { replicas } => {
            let fitting = clusters
                .iter()
                .filter(|cluster| cluster.available() >= replicas);
            let (count, score) = fitting.fold((0_i64, 0_i64), |(count, sum), cluster| {
                (count + 1, sum.saturating_add(cluster.score))
            });
            if count == 0 {
                0
            } else {
                count * UNIT + score / count
            }
        }
        GroupDemand::Divided {
            replicas,
            min_groups,
            min_clusters,
        } => {
            let target = share(replicas, min_groups);
            let enough_clusters = min_clusters.max(min_groups);
            let (mut capacity, mut score, mut count) = (0_i64, 0_i64, 0_i64);
            for cluster in clusters {
                capacity = capacity.saturating_add(cluster.available());
                score = score.saturating_add(cluster.score);
                count += 1;
                let counted = usize::try_from(count).unwrap_or(usize::MAX);
                if counted >= enough_clusters && capacity >= target {
                    break;
                }
            }
            if capacity < target {
                let all = i64::try_from(clusters.len()).unwrap_or(i64::MAX).max(1);
                capacity.saturating_mul(UNIT).saturating_add(score / all)
            } else {
                // Without a minimum number of groups, there is no target.
                let reached = if target == i64::MIN {
                    0
                } else {
                    target.saturating_mul(UNIT)
                };
                reached.saturating_add(score / count.max(1))
            }
        }
    }
}

/// Returns the number of replicas for each group, rounded up. Returns `i64::MIN` if `groups` is 0.
fn share(replicas: i64, groups: usize) -> i64 {
    match i64::try_from(groups) {
        Ok(groups) if groups > 0 => replicas / groups + i64::from(replicas % groups > 0),
        _ => i64::MIN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clusters(list: &[(i64, i64)]) -> Vec<Candidate> {
        list.iter()
            .enumerate()
            .map(|(ordinal, &(score, allocatable))| Candidate {
                ordinal,
                tier: 0,
                score,
                allocatable,
                assigned: 0,
            })
            .collect()
    }

    #[test]
    fn group_scores_follow_capacity_then_cluster_scores() {
        let copies = |replicas| GroupDemand::Duplicated { replicas };
        let shares = |replicas, min_groups, min_clusters| GroupDemand::Divided {
            replicas,
            min_groups,
            min_clusters,
        };
        for (list, demand, expected) in [
            // Three of four clusters have enough capacity. The score contains the average of their scores.
            (
                &[(100, 60), (100, 50), (0, 40), (0, 5)][..],
                copies(30),
                3066,
            ),
            (&[(100, 5)], copies(30), 0),
            (&[], copies(30), 0),
            // Each of two groups needs capacity for 50 of 100 replicas. The first two clusters together have capacity
            // for 70.
            (&[(100, 40), (50, 30), (0, 30)], shares(100, 2, 2), 50_075),
            // The capacity of 15 replicas is below the target of 50, so the score counts all 15.
            (&[(100, 10), (0, 5)], shares(100, 2, 2), 15_050),
            (&[(100, 10), (0, 5)], shares(7, 0, 0), 100),
            (&[(0, 10)], shares(7, 0, 0), 0),
        ] {
            assert_eq!(
                group_score(&clusters(list), demand),
                expected,
                "{list:?} {demand:?}"
            );
        }
    }
}
