//! The [`Decider`]: schedules single bindings with the scheduler's engine, and tracks the capacity that its decisions
//! use. A [`Decision`] is the new placement of a binding or the failure, with the explanation of the engine.

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

/// A UID with which the engine breaks ties differently than with an empty UID.
const ALTERNATIVE_UID: &str = "b";

/// Replicas assigned to a cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Share {
    /// Name of the cluster.
    pub(crate) name: String,
    /// Number of replicas. Zero for resources without replicas.
    pub(crate) replicas: i32,
}

/// Reason for which a binding is not placed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Failure {
    /// Reason of the condition `Scheduled`. For a binding that the scheduler ignores, `Suspended` or `Deleting`.
    pub(crate) kind: &'static str,
    /// Message of the condition `Scheduled`, in Karmada's words.
    pub(crate) message: String,
}

/// Result of scheduling a binding.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Decision {
    /// Key of the binding.
    pub(crate) key: BindingKey,
    /// Desired replicas. `None` if the resource has no replicas.
    pub(crate) replicas: Option<i32>,
    /// Name of the affinity term by which the clusters were selected.
    pub(crate) affinity: Option<String>,
    /// Clusters after the decision, sorted by name. After a failure, the previous clusters that the binding keeps.
    pub(crate) clusters: Vec<Share>,
    /// Reason for which the binding cannot be placed. `None` after a success.
    pub(crate) failure: Option<Failure>,
    /// Summary of the reasons for which the other clusters were rejected.
    pub(crate) rejections: Option<String>,
    /// Explanation of each affinity term that the engine tried. Empty if the decider does not keep explanations.
    pub(crate) explanation: Explanation,
    /// An equally good placement, which the engine may choose with another UID. `None` if the UID of the resource is
    /// known.
    pub(crate) tie: Option<Vec<Share>>,
}

impl Decision {
    /// Returns the explanation of the affinity term by which the clusters were selected. After a failure, returns the
    /// explanation of the first term, whose failure is the reported one.
    pub(crate) fn term(&self) -> Option<&TermExplanation> {
        if self.failure.is_some() {
            self.explanation.terms.first()
        } else {
            self.explanation.terms.last()
        }
    }

    /// Returns a copy without the explanation, because explanations need much memory.
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

    /// Reports whether the decision failed and may succeed when clusters have more capacity.
    pub(crate) fn lacks_capacity(&self) -> bool {
        self.failure.as_ref().is_some_and(|failure| {
            failure.kind == Reason::Unschedulable.as_str()
                || failure.kind == Reason::NoClusterFit.as_str()
        })
    }

    /// Returns the clusters in the form of the field `spec.clusters` of a binding.
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

    /// Returns the result for a binding that the engine does not process: the binding keeps its clusters.
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

/// Scheduler for one state of the clusters and bindings.
pub(crate) struct Decider {
    engines: Engines,
    /// Corrections of the capacity that the clusters report, for the moves that previous decisions made.
    assumed: Assumed,
    /// Moves of the current round that are not yet part of `assumed`: bindings with their old and new clusters.
    unreported: Vec<(Arc<Binding>, Vec<Share>, Vec<Share>)>,
    overcommit_protection: bool,
    /// Scheduler names that bindings contain and the scheduler configuration has no profile for.
    pub(crate) unknown_schedulers: BTreeSet<String>,
    /// True if decisions contain explanations.
    explains: bool,
    multiple_pod_templates: bool,
    fleet: Fleet,
    /// Connections to accurate estimators, if the user enables them.
    estimators: Option<Estimators>,
    /// Groups of bindings with workload affinity. `None` if the feature gate is off.
    groups: Option<AffinityGroups>,
    bindings: HashMap<BindingKey, Arc<Binding>>,
    /// Remarks about clusters whose reported capacity cannot be parsed, one line each.
    pub(crate) capacity_faults: Vec<String>,
}

impl Decider {
    /// Creates a decider for the clusters and bindings of a state. If `explains` is true, decisions contain
    /// explanations.
    ///
    /// # Errors
    /// When the scheduler configuration is invalid.
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
            // Plugins may read the Cluster objects.
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

    /// Reports whether the feature gate MultiplePodTemplatesScheduling is on.
    pub(crate) const fn multiple_pod_templates(&self) -> bool {
        self.multiple_pod_templates
    }

    /// Schedules a binding. If the configuration has no profile for the scheduler of the binding, the binding keeps its
    /// clusters.
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
            // The next decision about a binding of the same group reads the clusters of this binding.
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
            // The explanations of all bindings need much memory.
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

    /// If the UID of the resource is unknown, schedules the binding with another UID, which breaks ties differently.
    /// Returns the clusters of this second result.
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
    /// Records that a binding moved, so that the next decisions use the changed capacity. Without overcommit
    /// protection, only decisions after [`Self::report_capacity`] use it.
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

    /// Applies the recorded moves to the capacity, as if the clusters had reported them. Returns true if a binding has
    /// lost replicas in a cluster.
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

    /// Passes the bindings to the plugins that preempt.
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

    /// Passes a changed binding to the plugins that preempt.
    pub(crate) fn show_binding(&mut self, binding: &Arc<Binding>) {
        if let Some(profiles) = self
            .engines
            .profiles()
            .filter(|profiles| profiles.preempts())
        {
            profiles.show_binding(binding);
        }
    }

    /// Returns the bindings that plugins would evict, and the clusters, to free capacity for a binding that fits into
    /// no cluster.
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

    /// Reports whether the plugins of a profile schedule gangs. The bindings of a gang are placed together or not at
    /// all.
    pub(crate) fn schedules_gangs(&mut self) -> bool {
        let profiles = self.engines.profiles();
        profiles.is_some_and(|profiles| profiles.schedules_gangs())
    }

    /// Returns the name of the gang that a binding belongs to, and the minimum number of placed bindings in the gang.
    pub(crate) fn gang_of(&mut self, binding: &Binding) -> Option<(String, usize)> {
        self.engines.profiles()?.gang_of(binding)
    }

    /// Returns the parts of scheduling that the decisions do not simulate, one line each.
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
                "not simulated: the accurate estimators, which the scheduler queries; pass the scheduler's estimator flags"
                    .to_owned(),
            );
        }
        if self.schedules_gangs() {
            limits.push(
                "not simulated: gang labels of templates; only gang labels of bindings have an effect"
                    .to_owned(),
            );
        }
        limits
    }
}

/// Returns the clusters that the scheduler would write into the binding, and the failure, if any.
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
                // If no cluster fits, the scheduler removes all clusters from the binding. After other failures, the
                // binding keeps its clusters.
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

/// Returns the result for a binding that the scheduler does not process and that has no failure.
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
