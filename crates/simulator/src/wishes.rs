//! What may be wished for, by annotations of a pod or of a workload that it belongs to; the nearest one counts.

use std::time::Duration;

/// How long a pod takes from getting a node to being ready, such as `5s` or `1500ms`.
pub const START_DELAY: &str = "simulation.berth/start-delay";
/// How long the pods of Jobs run until they have succeeded, such as `1m`.
pub const RUN_TIME: &str = "simulation.berth/run-time";
/// How pods fail: [`Failure`].
pub const FAILS: &str = "simulation.berth/fails";

/// Without a wish.
const DEFAULT_START_DELAY: Duration = Duration::from_secs(1);
const DEFAULT_RUN_TIME: Duration = Duration::from_secs(5);

/// How pods fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// `crash`: the containers start, end, and are started again and again. Pods of Jobs fail.
    Crash,
    /// `pull`: the images cannot be had.
    Pull,
}

/// What is wished for a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wishes {
    /// Until it is ready.
    pub start_delay: Duration,
    /// Until it has succeeded, if it is one that ends.
    pub run_time: Duration,
    /// Whether it fails.
    pub failure: Option<Failure>,
}

impl Wishes {
    /// From what is written at an annotation. What cannot be understood is as if it were not written.
    pub fn read<'a>(written: impl Fn(&str) -> Option<&'a str>) -> Self {
        let time = |key: &str, otherwise| written(key).and_then(duration).unwrap_or(otherwise);
        Self {
            start_delay: time(START_DELAY, DEFAULT_START_DELAY),
            run_time: time(RUN_TIME, DEFAULT_RUN_TIME),
            failure: match written(FAILS) {
                Some("crash") => Some(Failure::Crash),
                Some("pull") => Some(Failure::Pull),
                _ => None,
            },
        }
    }
}

/// A number with a unit: `ms`, `s`, `m` or `h`.
fn duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    let unit = text.find(|c: char| c.is_ascii_alphabetic())?;
    let (number, unit) = text.split_at(unit);
    let number: f64 = number.parse().ok()?;
    let seconds = match unit {
        "ms" => number / 1000.0,
        "s" => number,
        "m" => number * 60.0,
        "h" => number * 3600.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        for (text, expected) in [
            ("1500ms", Some(1500)),
            ("1.5s", Some(1500)),
            ("2m", Some(120_000)),
            ("1h", Some(3_600_000)),
            ("0s", Some(0)),
            ("5", None),
            ("-1s", None),
            ("soon", None),
            ("", None),
        ] {
            assert_eq!(
                duration(text),
                expected.map(Duration::from_millis),
                "{text}"
            );
        }
    }

    #[test]
    fn what_cannot_be_understood_does_not_count() {
        let none = Wishes::read(|_| None);
        assert_eq!(Wishes::read(|_| Some("whatever")), none);
        let crash = Wishes::read(|key| (key == FAILS).then_some("crash"));
        assert_eq!(crash.failure, Some(Failure::Crash));
    }
}
