//! The observer that measures one decision: it passes each event of the engine to the timers of `steps` and `points`.
//! The observer reads the clock, because the engine itself reads none.

use std::time::Duration;

use berth_engine::{Observer, Point, Status};

use super::points::PointTimes;
use super::steps::StepTimes;

/// Observer that measures one decision.
#[derive(Debug, Default)]
pub(crate) struct DecisionTimes {
    pub(super) steps: StepTimes,
    pub(super) points: PointTimes,
}

impl DecisionTimes {
    /// Returns an observer. If `sampled`, the observer also measures single plugins.
    pub(super) fn new(sampled: bool) -> Self {
        Self {
            steps: StepTimes::default(),
            points: PointTimes::new(sampled),
        }
    }
}

/// The stages of a decision in order, with their durations.
pub(crate) type Stages = Vec<(&'static str, Duration)>;

impl DecisionTimes {
    /// Returns the stages of the decision.
    pub(crate) fn stages(&self) -> Stages {
        let steps = self.steps.durations.iter();
        steps
            .map(|(step, duration)| (step.as_str(), *duration))
            .collect()
    }
}

impl Observer for DecisionTimes {
    fn point_begins(&mut self, point: Point) {
        self.steps.point_begins(point);
        self.points.point_begins(point);
    }

    fn point_ends(&mut self, point: Point, status: Status) {
        self.points.point_ends(point, status);
        self.steps.point_ends(point, status);
    }

    fn wants_plugins(&mut self) -> bool {
        self.points.wants_plugins()
    }

    fn plugin_begins(&mut self, point: Point, plugin: &str) {
        self.points.plugin_begins(point, plugin);
    }

    fn plugin_ends(&mut self, point: Point, plugin: &str, status: Status) {
        self.points.plugin_ends(point, plugin, status);
    }
}
