//! Evictions of the victims that a PostFilter plugin nominates. A victim is a binding that loses a cluster so that the
//! preempting binding fits.
//!
//! One write removes the cluster from the victim's `spec.clusters` and adds a graceful eviction task. If the write
//! fails, an event on the preempting binding reports the failure. The scheduler decides the preempting binding again
//! after its backoff, and repeats the search for victims.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use berth_api::binding::GracefulEvictionTask;
use berth_api::policy::PurgeMode;
use berth_api::{Binding, BindingKey};
use berth_apimachinery::timestamp::whole_seconds;
use berth_events::{EventRecorder, Note, Severity};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};
use tokio::task::{Id, JoinError, JoinSet};

use super::bindings::Bindings;
use super::object_references::{binding_reference, template_reference};
use super::post_filter::VictimSearchOutcome;
use crate::framework::Victim;
use crate::queue::Verdict;
use crate::rules::plan::Plan;
use crate::writer::{Report, Writer};
use berth_api::well_known::PREEMPTED;

/// Grace period of an eviction task in seconds, equal to the default termination grace period of a pod. The replicas in
/// the old cluster wait at most this time for a replacement in another cluster. If no other cluster fits, their
/// capacity is freed after this time.
const GRACE_PERIOD_SECONDS: i32 = 30;
/// Event reason on a preempting binding whose victim could not be evicted.
const REASON_FAILED: &str = "PreemptionFailed";

/// A finished write that evicts a victim.
#[derive(Debug)]
pub(super) struct FinishedEviction {
    pub(super) preemptor: Arc<Binding>,
    pub(super) victim: Arc<Binding>,
    /// Message of the event on the victim.
    message: String,
    pub(super) report: Report,
}

impl FinishedEviction {
    /// Returns the message of the event that reports a failed eviction on the preempting binding. Returns `None` if the
    /// eviction succeeded, or if the scheduler repeats the search without an event.
    fn failure(&self) -> Option<String> {
        let reason = match &self.report {
            Report::Written(_)
            | Report::Conflict { .. }
            | Report::Gone
            | Report::NotLeading { .. } => return None,
            Report::Refused { status, .. } => status.message.clone(),
            Report::Failed { error, .. } => error.clone(),
            Report::Stopped(error) => error.to_string(),
        };
        let victim = &self.victim.key;
        Some(format!("cannot evict {victim}; trying again: {reason}"))
    }

    /// Records the events of an eviction. A success causes events on the victim and on its template. A failure causes
    /// an event on the preempting binding.
    pub(super) fn record_events(&self, events: &EventRecorder) {
        let (preemptor, victim) = (&self.preemptor, &self.victim);
        let recorder = events.of(preemptor.spec.scheduler());
        let note = |reason, message| Note {
            severity: Severity::Warning,
            reason,
            message,
        };
        if let Report::Written(binding) = &self.report {
            let message = self.message.clone();
            tracing::info!(binding = %victim.key, message, "evicted");
            let note = note(PREEMPTED, message);
            let reference = binding_reference(&victim.key, &binding.metadata);
            recorder.record(note.clone().about(reference));
            recorder.record(note.about(template_reference(victim)));
        }
        if let Some(message) = self.failure() {
            tracing::warn!(binding = %preemptor.key, message, "preemption failed");
            let reference = binding_reference(&preemptor.key, &preemptor.metadata);
            recorder.record(note(REASON_FAILED, message).about(reference));
        }
    }
}

/// The pending writes that evict victims.
#[derive(Debug, Default)]
pub(super) struct Evictions {
    tasks: JoinSet<FinishedEviction>,
    /// The task that evicts each victim.
    victims: HashMap<BindingKey, Id>,
}

impl Evictions {
    /// Evicts the nominated victims. Skips a victim whose eviction is already being written.
    pub(super) fn evict(
        &mut self,
        writer: &Writer,
        bindings: &Bindings,
        preemptor: &Arc<Binding>,
        outcome: VictimSearchOutcome,
    ) {
        let VictimSearchOutcome::Nominated(plugin, nomination, _) = outcome else {
            return;
        };
        let mut by_victim: BTreeMap<BindingKey, Vec<String>> = BTreeMap::new();
        for Victim { key, cluster } in nomination.victims {
            by_victim.entry(key).or_default().push(cluster);
        }
        for (key, clusters) in by_victim {
            let Some(victim) = bindings.get(&key).cloned() else {
                continue;
            };
            let message = format!(
                "preempted by {} {} of priority {}",
                preemptor.key.kind(),
                preemptor.key,
                preemptor.spec.priority()
            );
            let now = jiff::Timestamp::now();
            let Some(patch) = eviction_patch(&victim, &clusters, &plugin, &message, now) else {
                continue;
            };
            if self.victims.contains_key(&key) {
                continue;
            }
            let plan = Plan {
                result: Some(patch),
                ..Plan::nothing(Verdict::Done)
            };
            let (writer, preemptor) = (writer.clone(), Arc::clone(preemptor));
            let message = format!("{message}: it leaves {}", clusters.join(", "));
            self.spawn(key, async move {
                let report = writer.write(Arc::clone(&victim), &plan).await;
                FinishedEviction {
                    preemptor,
                    victim,
                    message,
                    report,
                }
            });
        }
    }

