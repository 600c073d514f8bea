//! The decision for one binding and the current clusters, computed with the scheduler's rules for `berth explain`, and
//! the report about it.

use std::collections::HashMap;
use std::sync::Arc;

use berth_api::feature_gates::EngineGates;
use berth_api::{Binding, condition};
use berth_engine::{Assumed, Fleet, WorkloadPeers};
use berth_explain::{Case, Limits, Report, Share, StoredCondition};
use berth_scheduler::AffinityGroups;

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
    let report = with_stored_result(report, binding);
    Ok(with_notes(
        report,
        gates,
        binding,
        clusters,
        ignored_settings,
    ))
}

/// Returns the input of the engine for a decision about a binding.
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

/// Adds to the report the scheduling result that is stored in the binding.
pub(super) fn with_stored_result(report: Report, binding: &Binding) -> Report {
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
    report.with_recorded(shares.collect(), affinity, condition)
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
    notes.extend(ignored_settings);
    report.notes.splice(0..0, notes);
    report
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
