use proptest::prelude::*;

use super::*;

const fn share(desired: i64, applied: i64, ready: i64) -> Share {
    Share {
        desired,
        applied,
        ready,
        running: applied,
        member: MemberState::Reporting,
        is_evicted: false,
    }
}

const fn silent(share: Share) -> Share {
    Share {
        member: MemberState::Silent,
        ..share
    }
}

fn waiting(wanted: i64) -> Limits {
    Limits {
        wanted,
        surge: None,
        moving: None,
        patience: Patience::Waiting,
    }
}

fn expired(wanted: i64) -> Limits {
    Limits {
        patience: Patience::Expired,
        ..waiting(wanted)
    }
}

fn with_surge(wanted: i64, surge: i64) -> Limits {
    Limits {
        surge: Some(surge),
        ..waiting(wanted)
    }
}

/// A case: its name, the shares, the limits, and the planned numbers.
type Case = (&'static str, Vec<Share>, Limits, Vec<i64>);

fn check(cases: Vec<Case>) {
    for (what, shares, limits, expected) in cases {
        assert_eq!(plan(&shares, &limits), expected, "{what}");
    }
}

#[test]
fn old_replicas_leave_as_new_ones_become_ready() {
    check(vec![
        ("nothing moves", vec![share(2, 2, 0)], waiting(2), vec![2]),
        (
            "a move that starts",
            vec![share(0, 4, 4), share(4, 0, 0)],
            waiting(4),
            vec![4, 4],
        ),
        (
            "a move half-way",
            vec![share(0, 4, 4), share(4, 4, 3)],
            waiting(4),
            vec![1, 4],
        ),
        (
            "a move that ends",
            vec![share(0, 1, 1), share(4, 4, 4)],
            waiting(4),
            vec![0, 4],
        ),
        (
            "a part of the replicas moves",
            vec![share(1, 4, 4), share(3, 0, 0)],
            waiting(4),
            vec![4, 3],
        ),
        (
            "two clusters into one",
            vec![share(0, 2, 2), share(0, 2, 2), share(4, 4, 1)],
            waiting(4),
            vec![2, 1, 4],
        ),
        (
            "replicas that are not ready leave at once",
            vec![share(0, 4, 1), share(4, 0, 0)],
            waiting(4),
            vec![1, 4],
        ),
        (
            "fewer replicas need no new ones",
            vec![share(1, 4, 4), share(1, 2, 2)],
            waiting(2),
            vec![1, 1],
        ),
        (
            "a move that is reversed",
            vec![share(4, 4, 4), share(0, 4, 1)],
            waiting(4),
            vec![4, 0],
        ),
        (
            "replicas that have left do not come back",
            vec![share(0, 1, 4), share(4, 4, 1)],
            waiting(4),
            vec![1, 4],
        ),
    ]);
}

#[test]
fn a_report_of_a_silent_member_replaces_no_copy() {
    check(vec![
        (
            "a new cluster that does not report is no replacement",
            vec![share(0, 2, 2), silent(share(2, 2, 2))],
            waiting(2),
            vec![2, 2],
        ),
        (
            "an old cluster that does not report keeps its copy",
            vec![silent(share(0, 2, 2)), share(2, 0, 0)],
            waiting(2),
            vec![2, 2],
        ),
        (
            "an old cluster that reports keeps it rather",
            vec![silent(share(0, 2, 2)), share(0, 2, 2), share(2, 0, 0)],
            waiting(2),
            vec![0, 2, 2],
        ),
    ]);
}

#[test]
fn after_the_deadline_only_the_last_healthy_copy_stays() {
    check(vec![
        (
            "a target that never becomes ready does not keep the rest",
            vec![share(0, 2, 2), share(2, 2, 2), share(2, 2, 0)],
            expired(4),
            vec![0, 2, 2],
        ),
        (
            "the last healthy copy stays",
            vec![share(0, 2, 2), share(0, 3, 3), share(4, 4, 0)],
            expired(4),
            vec![0, 3, 4],
        ),
        ("no cluster fits", vec![share(0, 2, 2)], expired(2), vec![2]),
        (
            "no cluster fits, and nothing is healthy",
            vec![share(0, 2, 0)],
            waiting(2),
            vec![0],
        ),
    ]);
}

#[test]
fn new_replicas_wait_for_room() {
    let not_all_started = Share {
        running: 1,
        ..share(0, 2, 1)
    };
    check(vec![
        (
            "old before new starts",
            vec![share(0, 4, 4), share(4, 0, 0)],
            with_surge(4, 0),
            vec![0, 0],
        ),
        (
            "old before new ends",
            vec![
                Share {
                    running: 1,
                    ..share(0, 0, 1)
                },
                share(4, 0, 0),
            ],
            with_surge(4, 0),
            vec![0, 3],
        ),
        (
            "old before new without a new place",
            vec![share(0, 4, 4)],
            with_surge(4, 0),
            vec![4],
        ),
        (
            "old before new before all are placed",
            vec![share(0, 3, 3), share(1, 1, 1)],
            with_surge(4, 0),
            vec![3, 1],
        ),
        (
            "replicas that have not started leave at once",
            vec![not_all_started, share(2, 0, 0)],
            with_surge(2, 1),
            vec![1, 2],
        ),
        (
            "an eviction task keeps them",
            vec![
                Share {
                    is_evicted: true,
                    ..not_all_started
                },
                share(2, 0, 0),
            ],
            with_surge(2, 1),
            vec![1, 1],
        ),
        (
            "a surge starts",
            vec![share(0, 8, 8), share(8, 0, 0)],
            with_surge(8, 2),
            vec![8, 2],
        ),
        (
            "a surge makes room",
            vec![share(0, 8, 8), share(8, 2, 2)],
            with_surge(8, 2),
            vec![6, 2],
        ),
        (
            "a surge goes on",
            vec![share(0, 6, 6), share(8, 2, 2)],
            with_surge(8, 2),
            vec![6, 4],
        ),
    ]);
}

fn with_budget(wanted: i64, moving: i64) -> Limits {
    Limits {
        moving: Some(moving),
        ..waiting(wanted)
    }
}

#[test]
fn at_most_the_budget_moves_at_the_same_time() {
    let after_deadline = Limits {
        patience: Patience::Expired,
        ..with_budget(4, 1)
    };
    let old_before_new = Limits {
        surge: Some(0),
        ..with_budget(4, 1)
    };
    check(vec![
        (
            "a move starts with the budget",
            vec![share(0, 4, 4), share(4, 0, 0)],
            with_budget(4, 1),
            vec![4, 1],
        ),
        (
            "nothing more starts until it is ready",
            vec![share(0, 4, 4), share(4, 1, 0)],
            with_budget(4, 1),
            vec![4, 1],
        ),
        (
            "the next follows",
            vec![share(0, 4, 4), share(4, 1, 1)],
            with_budget(4, 1),
            vec![3, 2],
        ),
        (
            "replicas of a lost cluster are replaced within the budget",
            vec![silent(share(0, 4, 4)), share(4, 0, 0)],
            with_budget(4, 2),
            vec![4, 2],
        ),
        (
            "a workload that grows is not limited",
            vec![share(4, 2, 2), share(4, 0, 0)],
            with_budget(8, 1),
            vec![4, 4],
        ),
        (
            "a new workload is not limited",
            vec![share(4, 0, 0)],
            with_budget(4, 1),
            vec![4],
        ),
        (
            "a budget of 0 holds a move",
            vec![share(0, 4, 4), share(4, 0, 0)],
            with_budget(4, 0),
            vec![4, 0],
        ),
        (
            "the budget holds after the deadline",
            vec![share(0, 4, 4), share(4, 1, 0)],
            after_deadline,
            vec![3, 1],
        ),
        (
            "old before new, one by one",
            vec![share(0, 4, 4), share(4, 0, 0)],
            old_before_new,
            vec![3, 0],
        ),
    ]);
}

/// A cluster as it really is.
#[derive(Clone, Copy, Debug, Default)]
struct Real {
    desired: i64,
    applied: i64,
    ready: i64,
    member: MemberState,
    /// True while no new pod becomes ready, because an image cannot be pulled.
    lacks_image: bool,
}

/// An event of a history.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// The scheduler moves a number of replicas from one cluster to another.
    Move { from: usize, to: usize, count: i64 },
    /// A number of pods becomes ready in a cluster.
    Ready(usize, i64),
    /// A number of pods fails in a cluster.
    Fail(usize, i64),
    /// The images of a cluster can no longer be pulled, or can be again.
    Image(usize),
    /// A member stops to report, or reports again.
    Silence(usize),
    /// The controllers sync the Works. Each sync may be the first one after a restart: a plan has no memory.
    Sync,
}