    /// Starts a write that evicts a victim.
    fn spawn(
        &mut self,
        victim: BindingKey,
        write: impl Future<Output = FinishedEviction> + Send + 'static,
    ) {
        let task = self.tasks.spawn(write);
        self.victims.insert(victim, task.id());
    }

    /// Waits for the next finished write. Returns `None` if no write is pending.
    pub(super) async fn join_next(&mut self) -> Option<Result<FinishedEviction, JoinError>> {
        let finished = self.tasks.join_next().await?;
        match &finished {
            Ok(eviction) => {
                self.victims.remove(&eviction.victim.key);
            }
            Err(error) => self.victims.retain(|_, task| *task != error.id()),
        }
        Some(finished)
    }
}

/// Returns the patch that evicts a victim from `clusters`, or `None` if the victim uses none of these clusters.
fn eviction_patch(
    victim: &Binding,
    clusters: &[String],
    plugin: &str,
    message: &str,
    now: jiff::Timestamp,
) -> Option<Value> {
    let spec = &victim.spec;
    let (leaving, remaining): (Vec<_>, Vec<_>) = spec
        .clusters
        .iter()
        .partition(|target| clusters.contains(&target.name));
    if leaving.is_empty() {
        return None;
    }
    let now = whole_seconds(now);
    let mut tasks = spec.graceful_eviction_tasks.clone();
    tasks.extend(leaving.iter().map(|target| GracefulEvictionTask {
        from_cluster: target.name.clone(),
        purge_mode: Some(PurgeMode::Gracefully),
        grace_period_seconds: Some(GRACE_PERIOD_SECONDS),
        replicas: (target.replicas > 0).then_some(target.replicas),
        reason: PREEMPTED.to_owned(),
        message: Some(message.to_owned()),
        producer: plugin.to_owned(),
        creation_timestamp: Some(Time(now)),
        ..GracefulEvictionTask::default()
    }));
    let clusters = if remaining.is_empty() {
        Value::Null
    } else {
        json!(remaining)
    };
    Some(json!({ "spec": { "clusters": clusters, "gracefulEvictionTasks": tasks } }))
}

#[cfg(test)]
mod tests {
    use berth_api::ResourceBinding;

    use super::*;
    use crate::writer::Progress;

    fn binding(name: &str, clusters: Value) -> Binding {
        serde_json::from_value::<ResourceBinding>(json!({
            "metadata": { "name": name, "namespace": "n" },
            "spec": {
                "resource": { "apiVersion": "apps/v1", "kind": "Deployment", "name": name },
                "clusters": clusters,
            },
        }))
        .unwrap()
        .into()
    }

    #[test]
    fn an_eviction_replaces_the_cluster_by_a_task() {
        let low = binding(
            "low",
            json!([{ "name": "m1", "replicas": 2 }, { "name": "m2", "replicas": 1 }]),
        );
        let now: jiff::Timestamp = "2024-05-06T07:08:09.5Z".parse().unwrap();
        let m1 = ["m1".to_owned()];
        let patch = eviction_patch(&low, &m1, "DefaultPreemption", "because", now);
        assert_eq!(
            patch,
            Some(json!({ "spec": {
                "clusters": [{ "name": "m2", "replicas": 1 }],
                "gracefulEvictionTasks": [{ "fromCluster": "m1", "purgeMode": "Gracefully", "replicas": 2,
                    "reason": "Preempted", "message": "because", "producer": "DefaultPreemption",
                    "gracePeriodSeconds": 30, "creationTimestamp": "2024-05-06T07:08:09Z" }],
            }}))
        );
        let all = ["m1".to_owned(), "m2".to_owned()];
        let patch = eviction_patch(&low, &all, "p", "", now).unwrap();
        assert_eq!(patch["spec"]["clusters"], Value::Null);
        assert_eq!(eviction_patch(&low, &["m3".to_owned()], "p", "", now), None);
    }

    #[test]
    fn only_rejected_and_lost_writes_are_failures() {
        let binding = |name| Arc::new(binding(name, json!([])));
        let failure = |report| {
            let finished = FinishedEviction {
                preemptor: binding("high"),
                victim: binding("low"),
                message: String::new(),
                report,
            };
            finished.failure()
        };
        let lost = Report::Failed {
            error: "no answer within 10s".to_owned(),
            answered: false,
            after: None,
            progress: Progress::Nothing,
            binding: None,
        };
        assert_eq!(
            failure(lost).as_deref(),
            Some("cannot evict n/low; trying again: no answer within 10s")
        );
        let conflict = Report::Conflict {
            current: None,
            progress: Progress::Nothing,
        };
        let not_leading = Report::NotLeading {
            progress: Progress::Nothing,
        };
        for report in [conflict, Report::Gone, not_leading] {
            assert_eq!(failure(report), None);
        }
    }
}
