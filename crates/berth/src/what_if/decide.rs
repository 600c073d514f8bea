//! Decisions of the engine about bindings, with explanations.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use berth_api::binding::{BindingSpec, BindingStatus, TargetCluster};
use berth_api::{ClusterResourceBinding, ResourceBinding};
use berth_core::{Assumed, Explanation, Fleet, Outcome, Request, ScheduleError, TermExplanation};
use berth_scheduler::AffinityGroups;
use berth_scheduler::binding::{Binding, BindingKey};
use berth_scheduler::framework::Victim;
use berth_scheduler::offline;
use berth_scheduler::rules::condition::Reason;
use serde::Serialize;
use serde_json::Value;

use super::estimators::Estimators;
use super::rejection_summary;
use super::state::State;
use crate::scheduler_configuration::{ConfigurationError, DecisionConfiguration, Engines};

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

    /// Returns the decision without the explanation, which needs much memory.
    pub(crate) fn without_explanation(&self) -> Self {
        Self {
            key: self.key.clone(),
            replicas: self.replicas,
            affinity: self.affinity.clone(),
            clusters: self.clusters.clone(),
            failure: self.failure.clone(),
            rejections: None,
            explanation: Explanation::default(),
            tie: None,
        }
    }

    /// Reports whether it may succeed with other capacity.
    pub(crate) fn lacks_capacity(&self) -> bool {
        self.failure.as_ref().is_some_and(|failure| {
            failure.kind == Reason::Unschedulable.as_str()
                || failure.kind == Reason::NoClusterFit.as_str()
        })
    }

    /// Returns the clusters as the scheduler writes them.
    pub(crate) fn targets(&self) -> Vec<TargetCluster> {
        let clusters = self.clusters.iter();
        clusters
            .map(|share| TargetCluster {
                name: share.name.clone(),
                replicas: share.replicas,
                ..TargetCluster::default()
            })
            .collect()
    }

    /// Returns the result for a binding without a decision.
    pub(crate) fn undecided(binding: &Binding, failure: Option<Failure>) -> Self {
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
    engines: Engines,
    /// Capacity that decisions have moved and clusters report otherwise.
    assumed: Assumed,
    /// Moves of the current round, which count from the next one.
    unreported: Vec<(Arc<Binding>, Vec<Share>, Vec<Share>)>,
    overcommit_protection: bool,
    /// Schedulers of bindings without a profile.
    pub(crate) unknown_schedulers: BTreeSet<String>,
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
    /// When the configuration is invalid.
    pub(crate) fn new(
        configuration: &DecisionConfiguration,
        explains: bool,
        state: &State,
        estimators: Option<Estimators>,
    ) -> Result<Self, ConfigurationError> {
        let engines = configuration.engines(match &estimators {
            Some(estimators) => {
                estimators.follow(state.clusters.values().map(|cluster| &**cluster));
                vec![estimators.estimator()]
            }
            None => Vec::new(),
        })?;
        let gates = configuration.gates();
        let mut fleet = Fleet::new();
        if matches!(engines, Engines::Profiles(_)) {
            // Plugins may read the objects.
            fleet = fleet.keeping_objects();
        }
        let mut capacity_faults = Vec::new();
        for (name, cluster) in &state.clusters {
            if let Some(error) = fleet.apply(cluster).capacity_error() {
                capacity_faults.push(format!("Cluster {name}: {error}"));
            }
        }
        let mut bindings = HashMap::new();
        let groups = gates.workload_affinity.then(|| {
            let mut groups = AffinityGroups::default();
            for (key, binding) in &state.bindings {
                groups.replace(None, Some(binding));
                bindings.insert(key.clone(), Arc::clone(binding));
            }
            groups
        });
        Ok(Self {
            explains,
            multiple_pod_templates: gates.multiple_pod_templates_scheduling,
            overcommit_protection: gates.scheduling_overcommit_protection,
            engines,
            assumed: Assumed::default(),
            unreported: Vec::new(),
            unknown_schedulers: BTreeSet::new(),
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

    /// Decides about a binding. One of a scheduler without a profile stays as it is.
    pub(crate) async fn decide(&mut self, binding: &Arc<Binding>) -> Decision {
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
        if self.engines.of(binding).is_none() {
            let name = binding.spec.scheduler().to_owned();
            self.unknown_schedulers.insert(name);
            return unchanged(binding);
        }
        let request = match self.request(binding, &binding.spec) {
            Ok(request) => request,
            Err(message) => return undecided(Reason::SchedulerError.as_str(), &message),
        };
        let snapshot = self.fleet.snapshot();
        if let Engines::Profiles(profiles) = &self.engines {
            profiles.show_fleet(&snapshot);
        }
        let Some(engine) = self.engines.of(binding) else {
            return unchanged(binding);
        };
        let assumed = &self.assumed;
        let mut decision = || engine.explain_with(&snapshot, &request, assumed);
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
        self.moved(binding, &shares(&binding.spec), &clusters);
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

    fn request(&self, binding: &Arc<Binding>, spec: &BindingSpec) -> Result<Request, String> {
        let BindingKey { namespace, name } = &binding.key;
        let request = Request::new(namespace.as_deref(), name, spec, &binding.status)
            .map_err(|error| error.to_string())?;
        let request = match self.engines {
            Engines::Profiles(_) => request.with_object(Arc::clone(binding) as _),
            Engines::Single(_) => request,
        };
        Ok(match &self.groups {
            Some(groups) => {
                request.with_peers(groups.peers(binding, |key| self.bindings.get(key).cloned()))
            }
            None => request,
        })
    }

    /// Returns the result with ties broken differently, if the UID of the resource is unknown.
    async fn tie(&mut self, binding: &Arc<Binding>) -> Option<Vec<Share>> {
        let resource = &binding.spec.resource;
        if resource.uid.as_deref().is_some_and(|uid| !uid.is_empty()) {
            return None;
        }
        let mut spec = binding.spec.clone();
        spec.resource.uid = Some(ALTERNATIVE_UID.to_owned());
        let request = self.request(binding, &spec).ok()?;
        let (snapshot, assumed) = (self.fleet.snapshot(), &self.assumed);
        let engine = self.engines.of(binding)?;
        let mut decision = || engine.schedule_with(&snapshot, &request, assumed);
        let outcome = match &self.estimators {
            Some(estimators) => estimators.decide(binding, decision).await,
            None => decision(),
        };
        Some(clusters_after(binding, &outcome).0)
    }
}

impl Decider {
    /// Accounts for the capacity of a move. Without overcommit protection, it counts from the next round.
    pub(crate) fn moved(&mut self, binding: &Arc<Binding>, from: &[Share], to: &[Share]) {
        if from == to {
            return;
        }
        let counts_now = match &self.engines {
            Engines::Profiles(profiles) => profiles.assumes_capacity(binding),
            Engines::Single(_) => self.overcommit_protection,
        };
        if counts_now {
            self.assume(binding, from, to);
        } else {
            let (from, to) = (from.to_vec(), to.to_vec());
            self.unreported.push((Arc::clone(binding), from, to));
        }
    }

    fn assume(&mut self, binding: &Binding, from: &[Share], to: &[Share]) {
        let held = |shares: &[Share], name: &str| {
            let mut shares = shares.iter();
            shares
                .find(|share| share.name == name)
                .map(|share| share.replicas)
        };
        for share in to {
            let (held, now) = (held(from, &share.name), share.replicas);
            let change = now - held.unwrap_or(0);
            if held.is_none() || change != 0 {
                let assumed = &mut self.assumed;
                offline::assume(assumed, binding, &share.name, change.abs(), change < 0);
            }
        }
        for share in from.iter().filter(|share| held(to, &share.name).is_none()) {
            let assumed = &mut self.assumed;
            offline::assume(assumed, binding, &share.name, share.replicas, true);
        }
    }

    /// Lets the clusters report the moves of the round. Returns whether a binding has left a cluster.
    pub(crate) fn report_capacity(&mut self) -> bool {
        let mut freed = false;
        for (binding, from, to) in std::mem::take(&mut self.unreported) {
            let left = |share: &Share| {
                let mut kept = to.iter();
                !kept.any(|other| other.name == share.name && other.replicas >= share.replicas)
            };
            freed |= from.iter().any(left);
            self.assume(&binding, &from, &to);
        }
        freed
    }

    /// Shows the bindings to the plugins that preempt.
    pub(crate) fn show_bindings<'a>(&mut self, bindings: impl Iterator<Item = &'a Arc<Binding>>) {
        if self
            .engines
            .profiles()
            .is_some_and(|profiles| profiles.preempts())
        {
            for binding in bindings {
                self.show_binding(binding);
            }
        }
    }

    /// Shows a changed binding to the plugins that preempt.
    pub(crate) fn show_binding(&mut self, binding: &Arc<Binding>) {
        if let Some(profiles) = self
            .engines
            .profiles()
            .filter(|profiles| profiles.preempts())
        {
            profiles.show_binding(binding);
        }
    }

    /// Returns the assignments that plugins would evict for a binding that fits nowhere.
    pub(crate) fn victims(&mut self, binding: &Arc<Binding>) -> Vec<Victim> {
        let Ok(request) = self.request(binding, &binding.spec) else {
            return Vec::new();
        };
        let (snapshot, assumed) = (self.fleet.snapshot(), &self.assumed);
        let Engines::Profiles(profiles) = &mut self.engines else {
            return Vec::new();
        };
        let Some(engine) = profiles.engine_of(binding) else {
            return Vec::new();
        };
        let outcome = engine.schedule_with(&snapshot, &request, assumed);
        profiles.victims(binding, &request, &snapshot, assumed, &outcome)
    }

    /// Reports whether gangs are placed together.
    pub(crate) fn schedules_gangs(&mut self) -> bool {
        let profiles = self.engines.profiles();
        profiles.is_some_and(|profiles| profiles.schedules_gangs())
    }

    /// Returns the gang of a binding, and its minimum number of members.
    pub(crate) fn gang_of(&mut self, binding: &Binding) -> Option<(String, usize)> {
        self.engines.profiles()?.gang_of(binding)
    }

    /// Returns what the decisions leave out, one line each.
    pub(crate) fn limits(&mut self, configuration: &DecisionConfiguration) -> Vec<String> {
        let omitted = self.engines.omitted().iter();
        let mut limits: Vec<String> = omitted
            .map(|part| format!("not simulated: {part}"))
            .collect();
        let origin = configuration.origin().unwrap_or("the configuration");
        for name in &self.unknown_schedulers {
            limits.push(format!(
                "not simulated: bindings of the scheduler {name}, for which {origin} has no profile"
            ));
        }
        if configuration.asks_estimators() && self.estimators.is_none() {
            limits.push(
                "not simulated: the accurate estimators, which the scheduler asks; pass its estimator flags"
                    .to_owned(),
            );
        }
        if self.schedules_gangs() {
            limits.push(
                "not simulated: labels of gangs in templates; only those of bindings count"
                    .to_owned(),
            );
        }
        limits
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
