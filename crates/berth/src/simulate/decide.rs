//! One decision: what the scheduler would do with a binding, and why.

use std::collections::HashMap;
use std::sync::Arc;

use berth_api::binding::{BindingSpec, BindingStatus};
use berth_api::{ClusterResourceBinding, ResourceBinding};
use berth_core::{
    Engine, Explanation, Fleet, Outcome, Plugins, Request, ScheduleError, TermExplanation,
};
use berth_scheduler::AffinityGroups;
use berth_scheduler::binding::{Binding, BindingKey};
use berth_scheduler::rules::condition::Reason;
use serde::Serialize;
use serde_json::Value;

use super::args::{Format, SimulateArgs};
use super::elsewhere;
use super::error::SimulateError;
use super::estimators::Estimators;
use super::files::State;

/// A UID with which ties go the other way than without any.
const OTHER_WAY: &str = "b";

/// Replicas on a cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Share {
    /// The cluster.
    pub(crate) name: String,
    /// Its replicas; 0 for what has none.
    pub(crate) replicas: i32,
}

/// Why a binding is not placed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Failure {
    /// The reason of the Scheduled condition, or `Suspended` or `Deleting` where nobody decides.
    pub(crate) kind: &'static str,
    /// In Karmada's words.
    pub(crate) message: String,
}

/// What becomes of a binding.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Decision {
    /// The binding.
    pub(crate) key: BindingKey,
    /// The replicas asked for; none where the resource has no replicas.
    pub(crate) replicas: Option<i32>,
    /// The affinity group that was used.
    pub(crate) affinity: Option<String>,
    /// Where it is afterwards, by name: its place, or after a failure what it keeps.
    pub(crate) clusters: Vec<Share>,
    /// Why it found no new place.
    pub(crate) failure: Option<Failure>,
    /// Why it went nowhere else.
    pub(crate) elsewhere: Option<String>,
    /// Every affinity group that was tried; nothing where nobody wants to read it.
    pub(crate) explanation: Explanation,
    /// Another result that is as likely, because the UID that breaks ties is not known yet.
    pub(crate) tie: Option<Vec<Share>>,
}

impl Decision {
    /// The affinity group that the decision is about: the one in use, or the one whose failure counts.
    pub(crate) fn term(&self) -> Option<&TermExplanation> {
        if self.failure.is_some() {
            self.explanation.terms.first()
        } else {
            self.explanation.terms.last()
        }
    }

    /// A binding that nobody decides about.
    fn untouched(binding: &Binding, failure: Option<Failure>) -> Self {
        Self {
            key: binding.key.clone(),
            replicas: replicas(&binding.spec),
            affinity: None,
            clusters: shares(&binding.spec),
            failure,
            elsewhere: None,
            explanation: Explanation::default(),
            tie: None,
        }
    }
}

/// Decides over one state of the fleet.
pub(crate) struct Decider {
    engine: Engine,
    /// Whether explanations are kept.
    explains: bool,
    fleet: Fleet,
    /// Asked for what they count, where the flags say so.
    estimators: Option<Estimators>,
    /// The members of affinity groups, where their gate is on.
    groups: Option<AffinityGroups>,
    bindings: HashMap<BindingKey, Arc<Binding>>,
    /// Clusters whose capacity cannot be read, with the reason.
    pub(crate) capacity_faults: Vec<String>,
}

impl Decider {
    /// Over the clusters of a state, among its bindings.
    ///
    /// # Errors
    /// When the engine refuses its options.
    pub(crate) fn new(
        args: &SimulateArgs,
        state: &State,
        estimators: Option<Estimators>,
    ) -> Result<Self, SimulateError> {
        let options = args.engine_options();
        let mut plugins = Plugins::in_tree(options.gates);
        if let Some(estimators) = &estimators {
            estimators.follow(state.clusters.values());
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
                bindings.insert(key.clone(), Arc::new(binding.clone()));
            }
            groups
        });
        Ok(Self {
            engine: Engine::with_plugins(options, plugins)?,
            explains: args.output != Format::Table,
            fleet,
            estimators,
            groups,
            bindings,
            capacity_faults,
        })
    }

    /// Decides about a binding, whoever is in charge of it.
    pub(crate) async fn decide(&mut self, binding: &Binding) -> Decision {
        let nobody = |kind, message: &str| {
            let message = message.to_owned();
            Decision::untouched(binding, Some(Failure { kind, message }))
        };
        if binding.deleting() {
            return nobody("Deleting", "the binding is being deleted");
        }
        if binding.spec.scheduling_suspended() {
            return nobody("Suspended", "scheduling is suspended");
        }
        let request = match self.request(binding, &binding.spec) {
            Ok(request) => request,
            Err(message) => return nobody(Reason::SchedulerError.as_str(), &message),
        };
        let snapshot = self.fleet.snapshot();
        let engine = &mut self.engine;
        let mut decision = || engine.explain(&snapshot, &request);
        let (outcome, explanation) = match &self.estimators {
            Some(estimators) => estimators.decide(binding, decision).await,
            None => decision(),
        };
        let (clusters, failure) = effect(binding, &outcome);
        let tie = self.tie(binding).await.filter(|other| *other != clusters);
        if let Some(groups) = &mut self.groups {
            // Decisions are serial: the next member of a group sees this one.
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
            elsewhere: explanation.terms.last().map(elsewhere::summary),
            // One for each cluster and binding would fill the memory for nothing.
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

    /// The result with ties broken the other way, where the UID of the resource is not known.
    async fn tie(&mut self, binding: &Binding) -> Option<Vec<Share>> {
        let resource = &binding.spec.resource;
        if resource.uid.as_deref().is_some_and(|uid| !uid.is_empty()) {
            return None;
        }
        let mut spec = binding.spec.clone();
        spec.resource.uid = Some(OTHER_WAY.to_owned());
        let request = self.request(binding, &spec).ok()?;
        let (engine, snapshot) = (&mut self.engine, self.fleet.snapshot());
        let mut decision = || engine.schedule(&snapshot, &request);
        let outcome = match &self.estimators {
            Some(estimators) => estimators.decide(binding, decision).await,
            None => decision(),
        };
        Some(effect(binding, &outcome).0)
    }
}

/// Where the binding is afterwards, as the scheduler writes it.
fn effect(binding: &Binding, outcome: &Outcome) -> (Vec<Share>, Option<Failure>) {
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
                // What fits nowhere any more is withdrawn; any other failure leaves the old result.
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

/// Where a binding is, by name.
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

/// A binding that stays as it is, because nobody looks at it.
pub(crate) fn left_alone(binding: &Binding) -> Decision {
    Decision::untouched(binding, None)
}

/// Reads a binding.
///
/// # Errors
/// When it does not have the shape of one.
pub(crate) fn binding(key: &BindingKey, object: &Value) -> Result<Binding, String> {
    let typed = if key.namespace.is_some() {
        serde_json::from_value::<ResourceBinding>(object.clone()).map(Binding::from)
    } else {
        serde_json::from_value::<ClusterResourceBinding>(object.clone()).map(Binding::from)
    };
    typed.map_err(|error| error.to_string())
}

/// Whether the last decision about a binding failed.
pub(crate) fn has_failed(status: &BindingStatus) -> bool {
    berth_scheduler::rules::condition::stored(status)
        .is_some_and(|condition| condition.status == "False")
}
