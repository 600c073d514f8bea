//! The log lines of a failure that repeats: one at once, further ones after growing pauses while the failure persists,
//! and one when it ends.
//!
//! The caller writes the lines, with its own cause and action. It reports each failure and each success together with
//! the present time, and gets the content of a line whenever one is due:
//!
//! ```
//! use std::time::Instant;
//!
//! use berth_apimachinery::repeated_failure::RepeatedFailure;
//!
//! let mut failure = RepeatedFailure::default();
//! if let Some(line) = failure.failed("connection refused", Instant::now()) {
//!     // Log the failure as a warning, with the field `repeated`.
//!     assert_eq!(line.repeated, None);
//! }
//! if let Some(end) = failure.ended(Instant::now()) {
//!     // Log the end of the failure.
//!     assert_eq!(end.failures, 1);
//! }
//! ```

use std::fmt;
use std::time::{Duration, Instant};

/// Pauses between the lines about a failure that persists. The last pause repeats.
const PAUSES: [Duration; 4] = [
    Duration::from_secs(10),
    Duration::from_secs(30),
    Duration::from_mins(1),
    Duration::from_mins(5),
];
/// Maximum number of causes that get a line between two repetitions. A cause may name an object, and there may be many
/// objects.
const MAX_CAUSES: usize = 4;

/// Time without failures after which a failure of one of many objects has ended.
const QUIET: Duration = Duration::from_mins(1);

/// A failure that may repeat. Its clock is the caller's.
#[derive(Debug, Default)]
pub struct RepeatedFailure {
    episode: Option<Episode>,
}

/// The time from the first failure to the next success.
#[derive(Debug)]
struct Episode {
    began: Instant,
    failures: u64,
    last_failure: Instant,
    last_line: Instant,
    /// Failures since the last line.
    suppressed: u64,
    /// Number of repetitions that got a line.
    repetitions: usize,
    /// The causes that got a line since the last repetition.
    causes: Vec<String>,
}

/// The content of a line about a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailureLine {
    /// Number of failures since the last line, if the failure has occurred before.
    pub repeated: Option<u64>,
}

/// The content of a line about the end of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailureEnd {
    /// Number of failures from the beginning to the end.
    pub failures: u64,
    /// Time from the first failure to the end.
    pub lasted: Lasted,
}

/// A duration in log lines, in whole seconds, such as `45s`, `12m5s` or `3h0m10s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lasted(pub Duration);

impl fmt::Display for Lasted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
        if hours > 0 {
            write!(f, "{hours}h")?;
        }
        if seconds >= 60 {
            write!(f, "{minutes}m")?;
        }
        write!(f, "{}s", seconds % 60)
    }
}

impl RepeatedFailure {
    /// Records a failure. Returns the content of a line if one is due: for the first failure, after a pause, and for a
    /// new cause.
    pub fn failed(&mut self, cause: &str, now: Instant) -> Option<FailureLine> {
        let Some(episode) = &mut self.episode else {
            self.episode = Some(Episode::new(cause, now));
            return Some(FailureLine { repeated: None });
        };
        episode.failures += 1;
        episode.last_failure = now;
        episode.suppressed += 1;
        episode.is_due(cause, now).then(|| {
            episode.last_line = now;
            let repeated = Some(std::mem::take(&mut episode.suppressed));
            FailureLine { repeated }
        })
    }

    /// Records the success of one of many objects, of which others may still fail. The failure ends with the first
    /// success after a minute without failures.
    pub fn succeeded_for_one(&mut self, now: Instant) -> Option<FailureEnd> {
        let episode = self.episode.as_ref()?;
        let quiet = now.saturating_duration_since(episode.last_failure);
        if quiet >= QUIET {
            self.ended(now)
        } else {
            None
        }
    }

    /// Records a success. Returns the content of a line if the failure got a line.
    pub fn ended(&mut self, now: Instant) -> Option<FailureEnd> {
        let episode = self.episode.take()?;
        let lasted = now.saturating_duration_since(episode.began);
        Some(FailureEnd {
            failures: episode.failures,
            lasted: Lasted(lasted),
        })
    }
}

impl Episode {
    fn new(cause: &str, now: Instant) -> Self {
        Self {
            began: now,
            failures: 1,
            last_failure: now,
            last_line: now,
            suppressed: 0,
            repetitions: 0,
            causes: vec![cause.to_owned()],
        }
    }

