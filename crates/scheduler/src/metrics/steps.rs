//! Durations of the scheduling steps that Karmada's metrics distinguish (Filter, Score, Select, AssignReplicas). A step
//! consists of one or more extension points.

use std::time::{Duration, Instant};

use berth_engine::{Observer, Point, Status};

/// A stage of a decision. Karmada's metrics distinguish the same stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Step {
    /// Filters the clusters.
    Filter,
    /// Scores the clusters.
    Score,
    /// Estimates the available replicas and selects clusters.
    Select,
    /// Assigns replicas to clusters.
    Assign,
}

impl Step {
    /// Returns the stage to which an extension point belongs.
    fn of(point: Point) -> Option<Self> {
        match point {
            Point::PreFilter | Point::Filter => Some(Self::Filter),
            Point::PreScore | Point::Score | Point::NormalizeScore => Some(Self::Score),
            Point::Estimate | Point::Select => Some(Self::Select),
            Point::Assign => Some(Self::Assign),
            _ => None,
        }
    }
}

/// Observer that measures the stages of one decision.
#[derive(Debug, Default)]
pub(super) struct StepTimes {
    running: Option<(Step, Instant)>,
    pub(super) durations: Vec<(Step, Duration)>,
}

impl StepTimes {
    fn end(&mut self, now: Instant) {
        if let Some((step, since)) = self.running.take() {
            self.durations
                .push((step, now.saturating_duration_since(since)));
        }
    }
}

impl Observer for StepTimes {
    fn point_begins(&mut self, point: Point) {
        let Some(step) = Step::of(point) else { return };
        if self.running.is_none_or(|(running, _)| running != step) {
            let now = Instant::now();
            self.end(now);
            self.running = Some((step, now));
        }
    }

    fn point_ends(&mut self, point: Point, status: Status) {
        if point == Point::Assign || matches!(status, Status::Unschedulable | Status::Error) {
            self.end(Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_measured_as_their_stage() {
        let mut times = StepTimes::default();
        let mut pass = |points: &[Point], last: Status| {
            for (index, &point) in points.iter().enumerate() {
                let is_last = index + 1 == points.len();
                times.point_begins(point);
                times.point_ends(point, if is_last { last } else { Status::Success });
            }
        };
        pass(&[Point::PreFilter, Point::Filter], Status::Unschedulable);
        pass(
            &[
                Point::Filter,
                Point::PreScore,
                Point::Score,
                Point::Estimate,
                Point::Select,
                Point::Assign,
            ],
            Status::Success,
        );
        let steps: Vec<Step> = times.durations.iter().map(|(step, _)| *step).collect();
        let (filter, rest) = (Step::Filter, [Step::Score, Step::Select, Step::Assign]);
        assert_eq!(steps, [&[filter, filter][..], &rest].concat());
    }
}
