//! Shadow mode: it compares this scheduler's decisions with the decisions that another scheduler writes. Shadow mode
//! itself writes nothing.
//!
//! ```text
//! watches ──> Shadow ──> engine: decision about each basis (a state of a binding that needs scheduling)
//!                └─────> comparison when the other scheduler has written its decision ──> metrics, log, record
//! ```
//!
//! The module has neither a client nor a writer, so it cannot change the control plane.

mod observed_write;
mod prediction;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use berth_api::go_json::placement_json;
use berth_api::{Binding, BindingKey, ClusterScore};
use berth_engine::{Explanation, Request};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};

use self::observed_write::{Observation, ObservedBinding};
use self::prediction::Prediction;
use crate::capacity_book::AffinityGroups;
use crate::clusters::Clusters;
use crate::config::{Options, QuotaEnforcement};
use crate::framework::State;
use crate::http_endpoints::Probes;
use crate::lazy_object::LazyObject;
use crate::metrics::ShadowMetrics;
use crate::profiles::Frameworks;
use crate::profiles::builder::ActiveConfig;
use crate::quota_book::{ListedQuotas, QuotaBook};
use crate::raw_binding::RawBinding;
use crate::rules::schedule_trigger::schedule_type;
use crate::scheduler::Input;
use crate::shadow_differences::{Difference, Differences};
use crate::watch::WatchEvent;
use crate::watch::list_progress::{ListProgress, Source};

/// The bindings and clusters that shadow mode observes, and the results of its comparison.
pub(crate) struct Shadow {
    multiple_pod_templates: bool,
    frameworks: Frameworks,
    /// Guard that ends the plugins' tasks when this value is dropped.
    _plugin_tasks: DropGuard,
    plugin_state: State,
    clusters: Clusters,
    bindings: HashMap<BindingKey, ObservedBinding>,
    /// Groups of the workload affinity, if the feature gate WorkloadAffinity is on.
    groups: Option<AffinityGroups>,
    /// The usage of the quotas, if the feature gate FederatedQuotaEnforcement is on.
    quotas: Option<QuotaBook>,
    lists: ListProgress,
    metrics: Arc<ShadowMetrics>,
    differences: Differences,
    probes: Probes,
}

impl Shadow {
    pub(crate) fn new(
        options: &Options,
        config: ActiveConfig,
        metrics: Arc<ShadowMetrics>,
        differences: Differences,
        probes: Probes,
    ) -> Self {
        let ActiveConfig {
            frameworks,
            plugin_state,
            plugin_tasks,
            ..
        } = config;
        let mut lists = ListProgress::default();
        let quotas = (options.quotas == QuotaEnforcement::On).then(|| {
            lists.expect(Source::Quotas);
            QuotaBook::default()
        });
        let keep_objects = frameworks.iter().any(|framework| framework.reads_objects);
        if frameworks.read_scores() {
            lists.expect(Source::Scores);
        }
        Self {
            multiple_pod_templates: options.gates.multiple_pod_templates_scheduling,
            frameworks,
            _plugin_tasks: plugin_tasks,
            plugin_state,
            clusters: Clusters::new(keep_objects),
            bindings: HashMap::new(),
            groups: options
                .gates
                .workload_affinity
                .then(AffinityGroups::default),
            quotas,
            lists,
            metrics,
            differences,
            probes,
        }
    }

    /// Compares decisions until the token is cancelled.
    pub(crate) async fn run(
        mut self,
        mut watches: mpsc::Receiver<Input>,
        cancel: CancellationToken,
    ) {
        loop {
            let input = tokio::select! {
                () = cancel.cancelled() => return,
                input = watches.recv() => input,
            };
            let Some(input) = input else { return };
            self.handle(input);
        }
    }

    fn handle(&mut self, input: Input) {
        match input {
            Input::Cluster(event) => match event {
                WatchEvent::Applied(object) => {
                    let name = object.metadata().name.clone().unwrap_or_default();
                    match object.decode() {
                        Ok(cluster) => {
                            self.clusters.apply(name, &cluster);
                        }
                        Err(error) => {
                            tracing::warn!(cluster = name, %error, "cannot read a cluster");
                        }
                    }
                }
                WatchEvent::Deleted(metadata) => {
                    self.clusters
                        .remove(metadata.name.as_deref().unwrap_or_default());
                }
                WatchEvent::Listed(listing) => {
                    self.lists.complete(Source::Clusters);
                    let names = self.clusters.names();
                    let gone: Vec<String> = names
                        .filter(|name| !listing.contains("", name))
                        .cloned()
                        .collect();
                    for name in gone {
                        self.clusters.remove(&name);
                    }
                    self.report_readiness();
                }
            },
            Input::Binding(event) => {
                self.handle_binding(Source::Bindings, event, RawBinding::Namespaced);
            }
            Input::ClusterBinding(event) => {
                self.handle_binding(Source::ClusterBindings, event, RawBinding::ClusterScoped);
            }
            Input::Quota(event) => {
                let Some(quotas) = &mut self.quotas else {
                    return;
                };
                let bindings = self.bindings.values();
                let bindings = bindings.map(|observed| &**observed.latest());
                if quotas.handle_event(event, bindings) == ListedQuotas::Complete {
                    self.lists.complete(Source::Quotas);
                    self.report_readiness();
                }
            }
            // Shadow mode ignores ClusterQueues.
            Input::ClusterQueue(_) | Input::Namespace(_) => {}
            Input::Score(event) => self.handle_score(event),
        }
    }

