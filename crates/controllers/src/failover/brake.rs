//! The brake on evictions. When many clusters become not ready at nearly the same time, it is more likely that the control
//! plane is cut off from them than that all of them have failed. Then evictions from these clusters slow down or stop.
//!
//! As in the node lifecycle controller of kube-controller-manager, the brake needs more than two such clusters, and a share
//! of all clusters. [`Brake::of`] is a pure function of the clusters, so that a restart releases no brake. [`HeldBrake`]
//! holds it for a minute longer, because clusters come back one after the other.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};

/// The time within which clusters become not ready "at the same time".
const WINDOW: SignedDuration = SignedDuration::from_mins(1);
/// The number of clusters that may always fail at the same time.
const ALWAYS_CREDIBLE: usize = 2;

/// The options of the brake.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BrakeOptions {
    /// The share of the clusters, from 0 to 1, from which evictions slow down. With a share above 1, they never do.
    pub threshold: f32,
    /// The evictions by taints per second while the brake is on. With 0, evictions from clusters that are not ready stop.
    pub rate: f32,
    /// The time for which the brake is held after the share has fallen below the threshold.
    pub hold: Duration,
}

impl Default for BrakeOptions {
    fn default() -> Self {
        Self {
            threshold: 0.55,
            rate: 0.0,
            hold: Duration::from_mins(1),
        }
    }
}

/// The state of the brake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Brake {
    /// Evictions have their usual rate.
    #[default]
    Released,
    /// Too many clusters became not ready at the same time.
    Engaged {
        /// The number of these clusters.
        lost: NonZeroU32,
        /// The number of all clusters.
        clusters: u32,
    },
}

/// A brake that is released only when it has not been engaged for [`BrakeOptions::hold`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HeldBrake {
    brake: Brake,
    /// The end of the hold, or `None` while the brake is engaged or released.
    until: Option<Instant>,
}

impl HeldBrake {
    /// Updates the brake to its state for the present clusters.
    pub(super) fn update(&mut self, present: Brake, hold: Duration, now: Instant) {
        match (self.brake.is_engaged(), present.is_engaged()) {
            (_, true) => (self.brake, self.until) = (present, None),
            (true, false) if *self.until.get_or_insert(now + hold) > now => {}
            (_, false) => *self = Self::default(),
        }
    }

    /// Returns the brake.
    pub(super) fn get(self) -> Brake {
        self.brake
    }

    /// Returns the time at which to update the brake although no cluster changes.
    pub(super) fn next_due(self) -> Option<Instant> {
        self.until
    }
}

/// The readiness of a cluster, as its condition `Ready` tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Readiness {
    /// The cluster is ready, or no controller has observed it yet.
    Ready,
    /// The cluster is not ready since this time.
    NotReadySince(Timestamp),
}

impl Brake {
    /// Returns the state for these clusters. It is engaged as long as the clusters that became not ready within one
    /// [`WINDOW`], and still are, reach the threshold.
    pub(super) fn of(clusters: impl IntoIterator<Item = Readiness>, options: BrakeOptions) -> Self {
        let mut times = Vec::new();
        let mut all = 0_u32;
        for cluster in clusters {
            all += 1;
            if let Readiness::NotReadySince(time) = cluster {
                times.push(time);
            }
        }
        times.sort_unstable();
        let within = |start: usize| {
            let end = times[start]
                .saturating_add(WINDOW)
                .unwrap_or(Timestamp::MAX);
            times.partition_point(|time| *time <= end) - start
        };
        let lost = (0..times.len()).map(within).max().unwrap_or(0);
        let count = u32::try_from(lost).unwrap_or(u32::MAX);
        let reaches = f64::from(count) >= f64::from(options.threshold) * f64::from(all);
        match NonZeroU32::new(count) {
            Some(lost_count) if lost > ALWAYS_CREDIBLE && reaches => Self::Engaged {
                lost: lost_count,
                clusters: all,
            },
            _ => Self::Released,
        }
    }

    /// Reports whether the brake is engaged.
    pub(super) fn is_engaged(self) -> bool {
        self != Self::Released
    }