fn step() -> impl Strategy<Value = Step> {
    let cluster = 0..4_usize;
    prop_oneof![
        2 => (cluster.clone(), cluster.clone(), 1..5_i64).prop_map(|(from, to, count)| Step::Move { from, to, count }),
        4 => (cluster.clone(), 1..4_i64).prop_map(|(cluster, count)| Step::Ready(cluster, count)),
        1 => (cluster.clone(), 1..3_i64).prop_map(|(cluster, count)| Step::Fail(cluster, count)),
        1 => cluster.clone().prop_map(Step::Image),
        1 => cluster.prop_map(Step::Silence),
        6 => Just(Step::Sync),
    ]
}

fn observed(clusters: &[Real]) -> Vec<Share> {
    let shares = clusters.iter();
    shares
        .map(|real| Share {
            member: real.member,
            ..share(real.desired, real.applied, real.ready)
        })
        .collect()
}

fn sync(clusters: &mut [Real], limits: &Limits) {
    let granted = plan(&observed(clusters), limits);
    for (real, granted) in clusters.iter_mut().zip(granted) {
        real.applied = granted;
        // A member removes the pods first that are not ready. A member that is silent removes none yet.
        if real.member == MemberState::Reporting {
            real.ready = real.ready.min(granted);
        }
    }
}

