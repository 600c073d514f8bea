//! How long the stages of a decision take: the clock that the engine does not have.

use std::time::{Duration, Instant};

use berth_core::{Probe, Step};

/// Takes the time of the stages of one decision.
#[derive(Debug, Default)]
pub struct StepTimes {
    running: Option<(Step, Instant)>,
    pub(super) taken: Vec<(Step, Duration)>,
}

impl StepTimes {
    fn end(&mut self, now: Instant) {
        if let Some((step, since)) = self.running.take() {
            self.taken
                .push((step, now.saturating_duration_since(since)));
        }
    }
}

impl Probe for StepTimes {
    fn enters(&mut self, step: Step) {
        let now = Instant::now();
        self.end(now);
        self.running = Some((step, now));
    }

    fn leaves(&mut self) {
        self.end(Instant::now());
    }
}
