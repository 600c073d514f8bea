//! Durations of the extension points of one decision. In a sample of the decisions, also durations of single plugins.

use std::time::{Duration, Instant};

use berth_engine::{Observer, Point, Status};

/// A run of a plugin: the point, the plugin's name, the result and the duration.
pub(super) type PluginRun = (Point, String, Status, Duration);

/// Observer that measures the extension points of one decision.
#[derive(Debug, Default)]
pub(super) struct PointTimes {
    sampled: bool,
    point: Option<Instant>,
    /// The start times of the running plugins. There can be two, because NormalizeScore of a plugin runs within its
    /// Score.
    plugins_running: Vec<Instant>,
    pub(super) points: Vec<(Point, Status, Duration)>,
    pub(super) plugins: Vec<PluginRun>,
}

impl PointTimes {
    /// Returns an observer. If `sampled`, the observer also measures single plugins.
    pub(super) fn new(sampled: bool) -> Self {
        Self {
            sampled,
            ..Self::default()
        }
    }
}

impl Observer for PointTimes {
    fn point_begins(&mut self, _: Point) {
        self.point = Some(Instant::now());
    }

    fn point_ends(&mut self, point: Point, status: Status) {
        if let Some(since) = self.point.take() {
            self.points.push((point, status, since.elapsed()));
        }
    }

    fn wants_plugins(&mut self) -> bool {
        self.sampled
    }

    fn plugin_begins(&mut self, _: Point, _: &str) {
        self.plugins_running.push(Instant::now());
    }

    fn plugin_ends(&mut self, point: Point, plugin: &str, status: Status) {
        if let Some(since) = self.plugins_running.pop() {
            self.plugins
                .push((point, plugin.to_owned(), status, since.elapsed()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_plugin_runs_are_measured_separately() {
        let mut times = PointTimes::new(true);
        assert!(times.wants_plugins() && !PointTimes::new(false).wants_plugins());
        times.point_begins(Point::Score);
        times.plugin_begins(Point::Score, "A");
        times.plugin_begins(Point::NormalizeScore, "A");
        times.plugin_ends(Point::NormalizeScore, "A", Status::Success);
        times.plugin_ends(Point::Score, "A", Status::Error);
        times.point_ends(Point::Score, Status::Error);
        let [(inner, .., within), (outer, _, status, whole)] = &times.plugins[..] else {
            panic!("{:?}", times.plugins);
        };
        assert_eq!(
            (*inner, *outer, *status),
            (Point::NormalizeScore, Point::Score, Status::Error)
        );
        assert!(within <= whole && *whole <= times.points[0].2);
    }
}
