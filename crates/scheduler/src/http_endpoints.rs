//! The scheduler's HTTP endpoints: liveness, readiness, metrics, the configuration in use, recorded decisions and
//! shadow differences.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use berth_api::feature_gates::EngineGates;
use berth_component_base::endpoints::Endpoints;
use berth_metrics::Registry;
use futures::FutureExt as _;
use http::StatusCode;

use crate::config::Effective;
use crate::debug_api::query::DebugClient;
use crate::debug_api::{
    API_VERSION, ActiveConfiguration, CONFIGURATION_PATH, DECISIONS_PATH, QUEUES_PATH,
};
use crate::decision_log::DroppedDecisions;
use crate::estimator::EstimatorClient;
use crate::extender::ExtenderMetrics;
use crate::metrics::{Metrics, ShadowMetrics};
use crate::shadow_differences::{Differences, SHADOW_PATH};

/// Content of the endpoints, shared between the scheduler, which updates it, and the HTTP servers.
#[derive(Clone, Debug)]
pub(crate) struct Probes {
    ready: Arc<AtomicBool>,
    metrics: Metrics,
    estimators: Arc<OnceLock<EstimatorClient>>,
    extenders: ExtenderMetrics,
    shadow: Arc<OnceLock<(Arc<ShadowMetrics>, Differences)>>,
    decision_log: Arc<OnceLock<DroppedDecisions>>,
    configuration: Effective,
    settings: DecisionSettings,
    /// A client of the debug API. `None` if decisions are not recorded.
    decisions: Option<DebugClient>,
}

/// Settings that affect decisions and are not part of the configuration file.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DecisionSettings {
    pub(crate) gates: EngineGates,
    pub(crate) empty_workload_propagation: bool,
    pub(crate) estimators: bool,
    pub(crate) enforces_quotas: bool,
}

impl Probes {
    /// Creates the content for a scheduler that is not ready yet.
    pub(crate) fn new(metrics: Metrics, configuration: Effective) -> Self {
        Self {
            ready: Arc::default(),
            metrics,
            estimators: Arc::default(),
            extenders: ExtenderMetrics::default(),
            shadow: Arc::default(),
            decision_log: Arc::default(),
            configuration,
            settings: DecisionSettings::default(),
            decisions: None,
        }
    }

    /// Adds the settings to the served configuration.
    pub(crate) fn with_settings(self, settings: DecisionSettings) -> Self {
        Self { settings, ..self }
    }

    /// Adds the recorded decisions.
    pub(crate) fn with_decisions(self, decisions: Option<DebugClient>) -> Self {
        Self { decisions, ..self }
    }

    /// Adds the estimators' metrics.
    pub(crate) fn show_estimators(&self, client: EstimatorClient) {
        // This function is called once per process, so `set` cannot fail.
        let _ = self.estimators.set(client);
    }

    /// Adds the metrics and the differences of shadow mode.
    pub(crate) fn show_shadow(&self, metrics: Arc<ShadowMetrics>, differences: Differences) {
        // This function is called once per process, so `set` cannot fail.
        let _ = self.shadow.set((metrics, differences));
    }

    /// Adds the metric of the decision log.
    pub(crate) fn show_decision_log(&self, dropped: DroppedDecisions) {
        // This function is called once per process, so `set` cannot fail.
        let _ = self.decision_log.set(dropped);
    }

    /// Returns the metrics of extenders, which the metrics endpoint serves.
    pub(crate) fn extenders(&self) -> ExtenderMetrics {
        self.extenders.clone()
    }

    fn register_metrics(&self, registry: &mut Registry) {
        self.metrics.register(registry);
        if let Some(estimators) = self.estimators.get() {
            estimators.register_metrics(registry);
        }
        self.extenders.register(registry);
        if let Some((shadow, _)) = self.shadow.get() {
            shadow.register(registry);
        }
        if let Some(dropped) = self.decision_log.get() {
            dropped.register(registry);
        }
    }

    fn active_configuration(&self) -> ActiveConfiguration {
        ActiveConfiguration {
            api_version: API_VERSION.to_owned(),
            kind: "ActiveConfiguration".to_owned(),
            configuration: self.configuration.document(),
            feature_gates: self.settings.gates,
            empty_workload_propagation: self.settings.empty_workload_propagation,
            enable_scheduler_estimator: self.settings.estimators,
            enforces_quotas: self.settings.enforces_quotas,
        }
    }

    /// Marks the scheduler's caches as filled.
    pub(crate) fn set_ready(&self) {
        self.ready.store(true, Ordering::Release);
    }

    /// Reports whether the scheduler's caches are filled.
    pub(crate) fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    /// Returns the endpoints that serve the content.
    pub(crate) fn endpoints(&self) -> Endpoints {
        let (metrics, readiness, configuration) = (self.clone(), self.clone(), self.clone());
        let (active, decisions) = (self.clone(), self.decisions.clone());
        let queues = self.decisions.clone();
        let shadow = self.shadow.clone();
        Endpoints::default()
            .live(|| Ok(()))
            .ready(move || {
                if readiness.is_ready() {
                    Ok(())
                } else {
                    Err("the caches are not filled yet".to_owned())
                }
            })
            .metrics(move |registry| metrics.register_metrics(registry))
            .configuration(move || configuration.configuration.json())
            .debug(CONFIGURATION_PATH, move |_| {
                let document = serde_json::to_string(&active.active_configuration());
                let document = document
                    .map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()));
                std::future::ready(document).boxed()
            })
            .debug(DECISIONS_PATH, move |parameters| {
                if let Some(decisions) = decisions.clone() {
                    return decisions.decisions(parameters).boxed();
                }
                let reason = "no decisions are recorded: --debug-decisions is 0, or the scheduler \
                              runs with --shadow";
                let refused = Err((StatusCode::NOT_FOUND, reason.to_owned()));
                std::future::ready(refused).boxed()
            })
            .debug(QUEUES_PATH, move |parameters| {
                if let Some(queues) = queues.clone() {
                    return queues.queues(parameters).boxed();
                }
                let reason =
                    "no queues: --debug-decisions is 0, or the scheduler runs with --shadow";
                let refused = Err((StatusCode::NOT_FOUND, reason.to_owned()));
                std::future::ready(refused).boxed()
            })
            .debug(SHADOW_PATH, move |_| {
                let document = match shadow.get() {
                    Some((_, differences)) => differences
                        .json()
                        .map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string())),
                    None => Err((
                        StatusCode::NOT_FOUND,
                        "no comparison: the scheduler runs without --shadow".to_owned(),
                    )),
                };
                std::future::ready(document).boxed()
            })
    }
}
