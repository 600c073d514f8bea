//! The records of the scheduler's work: metrics, events, the decision log, and the last decisions for the debug
//! endpoints.

use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_api::{Binding, BindingKey};
use berth_events::{EventRecorder, Note, Severity};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::cycle::cycle_result;
use super::log_lines::LogLines;
use super::object_references::{binding_reference, template_reference};
use crate::decision_log::Recorder;
use crate::metrics::Metrics;
use crate::queue::Queue;
use crate::recent_decisions::RecentDecisions;
use crate::recorded_decision::RecordedDecision;
use crate::rules::plan::{Plan, REASON_FAILED};
use crate::rules::schedule_trigger::ScheduleType;

/// Interval between updates of the metric for the age of the oldest ready key.
const AGE_INTERVAL: Duration = Duration::from_millis(250);

/// The receivers of reports about cycles and decisions.
pub(super) struct Records {
    pub(super) metrics: Metrics,
    pub(super) events: EventRecorder,
    pub(super) lines: LogLines,
    pub(super) decision_log: Option<Recorder>,
    /// The last decisions, for the debug endpoints.
    pub(super) recent_decisions: Option<RecentDecisions>,
    /// The time of the last update of this value, and the age of the oldest ready key at that time.
    oldest_ready: (Instant, Duration),
}

impl Records {
    /// Creates records without a decision log.
    pub(super) fn new(
        metrics: Metrics,
        events: EventRecorder,
        recent_decisions: Option<RecentDecisions>,
    ) -> Self {
        Self {
            metrics,
            events,
            lines: LogLines::default(),
            decision_log: None,
            recent_decisions,
            oldest_ready: (Instant::now(), Duration::ZERO),
        }
    }

    /// Updates the metrics of the queue. The age of the oldest key is updated less often, because its calculation reads
    /// all ready keys.
    pub(super) fn queue(&mut self, queue: Option<&Queue>, now: Instant) {
        let (updated, _) = self.oldest_ready;
        match queue.filter(|queue| queue.has_ready()) {
            None => self.oldest_ready = (now, Duration::ZERO),
            Some(queue) if now.saturating_duration_since(updated) >= AGE_INTERVAL => {
                let since = queue.oldest_ready().unwrap_or(now);
                self.oldest_ready = (now, now.saturating_duration_since(since));
            }
            Some(_) => {}
        }
        let depth = queue.map(Queue::depth).unwrap_or_default();
        self.metrics.queue(depth, self.oldest_ready.1);
    }

    /// Records that the plan of a cycle has been written.
    pub(super) fn written(
        &mut self,
        key: &BindingKey,
        plan: &Plan,
        schedule_type: ScheduleType,
        began: Instant,
    ) {
        let duration = began.elapsed();
        self.metrics
            .cycle(cycle_result(plan), schedule_type, duration);
        self.lines.written(key, plan, duration);
    }

    /// Records a decision in the decision log and in the last decisions.
    pub(super) fn decision(&mut self, decision: RecordedDecision) {
        if self.decision_log.is_none() && self.recent_decisions.is_none() {
            return;
        }
        let decision = Arc::new(decision);
        if let Some(log) = &mut self.decision_log {
            log.decision(Arc::clone(&decision));
        }
        if let Some(recent) = &mut self.recent_decisions {
            recent.insert(decision);
        }
    }

    /// Records the events of a binding that is not scheduled because it is being deleted.
    pub(super) fn deleting(&self, binding: &Binding) {
        let kind = binding.key.kind().name_in_messages();
        let message = format!("skip schedule deleting {kind}: {}", binding.key);
        let note = Note {
            severity: Severity::Warning,
            reason: REASON_FAILED,
            message,
        };
        let recorder = self.events.of(binding.spec.scheduler());
        let reference = binding_reference(&binding.key, &binding.metadata);
        recorder.record(note.clone().about(reference));
        recorder.record(note.about(template_reference(binding)));
    }

    /// Records the event of a binding that cannot be decoded.
    pub(super) fn malformed(&self, key: &BindingKey, metadata: &ObjectMeta, error: &str) {
        let message = format!("cannot read {}: {error}", key.kind());
        let note = Note {
            severity: Severity::Warning,
            reason: REASON_FAILED,
            message,
        };
        let reference = binding_reference(key, metadata);
        self.events.record(note.about(reference));
    }
}
