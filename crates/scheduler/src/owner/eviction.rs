//! Evictions: what a plugin has nominated leaves its clusters.
//!
//! A victim leaves `spec.clusters` and gets an eviction task in one write. Where that does not come off, the binding
//! that needs the room says so, and comes again after its backoff: the search is made anew then.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use berth_api::binding::GracefulEvictionTask;
use berth_api::policy::PurgeMode;
use berth_events::{Note, Severity};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use super::Owner;
use super::preemption::Room;
use super::references::{binding_reference, template_reference};
use crate::binding::{Binding, BindingKey};
use crate::framework::Victim;
use crate::plan::Plan;
use crate::preemption::REASON;
use crate::queue::Verdict;
use crate::writer::Report;

/// How long the old copy waits for a new one elsewhere, in seconds, as long as a pod has to end by default: where there is
/// no other place for it, nothing but the end of that time frees the room.
const GRACE_PERIOD_SECONDS: i32 = 30;
/// The reason of the event on a binding whose victim could not be evicted.
const REASON_FAILED: &str = "PreemptionFailed";

/// A victim of which a write has come back.
#[derive(Debug)]
pub(super) struct Evicted {
    preemptor: Arc<Binding>,
    victim: Arc<Binding>,
    /// Who made it leave what.
    message: String,
    report: Report,
}

impl Evicted {
    /// What the binding that needs the room is told; None where the victim left, or other victims are looked for at
    /// once.
    fn failure(&self) -> Option<String> {
        let why = match &self.report {
            Report::Written(_) | Report::Conflict { .. } | Report::Gone | Report::NotLeading => {
                return None;
            }
            Report::Refused { status, .. } => status.message.clone(),
            Report::Unreachable { error, .. } => error.clone(),
            Report::Stopped(error) => error.to_string(),
        };
        let victim = &self.victim.key;
        Some(format!("cannot evict {victim}, and tries again: {why}"))
    }
}

impl Owner {
    /// Evicts what a plugin has nominated. What is on its way out already is left alone.
    pub(super) fn evict(&mut self, preemptor: &Arc<Binding>, room: Room) {
        let Room::Nominated(plugin, nomination, _) = room else {
            return;
        };
        let mut by_victim: BTreeMap<BindingKey, Vec<String>> = BTreeMap::new();
        for Victim { key, cluster } in nomination.victims {
            by_victim.entry(key).or_default().push(cluster);
        }
        for (key, clusters) in by_victim {
            let Some(entry) = self.bindings.get(&key) else {
                continue;
            };
            let victim = Arc::clone(&entry.binding);
            let message = format!(
                "preempted by {} {} of priority {}",
                preemptor.key.kind(),
                preemptor.key,
                preemptor.spec.priority()
            );
            let now = jiff::Timestamp::now();
            let Some(patch) = eviction(&victim, &clusters, &plugin, &message, now) else {
                continue;
            };
            if self.evicting.contains_key(&key) {
                continue;
            }
            let plan = Plan {
                result: Some(patch),
                ..Plan::nothing(Verdict::Done)
            };
            let (writer, preemptor) = (self.writer.clone(), Arc::clone(preemptor));
            let message = format!("{message}: it leaves {}", clusters.join(", "));
            let task = self.evictions.spawn(async move {
                let report = writer.write(Arc::clone(&victim), &plan).await;
                Evicted {
                    preemptor,
                    victim,
                    message,
                    report,
                }
            });
            self.evicting.insert(key, task.id());
        }
    }

    /// A victim was written, or not.
    pub(super) fn evicted(&mut self, evicted: Result<Evicted, tokio::task::JoinError>) {
        let now = Instant::now();
        let evicted = match evicted {
            Ok(evicted) => evicted,
            Err(error) => {
                tracing::error!(%error, "an eviction ended abnormally");
                self.evicting.retain(|_, task| *task != error.id());
                return;
            }
        };
        self.evicting.remove(&evicted.victim.key);
        self.tell_of(&evicted);
        let Evicted {
            preemptor,
            victim,
            report,
            ..
        } = evicted;
        match report {
            Report::Written(binding) => {
                self.remember_if_present(*binding, 0);
                // The watch will show nothing new any more, and what was evicted needs another place.
                if let Some(entry) = self.bindings.get(&victim.key)
                    && self.frameworks.passes(&entry.binding)
                {
                    let rank = self.frameworks.rank(&entry.binding);
                    self.queue.push(&victim.key, rank, now);
                }
            }
            Report::Conflict { current, .. } => {
                if let Some(current) = current {
                    self.remember_if_present(*current, 0);
                }
                // The victims may be others now.
                self.queue.wake(&preemptor.key, now);
            }
            Report::Gone => self.queue.wake(&preemptor.key, now),
            Report::Unreachable { after, .. } => {
                self.queue.wake_later(&preemptor.key, now);
                if let Some(after) = after {
                    self.queue.postpone(&preemptor.key, now + after);
                }
            }
            Report::Refused { .. } | Report::Stopped(_) | Report::NotLeading => {
                self.queue.wake_later(&preemptor.key, now);
            }
        }
    }