    fn handle_score(&mut self, event: WatchEvent<ClusterScore>) {
        match event {
            WatchEvent::Applied(object) => match object.decode() {
                Ok(score) => {
                    self.clusters.apply_score(&score.normalized());
                }
                Err(error) => {
                    let name = object.metadata().name.clone().unwrap_or_default();
                    tracing::warn!(score = name, %error, "cannot read a ClusterScore");
                }
            },
            WatchEvent::Deleted(metadata) => {
                let name = metadata.name.as_deref().unwrap_or_default();
                self.clusters.remove_score(name);
            }
            WatchEvent::Listed(listing) => {
                self.lists.complete(Source::Scores);
                let names = self.clusters.score_names();
                let gone: Vec<String> = names
                    .filter(|name| !listing.contains("", name))
                    .cloned()
                    .collect();
                for name in gone {
                    self.clusters.remove_score(&name);
                }
                self.report_readiness();
            }
        }
    }

    fn handle_binding<K>(
        &mut self,
        source: Source,
        event: WatchEvent<K>,
        raw: fn(Box<LazyObject<K>>) -> RawBinding,
    ) {
        match event {
            WatchEvent::Applied(object) => {
                let key = BindingKey::of(object.metadata());
                match raw(object).decode() {
                    Ok(binding) => self.observe(Arc::new(binding)),
                    Err(error) => tracing::warn!(binding = %key, %error, "cannot read a binding"),
                }
            }
            WatchEvent::Deleted(metadata) => self.forget(&BindingKey::of(&metadata)),
            WatchEvent::Listed(listing) => {
                self.lists.complete(source);
                let namespaced = source == Source::Bindings;
                let is_listed = |key: &BindingKey| {
                    let namespace = key.namespace.as_deref().unwrap_or_default();
                    listing.contains(namespace, &key.name)
                };
                let keys = self.bindings.keys();
                let gone: Vec<BindingKey> = keys
                    .filter(|key| key.namespace.is_some() == namespaced && !is_listed(key))
                    .cloned()
                    .collect();
                for key in gone {
                    self.forget(&key);
                }
                self.report_readiness();
            }
        }
    }

    /// After every watch has completed its first list, decides about all bindings and reports readiness to the probes.
    fn report_readiness(&mut self) {
        if !self.lists.all_complete() || self.probes.is_ready() {
            return;
        }
        let keys: Vec<BindingKey> = self.bindings.keys().cloned().collect();
        for key in keys {
            self.predict(&key);
        }
        self.probes.set_ready();
        tracing::info!(
            clusters = self.clusters.len(),
            bindings = self.bindings.len(),
            "caches are filled; comparing decisions, writing nothing"
        );
    }

    fn forget(&mut self, key: &BindingKey) {
        let Some(observed) = self.bindings.remove(key) else {
            return;
        };
        if observed.predicted.is_some() {
            self.metrics.waiting(-1.0);
        }
        if let Some(groups) = &mut self.groups {
            groups.replace(Some(observed.latest()), None);
        }
        if let Some(quotas) = &mut self.quotas {
            quotas.binding_deleted(key);
        }
    }

    /// Handles a new state of a binding.
    fn observe(&mut self, binding: Arc<Binding>) {
        let now = Instant::now();
        let key = binding.key.clone();
        let observation = match self.bindings.get(&key) {
            None => Observation::NewBasis,
            // A different UID means another object. An equal resourceVersion means a state that was handled before.
            Some(observed) if observed.latest().metadata.uid != binding.metadata.uid => {
                self.forget(&key);
                Observation::NewBasis
            }
            Some(observed)
                if observed.latest().resource_version() == binding.resource_version() =>
            {
                return;
            }
            Some(observed) => observed.observe(&binding),
        };
        if observation == Observation::Decided && self.lists.all_complete() {
            self.compare(&key, &binding, now);
        }
        let old = self
            .bindings
            .get(&key)
            .map(|observed| Arc::clone(observed.latest()));
        if let Some(groups) = &mut self.groups {
            groups.replace(old.as_deref(), Some(&binding));
        }
        if let Some(quotas) = &mut self.quotas {
            quotas.binding_changed(old.as_deref(), &binding);
        }
        let observed = self
            .bindings
            .entry(key.clone())
            .or_insert_with(|| ObservedBinding::new(Arc::clone(&binding), now));
        let waited = observed.predicted.is_some();
        observed.replace(binding, &observation, now);
        if waited && observed.predicted.is_none() {
            self.metrics.waiting(-1.0);
        }
        if observation == Observation::NewBasis && self.lists.all_complete() {
            self.predict(&key);
        }
    }

