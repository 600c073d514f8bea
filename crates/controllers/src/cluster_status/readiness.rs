//! The readiness of a member. [`ProbeResult::condition`] returns the condition `Ready` for the result of a probe.
//! [`Readiness`] accepts a changed result only after the result has lasted for a threshold. The reasons and messages of
//! the condition are Karmada's.

use std::time::Instant;

use super::ClusterStatusOptions;

/// The result of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ProbeResult {
    /// The member is healthy.
    Ready,
    /// The member cannot be reached, or reports that it is not healthy.
    NotReachable,
    /// The client for the member cannot be created, for this reason.
    NoClient(String),
}

/// The condition `Ready` without its transition time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ReadyCondition {
    pub(super) status: bool,
    pub(super) reason: String,
    pub(super) message: String,
}

impl ProbeResult {
    /// Returns the condition `Ready` for the result.
    pub(super) fn condition(&self) -> ReadyCondition {
        let (reason, message) = match self {
            Self::Ready => (
                "ClusterReady",
                "cluster is healthy and ready to accept workloads".to_owned(),
            ),
            Self::NotReachable => ("ClusterNotReachable", "cluster is not reachable".to_owned()),
            Self::NoClient(why) => (
                "StatusCollectionFailed",
                format!("failed to create a ClusterClient: {why}"),
            ),
        };
        ReadyCondition {
            status: *self == Self::Ready,
            reason: reason.to_owned(),
            message,
        }
    }
}

/// The recent probe results of a member.
#[derive(Debug, Default)]
pub(super) struct Readiness {
    /// The last result, and the time of the last change. The time is `None` before the first change.
    last: Option<(bool, Option<Instant>)>,
    due: Option<Instant>,
}

impl Readiness {
    /// Reports whether the result `observed` is accepted and can be written as condition `Ready`. `current` is the
    /// condition in the status of the Cluster. The first result, a result equal to `current`, and every result without
    /// `current` are accepted at once. Any other changed result is accepted when it has lasted for the threshold.
    pub(super) fn accept(
        &mut self,
        observed: bool,
        current: Option<bool>,
        now: Instant,
        options: &ClusterStatusOptions,
    ) -> bool {
        let Some((last, since)) = self.last else {
            self.last = Some((observed, None));
            return true;
        };
        let since = if last == observed { since } else { Some(now) };
        self.last = Some((observed, since));
        let threshold = if observed {
            options.success_threshold
        } else {
            options.failure_threshold
        };
        let due = since.map(|since| since + threshold);
        let accepted =
            current.is_none_or(|current| current == observed) || due.is_none_or(|due| due <= now);
        self.due = due.filter(|_| !accepted);
        accepted
    }

    /// Returns the time at which the last result can be accepted, or `None` if it is already accepted. A probe at this
    /// time accepts the result without waiting for the next regular probe.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const OPTIONS: ClusterStatusOptions = ClusterStatusOptions {
        update_frequency: Duration::from_secs(10),
        success_threshold: Duration::from_secs(20),
        failure_threshold: Duration::from_secs(30),
        resource_modeling: true,
    };

    #[test]
    fn a_change_is_accepted_after_the_threshold() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut readiness = Readiness::default();
        // Time, probe result, current condition, accepted.
        let probes = [
            (0, false, None, true),
            (10, false, Some(false), true),
            (20, true, Some(false), false),
            (30, true, Some(false), false),
            (40, true, Some(false), true),
            (50, true, Some(true), true),
            (60, false, Some(true), false),
            (70, true, Some(true), true),
            (80, false, Some(true), false),
            (100, false, Some(true), false),
            (110, false, Some(true), true),
        ];
        let due = [(20, 40), (30, 40), (60, 90), (80, 110), (100, 110)];
        for (seconds, result, current, expected) in probes {
            let accepted = readiness.accept(result, current, at(seconds), &OPTIONS);
            assert_eq!(accepted, expected, "after {seconds} s");
            let due = due.iter().find(|(probe, _)| *probe == seconds);
            let due = due.map(|(_, due)| at(*due));
            assert_eq!(readiness.due(), due, "after {seconds} s");
        }
    }

    #[test]
    fn the_first_result_is_accepted_at_once() {
        let mut readiness = Readiness::default();
        assert!(readiness.accept(false, Some(true), Instant::now(), &OPTIONS));
        assert!(!readiness.accept(true, Some(false), Instant::now(), &OPTIONS));
    }

    #[test]
    fn reasons_and_messages_are_karmadas() {
        assert_eq!(ProbeResult::Ready.condition().reason, "ClusterReady");
        assert_eq!(
            ProbeResult::NotReachable.condition().message,
            "cluster is not reachable"
        );
        let condition = ProbeResult::NoClient("no secret".to_owned()).condition();
        assert_eq!(
            condition.message,
            "failed to create a ClusterClient: no secret"
        );
        assert!(!condition.status);
    }
}
