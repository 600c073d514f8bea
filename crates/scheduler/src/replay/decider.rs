//! Repetition of the decisions of a decision log with their recorded inputs, for `berth replay`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_api::Binding;
use berth_engine::{Explanation, Request};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{EntryError, LoggedFleet, ReplayError, ReplayOptions};
use crate::config::{ConfigError, DeclaredProfiles, Document, ProfileFlags, kube_scheduler};
use crate::decision_log::format::{Configuration, Decision, DecisionResult, Estimates, assumed_of};
use crate::estimator::AnswerCache;
use crate::extender::ExtenderMetrics;
use crate::framework::{Registry, State};
use crate::metrics::Metrics;
use crate::offline::{known_part, unreachable_client};
use crate::profiles::builder::{ActiveConfig, FrameworkBuilder};

/// A configuration file that replaces the recorded configuration.
#[derive(Clone, Debug)]
pub struct NewConfiguration {
    /// The name of the file, for errors.
    pub name: String,
    /// The content of the file.
    pub text: String,
}

/// The outcome of repeating a recorded decision.
#[derive(Debug)]
pub(super) enum Decided {
    /// The new result. It has an explanation if the caller requested one and the result differs from the recorded
    /// result.
    Result(DecisionResult, Option<Box<Explanation>>),
    /// The decision was not repeated, because the log or the configuration lacks an input.
    NotRepeated,
}

/// The state of a replay: the configuration and the recorded inputs with which decisions are repeated.
pub(super) struct Decider {
    new: Option<NewConfiguration>,
    options: ReplayOptions,
    client: kube::Client,
    fleet: LoggedFleet,
    recorded: Option<Configuration>,
    active: Option<ActiveConfig>,
    plugin_state: State,
    estimates: AnswerCache,
    /// Descriptions of missing inputs, with the number of affected decisions.
    missing: BTreeMap<String, u64>,
    /// Remarks about plugins and extenders that the replay ignores.
    remarks: BTreeSet<String>,
}

impl Decider {
    pub(super) fn new(options: &ReplayOptions) -> Self {
        Self {
            new: options.configuration.clone(),
            options: options.clone(),
            client: unreachable_client(),
            fleet: LoggedFleet::default(),
            recorded: None,
            active: None,
            plugin_state: State::default(),
            estimates: AnswerCache::new(),
            missing: BTreeMap::new(),
            remarks: BTreeSet::new(),
        }
    }

    /// Discards the clusters of the previous file. Each file of a log contains the complete fleet.
    pub(super) fn start_file(&mut self) {
        self.fleet = LoggedFleet::default();
    }

    pub(super) fn fleet(&mut self) -> &mut LoggedFleet {
        &mut self.fleet
    }

    /// Uses a recorded configuration for the decisions that follow. If the user passed a new configuration, its
    /// document replaces the recorded document.
    pub(super) fn configure(&mut self, recorded: Configuration) -> Result<(), ReplayError> {
        if self.recorded.as_ref() == Some(&recorded) {
            return Ok(());
        }
        let gates = self.options.feature_gates.unwrap_or(recorded.feature_gates);
        let mut registry = Registry::in_tree(gates);
        registry.merge(self.options.out_of_tree.clone())?;
        let document = match &self.new {
            Some(new) => Document::read(&new.name, &new.text)?,
            None => self.known_part(&recorded.document, &registry)?,
        };
        let mut configuration = kube_scheduler::read(&document)?;
        for extender in std::mem::take(&mut configuration.extenders) {
            self.remarks.insert(format!(
                "extender {} was not called: replay sends no requests",
                extender.url_prefix
            ));
        }
        let declared =
            DeclaredProfiles::from_document(document, configuration, ProfileFlags::default())?;
        // No decision sends messages through this channel.
        let (messages, _) = mpsc::unbounded_channel();
        let builder = FrameworkBuilder {
            registry,
            gates,
            empty_workload_propagation: recorded.empty_workload_propagation,
            estimators: if recorded.estimators {
                vec![Arc::new(self.estimates.estimator())]
            } else {
                Vec::new()
            },
            client: self.client.clone(),
            messages,
            plugin_state: self.plugin_state.clone(),
            metrics: Metrics::default(),
            extender_metrics: ExtenderMetrics::default(),
            stopping: CancellationToken::new(),
        };
        self.active = Some(builder.build(&declared)?);
        self.recorded = Some(recorded);
        Ok(())
    }

