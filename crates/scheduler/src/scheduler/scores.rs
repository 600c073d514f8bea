//! ClusterScores: their watch events and their expiry. Both may help the bindings that wait, as a change of a cluster
//! does.
//!
//! The scheduler watches ClusterScores only from the first configuration with a plugin that reads scores.

use std::time::{Duration, Instant};

use berth_api::ClusterScore;
use jiff::Timestamp;

use super::Scheduler;
use super::leadership::Leading;
use crate::framework::Event;
use crate::watch::WatchEvent;
use crate::watch::list_progress::Source;

/// Pause after the expiry of a score before the scheduler looks for expired scores, so that the rounding of the pause
/// never wakes it too early.
const AFTER_EXPIRY: Duration = Duration::from_millis(1);

impl Scheduler {
    /// Starts the watch of ClusterScores if a plugin reads scores. No decision is made before their first list is
    /// complete.
    pub(super) fn watch_scores_if_read(&mut self) {
        if !self.watches_scores && self.config.frameworks.read_scores() {
            self.watches_scores = true;
            self.cache.lists.expect(Source::Scores);
            self.scores_wanted.notify_one();
        }
    }

    pub(super) fn handle_score_event(
        &mut self,
        mut leading: Option<&mut Leading>,
        event: WatchEvent<ClusterScore>,
    ) {
        match event {
            WatchEvent::Applied(object) => match object.decode() {
                Ok(score) => self.on_score_applied(leading, &score.normalized()),
                Err(error) => {
                    let name = object.metadata().name.clone().unwrap_or_default();
                    tracing::warn!(
                        score = name,
                        %error,
                        "cannot read a ClusterScore; its last readable state is kept"
                    );
                }
            },
            WatchEvent::Deleted(metadata) => {
                self.on_score_deleted(leading, metadata.name.as_deref().unwrap_or_default());
            }
            WatchEvent::Listed(listing) => {
                self.cache.lists.complete(Source::Scores);
                let names = self.cache.clusters.score_names();
                let deleted: Vec<String> = names
                    .filter(|name| !listing.contains("", name))
                    .cloned()
                    .collect();
                for name in deleted {
                    self.on_score_deleted(leading.as_deref_mut(), &name);
                }
                self.report_readiness();
            }
        }
    }

    fn on_score_applied(&mut self, mut leading: Option<&mut Leading>, score: &ClusterScore) {
        let changed = self.cache.clusters.apply_score(score);
        if changed.is_empty() {
            return;
        }
        if let Some(log) = &mut self.records.decision_log {
            let name = score.metadata.name.clone().unwrap_or_default();
            log.score(name, Some(score));
        }
        for cluster in changed {
            self.on_scores_changed(leading.as_deref_mut(), &cluster);
        }
    }

    fn on_score_deleted(&mut self, leading: Option<&mut Leading>, name: &str) {
        let Some(cluster) = self.cache.clusters.remove_score(name) else {
            return;
        };
        if let Some(log) = &mut self.records.decision_log {
            log.score(name.to_owned(), None);
        }
        self.on_scores_changed(leading, &cluster);
    }

    fn on_scores_changed(&self, leading: Option<&mut Leading>, cluster: &str) {
        if let Some(leading) = leading {
            let event = Event::ClusterScores(cluster.to_owned());
            self.activate_registered(leading, &event, Instant::now());
        }
    }

    /// Handles the scores that have expired since the last call.
    pub(super) fn expire_scores(&mut self, mut leading: Option<&mut Leading>) {
        if self.cache.clusters.next_score_expiry().is_none() {
            return;
        }
        let expired = self.cache.clusters.take_expired_scores(Timestamp::now());
        for cluster in expired {
            self.on_scores_changed(leading.as_deref_mut(), &cluster);
        }
    }

    /// Returns the time at which the next score expires.
    pub(super) fn next_score_expiry(&self, now: Instant) -> Option<Instant> {
        let until = self.cache.clusters.next_score_expiry()?;
        let remaining = until.duration_since(Timestamp::now());
        let remaining = Duration::try_from(remaining).unwrap_or_default();
        now.checked_add(remaining + AFTER_EXPIRY)
    }
}
