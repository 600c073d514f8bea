//! Decisions of the engine about bindings, with explanations.

use std::collections::HashMap;
use std::sync::Arc;

use berth_api::binding::{BindingSpec, BindingStatus};
use berth_api::{ClusterResourceBinding, ResourceBinding};
use berth_core::{
    Engine, EngineError, EngineOptions, Explanation, Fleet, Outcome, Plugins, Request,
    ScheduleError, TermExplanation,
};
use berth_scheduler::AffinityGroups;
use berth_scheduler::binding::{Binding, BindingKey};
use berth_scheduler::rules::condition::Reason;
use serde::Serialize;
use serde_json::Value;

use super::estimators::Estimators;
use super::rejection_summary;
use super::state::State;

/// UID that breaks ties differently from an empty UID.
const ALTERNATIVE_UID: &str = "b";

/// Replicas assigned to a cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Share {
    /// Name of the cluster.
    pub(crate) name: String,
    /// Number of replicas; 0 for resources without replicas.
    pub(crate) replicas: i32,
}

/// Reason why a binding is not placed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Failure {
    /// Reason of the condition Scheduled, or `Suspended` or `Deleting` if the scheduler does not decide.
    pub(crate) kind: &'static str,
    /// Karmada's message.
    pub(crate) message: String,
}

/// Result for a binding.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Decision {
    /// Key of the binding.
    pub(crate) key: BindingKey,
    /// Desired replicas; none if the resource has no replicas.
    pub(crate) replicas: Option<i32>,
    /// Name of the affinity term that was used.
    pub(crate) affinity: Option<String>,
    /// Clusters afterwards, sorted by name; after a failure, the clusters that it keeps.
    pub(crate) clusters: Vec<Share>,
    /// Reason why it cannot be placed.
    pub(crate) failure: Option<Failure>,
    /// Summary of the reasons against the other clusters.
    pub(crate) rejections: Option<String>,
    /// Explanation of each affinity term that was tried; empty unless the output shows it.
    pub(crate) explanation: Explanation,
    /// Another possible result, because the UID that breaks ties is unknown.
    pub(crate) tie: Option<Vec<Share>>,
}

impl Decision {
    /// Returns the affinity term in use, or the term whose failure is reported.
    pub(crate) fn term(&self) -> Option<&TermExplanation> {
        if self.failure.is_some() {
            self.explanation.terms.first()
        } else {
            self.explanation.terms.last()
        }
    }

    /// Returns the result for a binding without a decision.
    fn undecided(binding: &Binding, failure: Option<Failure>) -> Self {
        Self {
            key: binding.key.clone(),
            replicas: replicas(&binding.spec),
            affinity: None,
            clusters: shares(&binding.spec),
            failure,
            rejections: None,
            explanation: Explanation::default(),
            tie: None,
        }
    }
}

/// Scheduler for one state of the fleet.
pub(crate) struct Decider {
    engine: Engine,
    /// True if explanations are kept.
    explains: bool,
    multiple_pod_templates: bool,
    fleet: Fleet,
    /// Accurate estimators, if enabled.
    estimators: Option<Estimators>,
    /// Affinity groups, if their gate is on.
    groups: Option<AffinityGroups>,
    bindings: HashMap<BindingKey, Arc<Binding>>,
    /// Clusters whose capacity cannot be read, with the reason.
    pub(crate) capacity_faults: Vec<String>,
}

impl Decider {
    /// Returns a decider for the clusters and bindings of a state. With `explains`, decisions keep their explanations.
    ///
    /// # Errors
    /// When the engine refuses its options.
    pub(crate) fn new(
        options: EngineOptions,
        explains: bool,
        state: &State,
        estimators: Option<Estimators>,
    ) -> Result<Self, EngineError> {
        let mut plugins = Plugins::in_tree(options.gates);
        if let Some(estimators) = &estimators {
            estimators.follow(state.clusters.values().map(|cluster| &**cluster));
            plugins.estimators.push(estimators.estimator());
        }
        let mut fleet = Fleet::new();
        let mut capacity_faults = Vec::new();
        for (name, cluster) in &state.clusters {
            if let Some(error) = fleet.apply(cluster).capacity_error() {
                capacity_faults.push(format!("Cluster {name}: {error}"));
            }
        }
        let mut bindings = HashMap::new();
        let groups = options.gates.workload_affinity.then(|| {
            let mut groups = AffinityGroups::default();
            for (key, binding) in &state.bindings {
                groups.replace(None, Some(binding));
                bindings.insert(key.clone(), Arc::clone(binding));
            }
            groups
        });
        Ok(Self {
            explains,
            multiple_pod_templates: options.gates.multiple_pod_templates_scheduling,
            engine: Engine::with_plugins(options, plugins)?,
            fleet,
            estimators,
            groups,
            bindings,
            capacity_faults,
        })
    }

    /// Reports whether replicas of several pod templates are scheduled.
    pub(crate) const fn multiple_pod_templates(&self) -> bool {
        self.multiple_pod_templates
    }

