//! The stability of a cluster: since when it has been ready with the same taints, and how often that ended lately. A
//! cluster that is lost again and again must be stable for longer before workloads return to it, as route flap damping
//! does for networks.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// The time for which an interruption counts.
const MEMORY: SignedDuration = SignedDuration::from_hours(6);
/// The maximum number of times that interruptions double the wait.
const MOST_DOUBLINGS: u32 = 6;

/// Since when a cluster has been stable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Stability {
    since: Option<Timestamp>,
    /// The times at which the cluster was observed to become not ready or to get a taint, the oldest first.
    interruptions: Vec<Timestamp>,
}

/// The observation of a cluster, compared with the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Observation {
    /// The cluster is not ready.
    NotReady,
    /// The cluster is ready since this time, with the taints that it had before.
    Ready(Timestamp),
    /// The cluster is ready, and its taints have just changed.
    TaintsChanged,
}

impl Stability {
    /// Returns the stability after an observation.
    pub(super) fn observe(
        earlier: Option<&Self>,
        observation: Observation,
        now: Timestamp,
    ) -> Self {
        let earlier = earlier.cloned().unwrap_or_default();
        let since = match observation {
            Observation::NotReady => None,
            Observation::TaintsChanged => Some(now),
            Observation::Ready(since) => Some(earlier.since.unwrap_or(since).max(since)),
        };
        let mut interruptions = earlier.interruptions;
        if earlier.since.is_some() && since != earlier.since {
            interruptions.push(now);
        }
        let oldest = now.saturating_sub(MEMORY).unwrap_or(Timestamp::MIN);
        interruptions.retain(|time| *time > oldest);
        Self {
            since,
            interruptions,
        }
    }

    /// Returns the time since which the cluster has been stable, or `None` if it is not ready.
    pub(super) fn since(&self) -> Option<Timestamp> {
        self.since
    }

    /// Returns the time from which workloads may return, or `None` while the cluster is not ready. `patience` is the time
    /// for which a cluster must be stable after its first interruption. Each further interruption doubles the time.
    pub(super) fn back_at(&self, patience: Duration) -> Option<Timestamp> {
        let further = u32::try_from(self.interruptions.len().saturating_sub(1));
        let doublings = further.unwrap_or(MOST_DOUBLINGS).min(MOST_DOUBLINGS);
        let wait = patience.saturating_mul(2_u32.pow(doublings));
        Some(self.since?.saturating_add(wait).unwrap_or(Timestamp::MAX))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PATIENCE: Duration = Duration::from_mins(10);

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_cluster_that_is_lost_again_must_be_stable_for_longer() {
        use Observation::{NotReady, Ready, TaintsChanged};
        let mut stability = None;
        for (about, observation, now, expected) in [
            ("first observed", Ready(at(-5000)), 0, Some(-4400)),
            ("lost", NotReady, 100, None),
            ("back", Ready(at(200)), 200, Some(800)),
            ("unchanged", Ready(at(200)), 700, Some(800)),
            ("lost again", NotReady, 1000, None),
            ("back again", Ready(at(1100)), 1100, Some(2300)),
            ("cordoned", TaintsChanged, 1200, Some(3600)),
            ("six hours later", NotReady, 30_000, None),
            (
                "back for the first time",
                Ready(at(30_100)),
                30_100,
                Some(30_700),
            ),
        ] {
            let next = Stability::observe(stability.as_ref(), observation, at(now));
            assert_eq!(next.back_at(PATIENCE), expected.map(at), "{about}");
            stability = Some(next);
        }
    }

    proptest! {
        /// However often a cluster is lost, workloads return to it only a few times in six hours: after n returns, the next
        /// needs a wait of at least 2^(n-1) times the patience. A cluster that stays is back at last.
        #[test]
        fn returns_become_rare(gaps in prop::collection::vec((1..4000_i64, 1..4000_i64), 1..60)) {
            let (mut now, mut returns) = (0_i64, Vec::new());
            let mut stability = Stability::observe(None, Observation::Ready(at(0)), at(0));
            for (up, down) in gaps {
                let lost = now + up;
                let back = stability.back_at(PATIENCE).filter(|back| *back <= at(lost));
                if let Some(back) = back {
                    returns.push(back.as_second());
                }
                stability = Stability::observe(Some(&stability), Observation::NotReady, at(lost));
                now = lost + down;
                stability = Stability::observe(Some(&stability), Observation::Ready(at(now)), at(now));
            }
            for first in &returns {
                let six_hours = *first..*first + MEMORY.as_secs();
                let count = returns.iter().filter(|time| six_hours.contains(time)).count();
                // Waits of 10, 20, 40, 80 and 160 minutes fill almost six hours, and the first may have just ended.
                prop_assert!(count <= 7, "{count} returns in six hours: {returns:?}");
            }
            let longest = i64::try_from(PATIENCE.as_secs()).unwrap() << MOST_DOUBLINGS;
            let back = stability.back_at(PATIENCE).unwrap();
            prop_assert!(back <= at(now + longest), "{back}");
        }
    }
}