    /// Makes a decision about the basis of a binding if the basis needs scheduling.
    fn predict(&mut self, key: &BindingKey) {
        let Some(basis) = self
            .bindings
            .get(key)
            .map(|observed| Arc::clone(observed.basis()))
        else {
            return;
        };
        if basis.deleting() || !self.frameworks.passes(&basis) {
            return;
        }
        let predicted = self.decide(&basis).map(|(prediction, _)| prediction);
        if let Some(observed) = self.bindings.get_mut(key)
            && predicted.is_some()
        {
            observed.predicted = predicted;
            self.metrics.waiting(1.0);
        }
    }

    /// Makes a decision about a state of a binding. Returns `None` if no rule requires scheduling, or if the state is
    /// invalid.
    fn decide(&mut self, binding: &Arc<Binding>) -> Option<(Prediction, Explanation)> {
        let placement = binding.spec.placement.as_ref()?;
        let json = placement_json(placement).ok()?;
        schedule_type(
            binding,
            placement,
            &json,
            self.multiple_pod_templates,
            |name| self.clusters.is_leaving(name),
        )?;
        let request = Request::of(binding).ok()?;
        let request = match &self.groups {
            Some(groups) => request.with_peers(groups.peers(binding, |key| {
                let observed = self.bindings.get(key)?;
                Some(Arc::clone(observed.latest()))
            })),
            None => request,
        };
        let request = request
            .with_object(binding.clone())
            .with_time(Timestamp::now());
        let snapshot = self.clusters.snapshot(&self.plugin_state);
        let framework = self.frameworks.of_mut(binding)?;
        let began = Instant::now();
        let (outcome, explanation) = framework.engine.explain(snapshot, &request);
        self.metrics.decided(began.elapsed());
        let prediction = Prediction::of(binding, &json, &outcome, self.quotas.as_ref());
        Some((prediction, explanation))
    }

    /// Compares the decision that the other scheduler has written with this scheduler's decision.
    ///
    /// The clusters may have changed between the basis and the write. Therefore this scheduler decides at both times,
    /// and the comparison succeeds if one of the two results equals the written decision.
    fn compare(&mut self, key: &BindingKey, written: &Binding, now: Instant) {
        let Some(observed) = self.bindings.get(key) else {
            return;
        };
        let (basis, since) = (Arc::clone(observed.basis()), observed.since);
        let early = observed.predicted.clone();
        if basis.deleting() || !self.frameworks.passes(&basis) {
            return;
        }
        let other = Prediction::written(written);
        if early.is_some() {
            self.metrics
                .other_decided(now.saturating_duration_since(since));
        }
        if early.as_ref() == Some(&other) {
            self.metrics.compared(true);
            return;
        }
        let decided = self.decide(&basis);
        // If this scheduler decides that the basis needs no scheduling, it expects an unchanged result.
        let unchanged = Prediction::written(&basis);
        let own = decided.as_ref().map_or(&unchanged, |(own, _)| own);
        let equal = *own == other;
        self.metrics.compared(equal);
        if !equal {
            self.report(key, written, decided, other);
        }
    }

    /// Logs a difference and adds it to the record.
    fn report(
        &self,
        key: &BindingKey,
        written: &Binding,
        decided: Option<(Prediction, Explanation)>,
        other: Prediction,
    ) {
        let missing = decided
            .as_ref()
            .map(|(own, explanation)| own.missing(&other, explanation))
            .unwrap_or_default();
        let reasons: Vec<String> = missing.iter().map(ToString::to_string).collect();
        let reasons = reasons.join("; ");
        let own = decided.map(|(own, _)| own);
        match &own {
            Some(own) => {
                tracing::warn!(binding = %key, %own, %other, reasons, "decisions differ");
            }
            None => {
                tracing::warn!(binding = %key, own = "no decision needed", %other, "decisions differ");
            }
        }
        self.differences.add(Difference {
            binding: key.to_string(),
            generation: written.metadata.generation.unwrap_or_default(),
            time: MicroTime(Timestamp::now()),
            own: own.map(Prediction::into_decided),
            other: other.into_decided(),
            missing,
        });
    }
}