    /// Removes the plugins that this program does not contain from a recorded configuration. Adds a remark for each
    /// removed plugin.
    fn known_part(
        &mut self,
        document: &Value,
        registry: &Registry,
    ) -> Result<Document, ConfigError> {
        let (document, unknown) = known_part(document, registry);
        for name in unknown {
            self.remarks.insert(format!(
                "plugin {name} was left out: this program does not contain it"
            ));
        }
        Document::read("the recorded configuration", &document.to_string())
    }

    /// Makes a recorded decision again. If `explain` is true, a result that differs from the recorded result is
    /// explained.
    pub(super) fn decide(
        &mut self,
        recorded: &Decision,
        explain: bool,
    ) -> Result<Decided, EntryError> {
        self.fleet.assume(recorded);
        let Some(active) = &mut self.active else {
            return Err(EntryError::NoConfiguration);
        };
        let binding = &recorded.binding.0;
        if recorded.extender_calls > 0 {
            let reason = "used responses of extenders, which the log does not contain";
            *self.missing.entry(reason.to_owned()).or_default() += 1;
            return Ok(Decided::NotRepeated);
        }
        let Some(framework) = active.frameworks.of_mut(binding) else {
            let name = binding.spec.scheduler();
            let reason = format!("needed a profile named {name}, which the configuration lacks");
            *self.missing.entry(reason).or_default() += 1;
            return Ok(Decided::NotRepeated);
        };
        let request = request(binding, recorded)?;
        let assumed = assumed_of(&self.fleet.assumed)?;
        let snapshot = self.fleet.snapshot(&self.plugin_state);
        let answers = recorded.estimates.as_ref().map(Estimates::answers);
        let answers = Arc::new(answers.unwrap_or_default());
        let engine = &mut framework.engine;
        let (outcome, unanswered) = self.estimates.decide(Arc::clone(&answers), || {
            engine.schedule_with(&snapshot, &request, &assumed)
        });
        let result = DecisionResult::from(&outcome);
        let differs = result != recorded.result;
        // Count a missing estimate only if the result differs: the scheduler may also have decided without this
        // estimate.
        if unanswered.is_some() && differs {
            let reason = "needed estimates that the log does not contain";
            *self.missing.entry(reason.to_owned()).or_default() += 1;
        }
        let explanation = (differs && explain).then(|| {
            let explain = || engine.explain_with(&snapshot, &request, &assumed);
            let ((_, explanation), _) = self.estimates.decide(answers, explain);
            Box::new(explanation)
        });
        Ok(Decided::Result(result, explanation))
    }

    /// Returns the remarks and the descriptions of missing inputs.
    pub(super) fn notes(self) -> Vec<String> {
        let missing = self.missing.into_iter();
        let missing = missing.map(|(reason, count)| {
            let plural = if count == 1 { "" } else { "s" };
            format!("{count} decision{plural} {reason}")
        });
        self.remarks.into_iter().chain(missing).collect()
    }
}

fn request(binding: &Arc<Binding>, recorded: &Decision) -> Result<Request, EntryError> {
    let request = Request::of(binding)?;
    let peers = recorded.peers.clone().map(Into::into).unwrap_or_default();
    let request = request
        .with_peers(peers)
        .with_object(Arc::clone(binding))
        .with_time(recorded.time.0);
    Ok(match &recorded.earlier {
        Some(earlier) => request.with_earlier(earlier.parse()?),
        None => request,
    })
}