    /// Reports whether no binding may be evicted from clusters that are not ready.
    pub(super) fn stops(self, options: BrakeOptions) -> bool {
        self.is_engaged() && options.rate <= 0.0
    }

    /// Returns the message for people, or `None` if the brake is released.
    pub(super) fn message(self, options: BrakeOptions) -> Option<String> {
        let Self::Engaged { lost, clusters } = self else {
            return None;
        };
        let effect = if self.stops(options) {
            "evictions from clusters that are not ready have stopped".to_owned()
        } else {
            format!("evictions have slowed down to {} per second", options.rate)
        };
        Some(format!(
            "{lost} of {clusters} clusters became not ready within a minute; {effect}, because the control plane may be \
             cut off from them; this ends when fewer than {:.0}% of the clusters are not ready",
            options.threshold * 100.0
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn brake(not_ready_since: &[i64], ready: usize, threshold: f32) -> Brake {
        let lost = not_ready_since
            .iter()
            .map(|second| Readiness::NotReadySince(Timestamp::from_second(*second).unwrap()));
        let clusters = lost.chain(std::iter::repeat_n(Readiness::Ready, ready));
        let options = BrakeOptions {
            threshold,
            ..BrakeOptions::default()
        };
        Brake::of(clusters, options)
    }

    #[test]
    fn many_clusters_that_are_lost_within_a_minute_engage_the_brake() {
        for (about, not_ready_since, ready, threshold, expected) in [
            ("all are ready", &[][..], 9, 0.55, false),
            ("no cluster", &[], 0, 0.55, false),
            ("one of one", &[0], 0, 0.55, false),
            ("two of three", &[0, 1], 1, 0.55, false),
            ("three of three", &[0, 1, 2], 0, 0.55, true),
            ("half of them", &[0, 1, 2], 3, 0.55, false),
            ("more than the threshold", &[0, 1, 2, 3], 3, 0.55, true),
            ("within a minute", &[0, 30, 60], 1, 0.55, true),
            ("one after the other", &[0, 61, 122, 183], 0, 0.55, false),
            (
                "a burst after single failures",
                &[0, 500, 510, 520],
                1,
                0.55,
                true,
            ),
            (
                "a threshold that cannot be reached",
                &[0, 1, 2, 3],
                0,
                1.1,
                false,
            ),
        ] {
            let found = brake(not_ready_since, ready, threshold);
            assert_eq!(found.is_engaged(), expected, "{about}: {found:?}");
        }
    }

    #[test]
    fn the_brake_is_held_for_a_minute() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let engaged = brake(&[0, 1, 2], 0, 0.55);
        let mut held = HeldBrake::default();
        for (second, present, expected, due) in [
            (0, Brake::Released, false, None),
            (10, engaged, true, None),
            (20, Brake::Released, true, Some(80)),
            (70, engaged, true, None),
            (80, Brake::Released, true, Some(140)),
            (139, Brake::Released, true, Some(140)),
            (140, Brake::Released, false, None),
        ] {
            held.update(present, BrakeOptions::default().hold, at(second));
            let found = (held.get().is_engaged(), held.next_due());
            assert_eq!(found, (expected, due.map(at)), "after {second} s");
        }
    }

    #[test]
    fn the_message_says_what_happens_and_when_it_ends() {
        let engaged = brake(&[0, 1, 2], 1, 0.5);
        let stops = BrakeOptions {
            threshold: 0.5,
            ..BrakeOptions::default()
        };
        let message = engaged.message(stops).unwrap();
        assert!(message.starts_with("3 of 4 clusters became not ready within a minute; "));
        assert!(
            message.contains("not ready have stopped,")
                && message.ends_with("fewer than 50% of the clusters are not ready")
        );
        let slows = BrakeOptions { rate: 0.1, ..stops };
        assert!(!engaged.stops(slows));
        let message = engaged.message(slows).unwrap();
        assert!(
            message.contains("slowed down to 0.1 per second,"),
            "{message}"
        );
        assert_eq!(Brake::Released.message(stops), None);
    }
}
