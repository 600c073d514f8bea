//! The migration of a workload between clusters: the replicas that each cluster gets now, so that the new replicas are
//! ready before the old ones leave, and the last healthy copy stays.
//!
//! [`plan`] is a pure function of the shares, which are [`observed`] for each sync. It needs no memory, so that a restart
//! changes nothing, and it does not depend on the client that changed the clusters of the binding.
//!
//! The clusters that lose replicas keep as many ready ones as are missing elsewhere:
//!
//! ```text
//! missing = wanted - sum of min(ready, desired) over the clusters that report
//! kept    = desired + a part of missing, of the ready replicas only
//! ```
//!
//! So the sum of `min(ready, kept)` never falls below what is wanted while it was ready, and each replica that becomes
//! ready lets an old one go.

pub(crate) mod known;
pub(crate) mod observed;

use std::cmp::Reverse;

/// The part of a workload in one cluster. The unit is a replica, or a whole copy if each cluster has all replicas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Share {
    /// The number that the scheduler decided.
    pub(crate) desired: i64,
    /// The number in the Work; 0 without a Work.
    pub(crate) applied: i64,
    /// The number that the member reported as ready.
    pub(crate) ready: i64,
    /// The number that the member reported as existing, ready or not.
    pub(crate) running: i64,
    /// The state of the member, on which the weight of its report depends.
    pub(crate) member: MemberState,
    /// True if an eviction task keeps the Work as it is while no new replicas wait for its room.
    pub(crate) is_evicted: bool,
}

/// The state of a share's member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum MemberState {
    /// The cluster is being deleted, or no longer exists. It keeps nothing.
    Gone,
    /// The cluster is not ready. What it reported may no longer be true: it counts as a copy to keep, and not as a copy
    /// that replaces another.
    Silent,
    /// The cluster is ready.
    #[default]
    Reporting,
}

/// The limits of a migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// The number that is wanted in all clusters together.
    pub(crate) wanted: i64,
    /// Maximum number above `wanted` while the workload moves; `None` if unlimited. With 0, the old replicas leave before
    /// the new ones start.
    pub(crate) surge: Option<i64>,
    /// Maximum number that moves at the same time: replicas that are not ready yet where they go, or are missing;
    /// `None` if unlimited. This limit holds after the deadline, too.
    pub(crate) moving: Option<i64>,
    /// The patience with replicas that are not ready.
    pub(crate) patience: Patience,
}

/// The patience of a migration with replicas that are not ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// The deadline has not passed.
    Waiting,
    /// The deadline has passed: only the last healthy copy still stays.
    Expired,
}

impl Share {
    /// Returns the number of ready replicas that are in the Work. A report may be older than the Work.
    fn kept_ready(self) -> i64 {
        match self.member {
            MemberState::Gone => 0,
            MemberState::Silent | MemberState::Reporting => self.ready.min(self.applied).max(0),
        }
    }

    /// Returns the number of ready replicas that the scheduler wants here.
    fn secured(self) -> i64 {
        match self.member {
            MemberState::Reporting => self.kept_ready().min(self.desired),
            MemberState::Gone | MemberState::Silent => 0,
        }
    }

    /// Returns the number of ready replicas that the scheduler does not want here.
    fn spare(self) -> i64 {
        (self.kept_ready() - self.desired).max(0)
    }
}

/// Returns the number that each share's Work gets now, in the order of the shares. 0 for a share that is not desired means
/// that its Work is deleted.
pub(crate) fn plan(shares: &[Share], limits: &Limits) -> Vec<i64> {
    let mut granted: Vec<i64> = shares.iter().map(|share| share.desired).collect();
    let secured: i64 = shares.iter().map(|share| share.secured()).sum();
    // The clusters that report come first, then those with the most ready replicas: fewer clusters keep a part.
    let mut sources: Vec<usize> = (0..shares.len())
        .filter(|&i| shares[i].spare() > 0)
        .collect();
    sources.sort_by_key(|&i| Reverse((shares[i].member, shares[i].spare())));
    let mut missing = (limits.wanted - secured).max(0);
    let desired: i64 = granted.iter().sum();
    let gives_up = limits.patience == Patience::Expired || limits.surge == Some(0) && desired > 0;
    if gives_up {
        let beyond_budget = limits.moving.map_or(0, |moving| missing - moving);
        // Replicas that the scheduler has not placed yet have no room to wait for.
        let unplaced = match limits.patience {
            Patience::Waiting => (limits.wanted - desired).min(missing),
            Patience::Expired => 0,
        };
        let held = beyond_budget.max(unplaced);
        let is_last = secured == 0 && limits.surge != Some(0) || desired == 0;
        if held > 0 {
            missing = held;
        } else {
            sources.truncate(usize::from(is_last));
        }
    }
    for source in sources {
        let kept = shares[source].spare().min(missing);
        granted[source] += kept;
        missing -= kept;
    }
    if let Some(surge) = limits.surge {
        limit_surge(shares, limits.wanted.saturating_add(surge), &mut granted);
    }
    if let Some(moving) = limits.moving {
        limit_moving(shares, moving, &mut granted);
    }
    granted
}

/// Delays added replicas that replace others, so that at most `moving` of them are not ready. Replicas that are not ready
/// for another reason count, too. A workload that grows starts its additional replicas at once.
fn limit_moving(shares: &[Share], moving: i64, granted: &mut [i64]) {
    let present = |share: &&Share| share.member != MemberState::Gone;
    let applied: i64 = shares.iter().filter(present).map(|s| s.applied).sum();
    let desired: i64 = shares.iter().map(|share| share.desired).sum();
    let growth = (desired - applied).max(0);
    let starting = |share: &Share| (share.applied.min(share.desired) - share.kept_ready()).max(0);
    let starting: i64 = shares.iter().filter(present).map(starting).sum();
    delay_added(shares, growth + (moving - starting).max(0), granted);
}

/// Delays added replicas until there is room for them. `total` is the maximum number in all clusters.
fn limit_surge(shares: &[Share], total: i64, granted: &mut [i64]) {
    // A removed replica needs its room until it is gone.
    let occupied = |(share, granted): (&Share, &i64)| match share.member {
        MemberState::Gone => 0,
        _ if share.is_evicted => share.running.max(share.applied),
        MemberState::Silent | MemberState::Reporting => {
            share.running.max(share.applied.min(*granted))
        }
    };
    let used: i64 = shares.iter().zip(granted.iter()).map(occupied).sum();
    delay_added(shares, (total - used).max(0), granted);
}

/// Delays all added replicas but the first `room`.
fn delay_added(shares: &[Share], mut room: i64, granted: &mut [i64]) {
    for (share, granted) in shares.iter().zip(granted) {
        let added = (*granted - share.applied).max(0);
        let allowed = added.min(room);
        *granted -= added - allowed;
        room -= allowed;
    }
}

#[cfg(test)]
mod tests;
