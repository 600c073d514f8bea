//! The decision for one binding and the current clusters, computed with the scheduler's rules for `berth explain`, and
//! the report about it.

use std::collections::HashMap;
use std::sync::Arc;

use berth_api::feature_gates::EngineGates;
use berth_api::node_pools::NodePools;
use berth_api::well_known::NODE_POOLS;
use berth_api::{Binding, Cluster, condition};
use berth_engine::{Assumed, Fleet, WorkloadPeers};
use berth_explain::{Case, Limits, Migration, PausedEvictions, Report, Share, StoredCondition};
use berth_scheduler::AffinityGroups;
use jiff::Timestamp;

use super::Subject;
use super::error::ExplainError;
use crate::control_plane_state::Clusters;
use crate::scheduler_configuration::{DecisionConfiguration, Engines};
use crate::what_if::{Estimators, schedule_trigger};

/// Computes the decision about a binding, and returns the report.
pub(crate) async fn analyse(
    subject: &Subject,
    estimators: Option<&Estimators>,
    configuration: &DecisionConfiguration,
) -> Result<Report, ExplainError> {
    let (binding, clusters) = (&subject.binding, &subject.clusters);
    let gates = configuration.gates();
    let mut engines = configuration.engines(match estimators {
        Some(estimators) => {
            estimators.connect_to(clusters.values().map(|cluster| &**cluster));
            vec![estimators.estimator()]
        }
        None => Vec::new(),
    })?;
    let ignored_settings =
        ignored_settings_of(configuration, &engines, binding, estimators.is_some());
    let Some(engine) = engines.of(binding) else {
        return Err(ExplainError::no_profile(
            binding,
            configuration,
            &mut engines,
        ));
    };
    let peers = if gates.workload_affinity {
        peers(binding, &subject.bindings)
    } else {
        WorkloadPeers::default()
    };
    let assumed = Assumed::default();
    // Plugins may read the Cluster objects.
    let mut fleet = Fleet::new().keeping_objects();
    for cluster in clusters.values() {
        fleet.apply(cluster);
    }
    let mut notes = ignored_settings;
    match &subject.scores {
        Ok(scores) => {
            for score in scores {
                fleet.apply_score(&score.normalized());
            }
        }
        Err(reason) => notes.push(format!("recomputed without ClusterScores: {reason}")),
    }
    let case = case(binding, &fleet, peers, &assumed);
    let search_limits = Limits {
        clusters: subject.cluster.clone().map(|cluster| vec![cluster]),
        ..Limits::default()
    };
    let mut decision = || berth_explain::explain(engine, &case, &search_limits);
    let report = match estimators {
        Some(estimators) => estimators.decide(binding, decision).await,
        None => decision(),
    }?;
    let report = with_stored_state(report, binding, |name| clusters.get(name).cloned());
    Ok(with_notes(report, gates, binding, clusters, notes))
}

/// Returns the input of the engine for a decision about a binding now.
pub(super) fn case<'a>(
    binding: &'a Binding,
    fleet: &'a Fleet,
    peers: WorkloadPeers,
    assumed: &'a Assumed,
) -> Case<'a> {
    Case {
        fleet,
        binding,
        peers,
        assumed,
        time: Timestamp::now(),
    }
}

/// Returns the other workloads in the affinity groups of the binding, with their clusters.
fn peers(binding: &Binding, bindings: &[Binding]) -> WorkloadPeers {
    let mut groups = AffinityGroups::default();
    let mut known = HashMap::new();
    for other in bindings {
        groups.replace(None, Some(other));
        known.insert(other.key.clone(), Arc::new(other.clone()));
    }
    groups.peers(binding, |key| known.get(key).cloned())
}

/// Adds to the report the scheduling result that is stored in the binding, the unfinished moves of the binding, and its
/// clusters from which evictions are paused. `cluster` returns the cluster of a name.
pub(super) fn with_stored_state(
    report: Report,
    binding: &Binding,
    cluster: impl Fn(&str) -> Option<Arc<Cluster>>,
) -> Report {
    let shares = binding.spec.clusters.iter().map(|target| Share {
        name: target.name.clone(),
        replicas: i64::from(target.replicas),
    });
    let condition =
        condition::scheduled(&binding.status.conditions).map(|condition| StoredCondition {
            status: condition.status.clone(),
            reason: condition.reason.clone(),
            message: condition.message.clone(),
        });
    let affinity = binding.status.scheduler_observing_affinity_name.clone();
    let affinity = affinity.filter(|name| !name.is_empty());
    let targets = binding.spec.clusters.iter();
    let clusters: Vec<(&str, Option<Arc<Cluster>>)> = targets
        .map(|target| (&*target.name, cluster(&target.name)))
        .collect();
    let messages = clusters.iter().map(|(name, cluster)| {
        let message = cluster.as_deref().and_then(PausedEvictions::message_of);
        (*name, message)
    });
    Report {
        migration: Migration::of(binding),
        evictions_paused: PausedEvictions::group(messages),
        ..report.with_recorded(shares.collect(), affinity, condition)
    }
}

