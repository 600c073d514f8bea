//! The [`Decider`]: schedules single bindings with the scheduler's engine, and tracks the capacity that its decisions
//! use.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use berth_api::binding::BindingSpec;
use berth_api::{Binding, BindingKey};
use berth_engine::{Assumed, Explanation, Fleet, Request, RequestError, ScheduledReason};
use berth_scheduler::config::QuotaEnforcement;
use berth_scheduler::framework::Victim;
use berth_scheduler::offline::{self, CapacityChange};
use berth_scheduler::{AffinityGroups, QuotaBook};
use jiff::Timestamp;

use super::decision::{Decision, Failure, Share, clusters_after, replicas, shares, targets};
use super::estimators::Estimators;
use super::rejection_summary;
use crate::control_plane_state::ControlPlaneState;
use crate::scheduler_configuration::{ConfigurationError, DecisionConfiguration, Engines};

/// A UID with which the engine breaks ties differently than with an empty UID.
const ALTERNATIVE_UID: &str = "b";

/// Scheduler for one state of the clusters and bindings.
pub(crate) struct Decider {
    engines: Engines,
    /// Corrections of the capacity that the clusters report, for the moves that previous decisions made.
    assumed: Assumed,
    /// Moves that are not yet part of `assumed`: bindings with their old and new clusters.
    recorded_moves: Vec<(Arc<Binding>, Vec<Share>, Vec<Share>)>,
    overcommit_protection: bool,
    /// Scheduler names in bindings that match no profile of the scheduler configuration.
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
    /// The time of all decisions.
    time: Timestamp,
    /// The usage of the quotas after the decisions so far. Empty if the configuration does not enforce quotas.
    quotas: QuotaBook,
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
        state: &ControlPlaneState,
        estimators: Option<Estimators>,
    ) -> Result<Self, ConfigurationError> {
        let engines = configuration.engines(match &estimators {
            Some(estimators) => {
                estimators.connect_to(state.clusters.values().map(|cluster| &**cluster));
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
        for score in state.scores.iter() {
            fleet.apply_score(&score.normalized());
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
        let mut quotas = QuotaBook::default();
        if configuration.quotas() == QuotaEnforcement::On {
            for quota in state.quotas.iter() {
                let bindings = state.bindings.values();
                quotas.quota_applied(quota.clone(), bindings.map(|binding| &**binding));
            }
        }
        Ok(Self {
            explains,
            multiple_pod_templates: gates.multiple_pod_templates_scheduling,
            overcommit_protection: gates.scheduling_overcommit_protection,
            engines,
            assumed: Assumed::default(),
            recorded_moves: Vec::new(),
            unknown_schedulers: BTreeSet::new(),
            fleet,
            estimators,
            groups,
            bindings,
            time: Timestamp::now(),
            quotas,
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
            return Decision::unchanged(binding);
        }
        let request = match self.request(binding, &binding.spec) {
            Ok(request) => request,
            Err(error) => return undecided(error.reason().as_str(), &error.to_string()),
        };
        let snapshot = self.fleet.snapshot();
        if let Engines::Profiles(profiles) = &self.engines {
            profiles.show_fleet(&snapshot);
        }
        let Some(engine) = self.engines.of(binding) else {
            return Decision::unchanged(binding);
        };
        let assumed = &self.assumed;
        let mut decision = || engine.explain_with(&snapshot, &request, assumed);
        let (outcome, explanation) = match &self.estimators {
            Some(estimators) => estimators.decide(binding, decision).await,
            None => decision(),
        };
        let (mut clusters, mut failure) = clusters_after(binding, &outcome);
        if failure.is_none()
            && let Err(exceeded) = self.quotas.check(binding, &targets(&clusters))
        {
            clusters = shares(&binding.spec);
            failure = Some(Failure {
                kind: ScheduledReason::QuotaExceeded.as_str(),
                message: exceeded.to_string(),
            });
        }
        let is_refused = failure.as_ref().is_some_and(Failure::is_quota_refusal);
        let warnings = berth_explain::warnings(&request, &outcome, &explanation);
        let tie = self
            .alternative_placement(binding)
            .await
            .filter(|other| !is_refused && *other != clusters);
        if let Some(groups) = &mut self.groups {
            // The next decision about a binding of the same group reads the clusters of this binding.
            let names = clusters.iter().map(|share| share.name.clone());
            groups.decided(&binding.key, names.collect());
        }
        self.quotas.placed(binding, &targets(&clusters));
        self.record_move(binding, &shares(&binding.spec), &clusters);
        Decision {
            key: binding.key.clone(),
            replicas: replicas(&binding.spec),
            affinity: outcome
                .result
                .ok()
                .filter(|_| !is_refused)
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
            warnings,
            tie,
        }
    }

    fn request(&self, binding: &Arc<Binding>, spec: &BindingSpec) -> Result<Request, RequestError> {
        let request = Request::new(&binding.key, spec, &binding.status)?.with_limits_of(binding)?;
        let request = match self.engines {
            Engines::Profiles(_) => request
                .with_object(Arc::clone(binding))
                .with_time(self.time),
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
    async fn alternative_placement(&mut self, binding: &Arc<Binding>) -> Option<Vec<Share>> {
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

    /// Records that a binding moved, so that the next decisions use the changed capacity. Without overcommit
    /// protection, only decisions after [`Self::apply_recorded_moves`] use it.
    pub(crate) fn record_move(&mut self, binding: &Arc<Binding>, from: &[Share], to: &[Share]) {
        if from == to {
            return;
        }
        let takes_effect_now = match &self.engines {
            Engines::Profiles(profiles) => profiles.assumes_capacity(binding),
            Engines::Single(_) => self.overcommit_protection,
        };
        if takes_effect_now {
            self.assume(binding, from, to);
        } else {
            let (from, to) = (from.to_vec(), to.to_vec());
            self.recorded_moves.push((Arc::clone(binding), from, to));
        }
    }

    fn assume(&mut self, binding: &Binding, from: &[Share], to: &[Share]) {
        let replicas_on = |shares: &[Share], name: &str| {
            let mut shares = shares.iter();
            shares
                .find(|share| share.name == name)
                .map(|share| share.replicas)
        };
        for share in to {
            let (before, now) = (replicas_on(from, &share.name), share.replicas);
            let change = now - before.unwrap_or(0);
            if before.is_none() || change != 0 {
                let (assumed, replicas) = (&mut self.assumed, change.abs());
                let change = if change < 0 {
                    CapacityChange::Freed
                } else {
                    CapacityChange::Occupied
                };
                offline::assume(assumed, binding, &share.name, replicas, change);
            }
        }
        for share in from
            .iter()
            .filter(|share| replicas_on(to, &share.name).is_none())
        {
            let (assumed, freed) = (&mut self.assumed, CapacityChange::Freed);
            offline::assume(assumed, binding, &share.name, share.replicas, freed);
        }
    }

    /// Applies the recorded moves to the capacity, as if the clusters had reported them. Returns true if one of these
    /// moves removes replicas from a cluster.
    pub(crate) fn apply_recorded_moves(&mut self) -> bool {
        let mut freed = false;
        for (binding, from, to) in std::mem::take(&mut self.recorded_moves) {
            let has_lost_replicas = |share: &Share| {
                let mut kept = to.iter();
                !kept.any(|other| other.name == share.name && other.replicas >= share.replicas)
            };
            freed |= from.iter().any(has_lost_replicas);
            self.assume(&binding, &from, &to);
        }
        freed
    }

    /// Passes the bindings to the plugins that preempt.
    pub(crate) fn pass_bindings_to_plugins<'a>(
        &mut self,
        bindings: impl Iterator<Item = &'a Arc<Binding>>,
    ) {
        if self
            .engines
            .profiles()
            .is_some_and(|profiles| profiles.preempts())
        {
            for binding in bindings {
                self.pass_binding_to_plugins(binding);
            }
        }
    }

    /// Updates the usage of the quotas, and passes a changed binding to the plugins that preempt.
    pub(crate) fn binding_changed(&mut self, binding: &Arc<Binding>) {
        self.quotas.placed(binding, &binding.spec.clusters);
        self.pass_binding_to_plugins(binding);
    }

    fn pass_binding_to_plugins(&mut self, binding: &Arc<Binding>) {
        if let Some(profiles) = self
            .engines
            .profiles()
            .filter(|profiles| profiles.preempts())
        {
            profiles.show_binding(binding);
        }
    }

    /// Returns the victims that plugins would evict to free capacity for a binding that fits into no cluster.
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
        if configuration.queries_estimators() && self.estimators.is_none() {
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