/// Returns the ready pods in the members that report: the others may have failed.
fn ready(clusters: &[Real]) -> i64 {
    let reporting = clusters
        .iter()
        .filter(|real| real.member == MemberState::Reporting);
    reporting.map(|real| real.ready).sum()
}

proptest! {
    /// Over any history, a sync takes no ready replica that is wanted, never the last one, and stays within the surge.
    /// When the scheduler and the pods come to rest, the migration ends where the scheduler put the workload.
    #[test]
    fn a_migration_keeps_what_is_ready_and_ends(
        replicas in 1..9_i64,
        surge in prop_oneof![Just(None), (1..5_i64).prop_map(Some)],
        moving in prop_oneof![Just(None), (1..5_i64).prop_map(Some)],
        patience in prop_oneof![3 => Just(Patience::Waiting), 1 => Just(Patience::Expired)],
        history in prop::collection::vec(step(), 1..40),
    ) {
        let limits = Limits { wanted: replicas, surge, moving, patience };
        let mut clusters = [Real::default(); 4];
        let running = (replicas, replicas, replicas);
        (clusters[0].desired, clusters[0].applied, clusters[0].ready) = running;
        for step in history {
            match step {
                Step::Move { from, to, count } => {
                    let count = count.min(clusters[from].desired);
                    clusters[from].desired -= count;
                    clusters[to].desired += count;
                }
                Step::Ready(cluster, count) => {
                    let real = &mut clusters[cluster];
                    let reports = real.member == MemberState::Reporting;
                    if reports && !real.lacks_image {
                        real.ready = (real.ready + count).min(real.applied);
                    }
                }
                Step::Image(cluster) => {
                    let real = &mut clusters[cluster];
                    real.lacks_image = !real.lacks_image;
                }
                Step::Silence(cluster) => {
                    let real = &mut clusters[cluster];
                    if real.member == MemberState::Reporting {
                        real.member = MemberState::Silent;
                    } else {
                        real.member = MemberState::Reporting;
                        real.ready = real.ready.min(real.applied);
                    }
                }
                Step::Fail(cluster, count) => {
                    let real = &mut clusters[cluster];
                    real.ready = (real.ready - count).max(0);
                }
                Step::Sync => {
                    let before = ready(&clusters);
                    let existing: i64 = clusters.iter().map(|real| real.applied).sum();
                    sync(&mut clusters, &limits);
                    let after = ready(&clusters);
                    prop_assert!(before == 0 || after > 0, "the last copy: {clusters:?}");
                    if patience == Patience::Waiting {
                        prop_assert!(after >= before.min(replicas), "{before} to {after}: {clusters:?}");
                    }
                    if let Some(moving) = moving {
                        let least = before.min(replicas - moving);
                        prop_assert!(after >= least, "{before} to {after}: {clusters:?}");
                    }
                    if let Some(surge) = surge {
                        let now: i64 = clusters.iter().map(|real| real.applied).sum();
                        prop_assert!(now <= existing.max(replicas + surge), "{clusters:?}");
                    }
                }
            }
        }
        for _ in 0..64 {
            sync(&mut clusters, &limits);
            for real in &mut clusters {
                real.member = MemberState::Reporting;
                real.ready = real.applied;
            }
        }
        for real in clusters {
            prop_assert_eq!(real.applied, real.desired);
        }
    }
}