    /// Reports whether a failure with this cause gets a line, and counts the line.
    fn is_due(&mut self, cause: &str, now: Instant) -> bool {
        let [shortest, .., longest] = PAUSES;
        let silent = now.saturating_duration_since(self.last_line);
        let is_new =
            self.causes.len() < MAX_CAUSES && !self.causes.iter().any(|known| known == cause);
        if silent >= shortest && is_new {
            self.causes.push(cause.to_owned());
            return true;
        }
        let pause = PAUSES.get(self.repetitions).copied().unwrap_or(longest);
        if silent < pause {
            return false;
        }
        self.repetitions += 1;
        self.causes = vec![cause.to_owned()];
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the seconds at which the failures of a clock that ticks every second got a line, with the number of
    /// repetitions.
    fn lines(
        failure: &mut RepeatedFailure,
        start: Instant,
        seconds: std::ops::Range<u64>,
        cause: impl Fn(u64) -> String,
    ) -> Vec<(u64, Option<u64>)> {
        let at = |second| start + Duration::from_secs(second);
        let line = |second| failure.failed(&cause(second), at(second));
        seconds
            .map(line)
            .enumerate()
            .filter_map(|(second, line)| Some((second as u64, line?.repeated)))
            .collect()
    }

    #[test]
    fn lines_come_at_once_and_after_growing_pauses() {
        let (mut failure, start) = (RepeatedFailure::default(), Instant::now());
        let refused = |_| "connection refused".to_owned();
        assert_eq!(
            lines(&mut failure, start, 0..800, refused),
            [
                (0, None),
                (10, Some(10)),
                (40, Some(30)),
                (100, Some(60)),
                (400, Some(300)),
                (700, Some(300))
            ]
        );
        let end = failure.ended(start + Duration::from_millis(800_900));
        let expected = FailureEnd {
            failures: 800,
            lasted: Lasted(Duration::from_millis(800_900)),
        };
        assert_eq!(end, Some(expected));
        assert_eq!(failure.ended(start), None);
        // The next failure begins with a line, and with short pauses.
        let later = start + Duration::from_secs(801);
        assert_eq!(
            lines(&mut failure, later, 0..12, refused),
            [(0, None), (10, Some(10))]
        );
    }

    #[test]
    fn the_successes_of_others_do_not_end_a_failure() {
        let (mut failure, start) = (RepeatedFailure::default(), Instant::now());
        let at = |second| start + Duration::from_secs(second);
        let mut lines = 0;
        for second in 0..100 {
            lines += usize::from(failure.failed("refused", at(second)).is_some());
            assert_eq!(failure.succeeded_for_one(at(second)), None);
        }
        assert_eq!(lines, 3);
        assert_eq!(failure.succeeded_for_one(at(158)), None);
        let end = failure.succeeded_for_one(at(159)).unwrap();
        assert_eq!(end.failures, 100);
    }

    #[test]
    fn durations_are_in_whole_seconds() {
        for (seconds, text) in [(0, "0s"), (59, "59s"), (800, "13m20s"), (7_210, "2h0m10s")] {
            assert_eq!(Lasted(Duration::from_secs(seconds)).to_string(), text);
        }
    }

    #[test]
    fn a_new_cause_gets_a_line_early() {
        let (mut failure, start) = (RepeatedFailure::default(), Instant::now());
        let cause = |second| if second < 55 { "refused" } else { "forbidden" };
        assert_eq!(
            lines(&mut failure, start, 0..100, |second| cause(second)
                .to_owned()),
            [(0, None), (10, Some(10)), (40, Some(30)), (55, Some(15))]
        );
    }

    #[test]
    fn many_causes_get_few_lines() {
        let (mut failure, start) = (RepeatedFailure::default(), Instant::now());
        let lines = lines(&mut failure, start, 0..3600, |second| {
            format!("cannot write object {second}")
        });
        assert!(lines.len() <= 15 * (MAX_CAUSES + 1), "{lines:?}");
        let counted: u64 = lines.iter().filter_map(|(_, repeated)| *repeated).sum();
        assert_eq!(counted, lines.last().unwrap().0);
    }
}