    /// Records what became of an eviction: on the victim and its template where it left, and on the binding that needs
    /// its room where it could not.
    pub(super) fn tell_of(&self, evicted: &Evicted) {
        let (preemptor, victim) = (&evicted.preemptor, &evicted.victim);
        let recorder = self.recorder.of(preemptor.spec.scheduler());
        let note = |reason, message| Note {
            severity: Severity::Warning,
            reason,
            message,
        };
        if let Report::Written(binding) = &evicted.report {
            let message = evicted.message.clone();
            tracing::info!(binding = %victim.key, message, "evicted");
            let note = note(REASON, message);
            let reference = binding_reference(&victim.key, &binding.metadata);
            recorder.record(note.clone().about(reference));
            recorder.record(note.about(template_reference(victim)));
        }
        if let Some(message) = evicted.failure() {
            tracing::warn!(binding = %preemptor.key, message, "no room was made");
            let reference = binding_reference(&preemptor.key, &preemptor.metadata);
            recorder.record(note(REASON_FAILED, message).about(reference));
        }
    }
}

/// The patch that takes clusters from a victim; `None` where it is on none of them.
fn eviction(
    victim: &Binding,
    clusters: &[String],
    plugin: &str,
    message: &str,
    now: jiff::Timestamp,
) -> Option<Value> {
    let spec = &victim.spec;
    let (leaving, staying): (Vec<_>, Vec<_>) = spec
        .clusters
        .iter()
        .partition(|target| clusters.contains(&target.name));
    if leaving.is_empty() {
        return None;
    }
    let now = jiff::Timestamp::from_second(now.as_second()).unwrap_or(now);
    let mut tasks = spec.graceful_eviction_tasks.clone();
    tasks.extend(leaving.iter().map(|target| GracefulEvictionTask {
        from_cluster: target.name.clone(),
        purge_mode: Some(PurgeMode::Gracefully),
        grace_period_seconds: Some(GRACE_PERIOD_SECONDS),
        replicas: (target.replicas > 0).then_some(target.replicas),
        reason: REASON.to_owned(),
        message: Some(message.to_owned()),
        producer: plugin.to_owned(),
        creation_timestamp: Some(Time(now)),
        ..GracefulEvictionTask::default()
    }));
    let clusters = if staying.is_empty() {
        Value::Null
    } else {
        json!(staying)
    };
    Some(json!({ "spec": { "clusters": clusters, "gracefulEvictionTasks": tasks } }))
}

#[cfg(test)]
mod tests {
    use berth_api::ResourceBinding;

    use super::*;

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
    fn an_eviction_moves_the_cluster_from_the_result_to_a_task() {
        let low = binding(
            "low",
            json!([{ "name": "m1", "replicas": 2 }, { "name": "m2", "replicas": 1 }]),
        );
        let now: jiff::Timestamp = "2024-05-06T07:08:09.5Z".parse().unwrap();
        let m1 = ["m1".to_owned()];
        let patch = eviction(&low, &m1, "DefaultPreemption", "because", now);
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
        let patch = eviction(&low, &all, "p", "", now).unwrap();
        assert_eq!(patch["spec"]["clusters"], Value::Null);
        assert_eq!(eviction(&low, &["m3".to_owned()], "p", "", now), None);
    }

    #[test]
    fn only_what_cannot_be_evicted_for_now_is_a_failure() {
        let binding = |name| Arc::new(binding(name, json!([])));
        let failure = |report| {
            let evicted = Evicted {
                preemptor: binding("high"),
                victim: binding("low"),
                message: String::new(),
                report,
            };
            evicted.failure()
        };
        let unreachable = Report::Unreachable {
            error: "no answer within 10s".to_owned(),
            answered: false,
            after: None,
            binding: None,
        };
        assert_eq!(
            failure(unreachable).as_deref(),
            Some("cannot evict n/low, and tries again: no answer within 10s")
        );
        let conflict = Report::Conflict {
            current: None,
            landed: false,
        };
        for report in [conflict, Report::Gone, Report::NotLeading] {
            assert_eq!(failure(report), None);
        }
    }
}