/// Adds to the report a note about the next decision of the scheduler, followed by the notes `ignored_settings`.
fn with_notes(
    mut report: Report,
    gates: EngineGates,
    binding: &Binding,
    clusters: &Clusters,
    ignored_settings: Vec<String>,
) -> Report {
    let mut notes = Vec::new();
    if binding.deleting() {
        notes.push("the binding is being deleted, so no scheduler decides about it".to_owned());
    } else if binding.spec.scheduling_suspended() {
        notes.push("scheduling is suspended, so no scheduler decides about the binding".to_owned());
    } else {
        let mpt = gates.multiple_pod_templates_scheduling;
        notes.push(match schedule_trigger(binding, clusters, mpt) {
            Some(trigger) => format!(
                "the scheduler decides again when the binding or a cluster that it selects changes ({})",
                trigger.as_str()
            ),
            None => "the scheduler keeps its decision until the placement, the replicas or one of the clusters of the \
                     binding changes, or rescheduling is requested"
                .to_owned(),
        });
    }
    if gates.node_pool_estimate {
        notes.extend(malformed_node_pools(clusters));
    }
    notes.extend(ignored_settings);
    report.notes.splice(0..0, notes);
    report
}

/// Returns notes about the clusters whose summary of node pools is malformed.
fn malformed_node_pools(clusters: &Clusters) -> impl Iterator<Item = String> {
    clusters.iter().filter_map(|(name, cluster)| {
        let error = NodePools::error(cluster)?;
        Some(format!(
            "the annotation {NODE_POOLS} of {name} is malformed, so estimates ignore it: {error}"
        ))
    })
}

/// Returns notes about the scheduler settings that the computed decision ignores.
fn ignored_settings_of(
    configuration: &DecisionConfiguration,
    engines: &Engines,
    binding: &Binding,
    estimators: bool,
) -> Vec<String> {
    let Some(origin) = configuration.origin() else {
        return vec![format!(
            "recomputed from the present clusters with the plugins and gates of the command line; profiles, extenders and \
             other plugins of the scheduler {} are not taken into account (pass --scheduler-url or --config)",
            binding.spec.scheduler()
        )];
    };
    let mut notes = vec![format!(
        "recomputed decisions use the configuration of {origin}"
    )];
    let omitted = engines.omitted().iter();
    notes.extend(omitted.map(|part| format!("not recomputed: {part}")));
    if configuration.queries_estimators() && !estimators {
        notes.push(
            "not recomputed: the accurate estimators, which the scheduler queries; pass the scheduler's estimator flags".to_owned(),
        );
    }
    notes
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn malformed_node_pools_have_a_note() {
        let cluster = |name: &str, pools: &str| {
            let annotations = json!({ NODE_POOLS: pools });
            let cluster = json!({ "metadata": { "name": name, "annotations": annotations },
                "spec": { "syncMode": "Push" } });
            (
                name.to_owned(),
                Arc::new(serde_json::from_value(cluster).unwrap()),
            )
        };
        let clusters = Clusters::from([cluster("m1", "{}"), cluster("m2", "{")]);
        let notes: Vec<String> = malformed_node_pools(&clusters).collect();
        let start =
            "the annotation capacity.berth/node-pools of m2 is malformed, so estimates ignore it: ";
        assert!(notes.len() == 1 && notes[0].starts_with(start), "{notes:?}");
    }

    #[test]
    fn the_report_shows_moves_and_paused_evictions_of_the_bindings_clusters() {
        let report: Report = serde_json::from_value(json!({
            "apiVersion": "explain.berth.io/v1", "kind": "DecisionReport",
            "binding": { "kind": "ResourceBinding", "name": "web", "strategy": "Aggregated",
                "resource": { "apiVersion": "apps/v1", "kind": "Deployment" } },
            "verdict": { "reason": "Success", "clusters": [], "summary": "", "counts": [] },
            "terms": [], "clusters": [],
        }))
        .unwrap();
        let cluster = |name: &str| -> Option<Arc<Cluster>> {
            let condition = json!({ "type": "EvictionsPaused", "status": "True", "reason": "r", "message": "lost",
                "lastTransitionTime": "2026-01-01T00:00:00Z" });
            let cluster = json!({ "metadata": { "name": name }, "spec": { "syncMode": "Push" },
                "status": { "conditions": [condition] } });
            (name != "m3").then(|| Arc::new(serde_json::from_value(cluster).unwrap()))
        };
        for (targets, evicted_from, paused) in [
            (&[][..], "", &[][..]),
            (&["m3"], "m1", &[]),
            (&["m1", "m2", "m3"], "m4", &["m1", "m2"]),
        ] {
            let targets: Vec<_> = targets.iter().map(|name| json!({ "name": name })).collect();
            let binding: berth_api::ResourceBinding = serde_json::from_value(json!({
                "metadata": { "name": "web", "annotations": { "migration.berth/evicted-from": evicted_from } },
                "spec": { "resource": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
                    "clusters": targets },
            }))
            .unwrap();
            let report = with_stored_state(report.clone(), &binding.into(), cluster);
            let groups = report.evictions_paused.iter();
            let names: Vec<&String> = groups.flat_map(|group| &group.clusters).collect();
            assert_eq!(names, paused);
            assert_eq!(report.migration.is_some(), !evicted_from.is_empty());
            assert!(report.recorded.is_some());
        }
    }
}