    /// Decides about a binding, for any scheduler name.
    pub(crate) async fn decide(&mut self, binding: &Binding) -> Decision {
        let undecided = |kind, message: &str| {
            let message = message.to_owned();
            Decision::undecided(binding, Some(Failure { kind, message }))
        };
        if binding.deleting() {
            return undecided("Deleting", "the binding is being deleted");
        }
        if binding.spec.scheduling_suspended() {
            return undecided("Suspended", "scheduling is suspended");
        }
        let request = match self.request(binding, &binding.spec) {
            Ok(request) => request,
            Err(message) => return undecided(Reason::SchedulerError.as_str(), &message),
        };
        let snapshot = self.fleet.snapshot();
        let engine = &mut self.engine;
        let mut decision = || engine.explain(&snapshot, &request);
        let (outcome, explanation) = match &self.estimators {
            Some(estimators) => estimators.decide(binding, decision).await,
            None => decision(),
        };
        let (clusters, failure) = clusters_after(binding, &outcome);
        let tie = self.tie(binding).await.filter(|other| *other != clusters);
        if let Some(groups) = &mut self.groups {
            // Decisions are serial: the next member of a group reads this one.
            let names = clusters.iter().map(|share| share.name.clone());
            groups.decided(&binding.key, names.collect());
        }
        Decision {
            key: binding.key.clone(),
            replicas: replicas(&binding.spec),
            affinity: outcome
                .result
                .ok()
                .and_then(|placement| placement.affinity)
                .map(|name| name.to_string()),
            clusters,
            failure,
            rejections: explanation.terms.last().map(rejection_summary::summary),
            // Explanations of all clusters and bindings need much memory.
            explanation: if self.explains {
                explanation
            } else {
                Explanation::default()
            },
            tie,
        }
    }

    fn request(&self, binding: &Binding, spec: &BindingSpec) -> Result<Request, String> {
        let BindingKey { namespace, name } = &binding.key;
        let request = Request::new(namespace.as_deref(), name, spec, &binding.status)
            .map_err(|error| error.to_string())?;
        Ok(match &self.groups {
            Some(groups) => {
                request.with_peers(groups.peers(binding, |key| self.bindings.get(key).cloned()))
            }
            None => request,
        })
    }

    /// Returns the result with ties broken differently, if the UID of the resource is unknown.
    async fn tie(&mut self, binding: &Binding) -> Option<Vec<Share>> {
        let resource = &binding.spec.resource;
        if resource.uid.as_deref().is_some_and(|uid| !uid.is_empty()) {
            return None;
        }
        let mut spec = binding.spec.clone();
        spec.resource.uid = Some(ALTERNATIVE_UID.to_owned());
        let request = self.request(binding, &spec).ok()?;
        let (engine, snapshot) = (&mut self.engine, self.fleet.snapshot());
        let mut decision = || engine.schedule(&snapshot, &request);
        let outcome = match &self.estimators {
            Some(estimators) => estimators.decide(binding, decision).await,
            None => decision(),
        };
        Some(clusters_after(binding, &outcome).0)
    }
}

/// Returns the clusters that the scheduler would write, and the failure.
fn clusters_after(binding: &Binding, outcome: &Outcome) -> (Vec<Share>, Option<Failure>) {
    match &outcome.result {
        Ok(placement) => {
            let targets = placement.targets.iter();
            let mut clusters: Vec<Share> = targets
                .map(|target| Share {
                    name: target.name.to_string(),
                    replicas: target.replicas,
                })
                .collect();
            clusters.sort_unstable();
            (clusters, None)
        }
        Err(error) => {
            let (reason, clusters) = match error {
                // Without a fitting cluster the binding loses its clusters; after other failures it keeps them.
                ScheduleError::NoFit(_) => (Reason::NoClusterFit, Vec::new()),
                ScheduleError::Plugin(error) if error.is_unschedulable() => {
                    (Reason::Unschedulable, shares(&binding.spec))
                }
                ScheduleError::Plugin(_) => (Reason::SchedulerError, shares(&binding.spec)),
            };
            let failure = Failure {
                kind: reason.as_str(),
                message: error.to_string(),
            };
            (clusters, Some(failure))
        }
    }
}

/// Returns the clusters of a binding, sorted by name.
pub(crate) fn shares(spec: &BindingSpec) -> Vec<Share> {
    let targets = spec.clusters.iter();
    let mut shares: Vec<Share> = targets
        .map(|target| Share {
            name: target.name.clone(),
            replicas: target.replicas,
        })
        .collect();
    shares.sort_unstable();
    shares
}

fn replicas(spec: &BindingSpec) -> Option<i32> {
    spec.is_workload().then_some(spec.replicas)
}

/// Returns the result for a binding that the scheduler does not process.
pub(crate) fn unchanged(binding: &Binding) -> Decision {
    Decision::undecided(binding, None)
}

/// Decodes a binding.
///
/// # Errors
/// When the object is not a valid binding.
pub(crate) fn decode_binding(key: &BindingKey, object: &Value) -> Result<Binding, String> {
    let typed = if key.namespace.is_some() {
        serde_json::from_value::<ResourceBinding>(object.clone()).map(Binding::from)
    } else {
        serde_json::from_value::<ClusterResourceBinding>(object.clone()).map(Binding::from)
    };
    typed.map_err(|error| error.to_string())
}

/// Reports whether the last decision about a binding failed.
pub(crate) fn has_failed(status: &BindingStatus) -> bool {
    berth_scheduler::rules::condition::stored(status)
        .is_some_and(|condition| condition.status == "False")
}
