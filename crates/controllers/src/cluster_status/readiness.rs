//! Whether a member is ready: what a look at it says, and when that counts. The words are Karmada's.

use std::time::Instant;

use super::ClusterStatusOptions;

/// What a look at a member found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observed {
    /// It answers that it is well.
    Ready,
    /// It cannot be reached, or answers that it is not well.
    NotReachable,
    /// There is no way to ask it, and this is why.
    NoClient(String),
}

/// A condition without its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// Whether the member is ready.
    pub ready: bool,
    /// One CamelCase word.
    pub reason: String,
    /// A sentence.
    pub message: String,
}

impl Observed {
    /// The condition `Ready` that says this.
    pub fn said(&self) -> Said {
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
        Said {
            ready: *self == Self::Ready,
            reason: reason.to_owned(),
            message,
        }
    }
}

/// Remembers since when a member has been as it is now.
#[derive(Debug, Default)]
pub struct Readiness {
    since: Option<(bool, Option<Instant>)>,
    due: Option<Instant>,
}

impl Readiness {
    /// Whether what was observed counts, given what the Cluster says now (`None`: nothing yet). The first look counts at
    /// once; later ones when they have agreed with each other for as long as the threshold.
    pub fn counts(
        &mut self,
        observed: bool,
        current: Option<bool>,
        now: Instant,
        options: &ClusterStatusOptions,
    ) -> bool {
        let Some((before, since)) = self.since else {
            self.since = Some((observed, None));
            return true;
        };
        let since = if before == observed { since } else { Some(now) };
        self.since = Some((observed, since));
        let threshold = if observed {
            options.success_threshold
        } else {
            options.failure_threshold
        };
        let due = since.map(|since| since + threshold);
        let counts =
            current.is_none_or(|current| current == observed) || due.is_none_or(|due| due <= now);
        self.due = due.filter(|_| !counts);
        counts
    }

    /// Returns when the last look will count, if it does not yet. A look at that time spares the wait for the next one.
    pub fn due(&self) -> Option<Instant> {
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
    };

    #[test]
    fn a_change_counts_when_it_has_lasted() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut readiness = Readiness::default();
        // When, what is seen, what the Cluster says, whether it counts.
        let looks = [
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
        for (seconds, seen, current, expected) in looks {
            let counts = readiness.counts(seen, current, at(seconds), &OPTIONS);
            assert_eq!(counts, expected, "after {seconds} s");
            let due = due.iter().find(|(look, _)| *look == seconds);
            let due = due.map(|(_, due)| at(*due));
            assert_eq!(readiness.due(), due, "after {seconds} s");
        }
    }

    #[test]
    fn the_first_look_counts_at_once() {
        let mut readiness = Readiness::default();
        assert!(readiness.counts(false, Some(true), Instant::now(), &OPTIONS));
        assert!(!readiness.counts(true, Some(false), Instant::now(), &OPTIONS));
    }

    #[test]
    fn the_words_are_karmadas() {
        assert_eq!(Observed::Ready.said().reason, "ClusterReady");
        assert_eq!(
            Observed::NotReachable.said().message,
            "cluster is not reachable"
        );
        let said = Observed::NoClient("no secret".to_owned()).said();
        assert_eq!(said.message, "failed to create a ClusterClient: no secret");
        assert!(!said.ready);
    }
}
