//! How long extension points take, and single plugins in a sample of the decisions.

use std::time::{Duration, Instant};

use berth_core::{Observer, Point, Status};

/// A plugin's turn at a point: where, who, how it ended and how long it took.
pub(super) type Turn = (Point, String, Status, Duration);

/// Takes the time of the extension points of one decision.
#[derive(Debug, Default)]
pub(super) struct PointTimes {
    sampled: bool,
    point: Option<Instant>,
    /// A plugin's normalisation is within its score.
    plugins_running: Vec<Instant>,
    pub(super) points: Vec<(Point, Status, Duration)>,
    pub(super) plugins: Vec<Turn>,
}

impl PointTimes {
    /// With the time of each plugin, where this decision is one of the sample.
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
    fn a_plugin_within_another_has_its_own_time() {
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
