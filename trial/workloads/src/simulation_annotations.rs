//! Annotations of pods and workloads that control the simulation. The annotations of a pod take precedence over the
//! annotations of its workload.

use std::time::Duration;

/// Time from the binding of a pod until it is ready, such as `5s` or `1500ms`.
pub const START_DELAY: &str = "simulation.berth/start-delay";
/// Run time of pods whose restart policy is not Always, such as the pods of Jobs. Example: `1m`.
pub const RUN_TIME: &str = "simulation.berth/run-time";
/// Duration of the alternating periods in which a running pod is ready and not ready, such as `20s`.
pub const READINESS_FLAP: &str = "simulation.berth/readiness-flap";
/// CPU time that all pods of a workload use together, such as `1500m`.
pub const CPU_LOAD: &str = "simulation.berth/cpu-load";
/// The kind of failure. [`Failure`] lists the values.
pub const FAILS: &str = "simulation.berth/fails";

/// Start delay of pods without the annotation.
const DEFAULT_START_DELAY: Duration = Duration::from_secs(1);
const DEFAULT_RUN_TIME: Duration = Duration::from_secs(5);

/// A simulated failure of pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The value `crash`: containers crash and are restarted. Pods whose restart policy is not Always fail instead.
    Crash,
    /// The value `pull`: images cannot be pulled.
    Pull,
}

/// The simulation options of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimulationOptions {
    /// Time from the binding of the pod until it is ready.
    pub start_delay: Duration,
    /// Run time of a pod whose restart policy is not Always.
    pub run_time: Duration,
    /// Duration of the alternating periods in which the running pod is ready and not ready.
    pub readiness_flap: Option<Duration>,
    /// The simulated failure of the pod.
    pub failure: Option<Failure>,
}

impl SimulationOptions {
    /// Reads the options from annotations. `written` returns the value of an annotation. Malformed values are ignored.
    pub fn read<'a>(written: impl Fn(&str) -> Option<&'a str>) -> Self {
        let time = |key: &str, otherwise| written(key).and_then(duration).unwrap_or(otherwise);
        Self {
            start_delay: time(START_DELAY, DEFAULT_START_DELAY),
            run_time: time(RUN_TIME, DEFAULT_RUN_TIME),
            readiness_flap: written(READINESS_FLAP)
                .and_then(duration)
                .filter(|period| !period.is_zero()),
            failure: match written(FAILS) {
                Some("crash") => Some(Failure::Crash),
                Some("pull") => Some(Failure::Pull),
                _ => None,
            },
        }
    }
}

/// Parses a number with one of the units `ms`, `s`, `m` and `h`.
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
    fn durations_need_units() {
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
    fn malformed_annotations_are_ignored() {
        let none = SimulationOptions::read(|_| None);
        assert_eq!(SimulationOptions::read(|_| Some("whatever")), none);
        let crash = SimulationOptions::read(|key| (key == FAILS).then_some("crash"));
        assert_eq!(crash.failure, Some(Failure::Crash));
        let flaps = SimulationOptions::read(|key| (key == READINESS_FLAP).then_some("0s"));
        assert_eq!(flaps.readiness_flap, None);
    }
}
