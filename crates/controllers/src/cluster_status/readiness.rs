//! The readiness of a member. [`ProbeResult::condition`] returns the condition `Ready` for the result of a probe.
//! [`Readiness`] accepts a changed result only after the result has lasted for a threshold. Karmada
//! knows only the reasons `ClusterReady`, `ClusterNotReachable` and `StatusCollectionFailed`.

use std::time::{Duration, Instant};

use super::ClusterStatusOptions;

/// The time limit of a probe. It is shorter while a failure lasts, so that the member becomes not ready in time.
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);
/// The shortest time limit of a probe.
const SHORTEST_PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// The result of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ProbeResult {
    /// The member is healthy.
    Ready,
    /// The member cannot be reached, or reports that it is not healthy, for this reason.
    NotReachable(String),
    /// The member refuses the token.
    TokenRefused,
    /// The certificate of the member has expired.
    CertificateExpired,
    /// The certificate of the member is not trusted, for this reason.
    CertificateRefused(String),
    /// The response of the member is larger than a response may be.
    ResponseTooLarge(String),
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
            Self::NotReachable(why) => (
                "ClusterNotReachable",
                format!(
                    "cluster is not reachable: {why}; check the member's API server, spec.apiEndpoint, spec.proxyURL \
                     and firewalls"
                ),
            ),
            Self::TokenRefused => (
                "ClusterTokenRefused",
                "the member refuses the token in the secret of spec.secretRef (401 Unauthorized); join the member \
                 again to create a new token"
                    .to_owned(),
            ),
            Self::CertificateExpired => (
                "ClusterCertificateExpired",
                "the certificate of the member's API server has expired; renew it in the member".to_owned(),
            ),
            Self::CertificateRefused(why) => (
                "ClusterCertificateRefused",
                format!(
                    "the certificate of the member's API server is not trusted: {why}; join the member again to store \
                     its current authority as caBundle in the secret of spec.secretRef"
                ),
            ),
            Self::ResponseTooLarge(why) => (
                "ClusterResponseTooLarge",
                format!("{why}; check that spec.apiEndpoint is the address of a Kubernetes API server"),
            ),
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
    /// Reports whether the result `observed` of a probe that began at `began` is accepted and can be written as condition
    /// `Ready`. `current` is the condition in the status of the Cluster. A failure lasts since its first probe began.
    /// The first result, a result equal to `current`, and every result without `current` are accepted at once. Any
    /// other changed result is accepted when it has lasted for the threshold.
    pub(super) fn accept(
        &mut self,
        observed: bool,
        current: Option<bool>,
        began: Instant,
        now: Instant,
        options: &ClusterStatusOptions,
    ) -> bool {
        let Some((last, since)) = self.last else {
            self.last = Some((observed, None));
            return true;
        };
        let changed = if observed { now } else { began };
        let since = if last == observed {
            since
        } else {
            Some(changed)
        };
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

    /// Returns the time limit of a probe that begins at `now`. A probe of a hanging member ends when its failure can be
    /// accepted.
    pub(super) fn probe_timeout(&self, now: Instant, options: &ClusterStatusOptions) -> Duration {
        let fails = self.last.is_some_and(|(last, _)| !last);
        let due = self.due.filter(|_| fails);
        let limit = due.map_or(options.failure_threshold, |due| {
            due.saturating_duration_since(now)
        });
        limit.clamp(SHORTEST_PROBE_TIMEOUT, PROBE_TIMEOUT)
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
        node_pools: true,
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
            let now = at(seconds);
            let accepted = readiness.accept(result, current, now, now, &OPTIONS);
            assert_eq!(accepted, expected, "after {seconds} s");
            let due = due.iter().find(|(probe, _)| *probe == seconds);
            let due = due.map(|(_, due)| at(*due));
            assert_eq!(readiness.due(), due, "after {seconds} s");
        }
    }

    #[test]
    fn the_first_result_is_accepted_at_once() {
        let mut readiness = Readiness::default();
        let now = Instant::now();
        assert!(readiness.accept(false, Some(true), now, now, &OPTIONS));
        assert!(!readiness.accept(true, Some(false), now, now, &OPTIONS));
    }

    #[test]
    fn a_hanging_member_is_not_ready_after_30_to_40_seconds() {
        let frequency = OPTIONS.update_frequency.as_secs();
        for pause in 0..=frequency {
            let hangs_since = Instant::now();
            let mut readiness = Readiness::default();
            readiness.accept(true, None, hangs_since, hangs_since, &OPTIONS);
            let mut began = hangs_since + Duration::from_secs(pause);
            let elapsed = loop {
                let ended = began + readiness.probe_timeout(began, &OPTIONS);
                if readiness.accept(false, Some(true), began, ended, &OPTIONS) {
                    break ended - hangs_since;
                }
                // The interval of the probes has passed, or the result can be accepted before.
                let next = began + OPTIONS.update_frequency;
                began = readiness.due().map_or(next, |due| next.min(due)).max(ended);
            };
            assert!(
                (30..=40).contains(&elapsed.as_secs()),
                "{pause}: {elapsed:?}"
            );
        }
    }

    #[test]
    fn a_failing_probe_of_a_slow_member_has_a_time_limit_of_its_own() {
        let now = Instant::now();
        let mut readiness = Readiness::default();
        assert_eq!(readiness.probe_timeout(now, &OPTIONS), PROBE_TIMEOUT);
        readiness.accept(true, None, now, now, &OPTIONS);
        readiness.accept(false, Some(true), now, now, &OPTIONS);
        let almost = |threshold: Duration| threshold.saturating_sub(Duration::from_millis(1));
        let late = now + almost(OPTIONS.failure_threshold);
        assert_eq!(
            readiness.probe_timeout(late, &OPTIONS),
            SHORTEST_PROBE_TIMEOUT
        );
        // A member that recovers gets the whole time.
        readiness.accept(true, Some(false), late, late, &OPTIONS);
        let late = late + almost(OPTIONS.success_threshold);
        assert_eq!(readiness.probe_timeout(late, &OPTIONS), PROBE_TIMEOUT);
    }

    #[test]
    fn reasons_of_karmada_stay_and_each_cause_names_its_fix() {
        assert_eq!(ProbeResult::Ready.condition().reason, "ClusterReady");
        let condition = ProbeResult::NoClient("no secret".to_owned()).condition();
        assert_eq!(
            condition.message,
            "failed to create a ClusterClient: no secret"
        );
        assert!(!condition.status);
        let why = || "why".to_owned();
        let causes = [
            (
                ProbeResult::NotReachable(why()),
                "ClusterNotReachable",
                "spec.apiEndpoint",
            ),
            (
                ProbeResult::TokenRefused,
                "ClusterTokenRefused",
                "join the member again",
            ),
            (
                ProbeResult::CertificateExpired,
                "ClusterCertificateExpired",
                "renew",
            ),
            (
                ProbeResult::CertificateRefused(why()),
                "ClusterCertificateRefused",
                "caBundle",
            ),
            (
                ProbeResult::ResponseTooLarge(why()),
                "ClusterResponseTooLarge",
                "spec.apiEndpoint",
            ),
        ];
        for (result, reason, fix) in causes {
            let condition = result.condition();
            assert_eq!(condition.reason, reason);
            assert!(condition.message.contains(fix), "{}", condition.message);
            assert!(!condition.status);
        }
    }
}
