//! A decision with its inputs, in memory. The decision log writes it to files, and the last decision about each binding
//! is kept for the debug endpoints. Both share one value, so that recording a decision copies none of its inputs.

use std::sync::Arc;

use berth_api::Binding;
use berth_engine::{Assumed, Outcome, Request, Snapshot};

use crate::estimator;
use crate::extender;
use crate::rules::schedule_trigger::ScheduleType;

/// A decision with its inputs.
#[derive(Clone, Debug)]
pub(crate) struct RecordedDecision {
    pub(crate) time: jiff::Timestamp,
    pub(crate) trigger: ScheduleType,
    pub(crate) binding: Arc<Binding>,
    /// The number of the configuration that the decision used.
    pub(crate) configuration: u64,
    /// The inputs; `None` if they were dropped to save memory.
    pub(crate) inputs: Option<Inputs>,
    pub(crate) outcome: Outcome,
    /// Text about preemption or the refusal of a quota. After a failure, the condition of the binding contains this text
    /// after the message of the result.
    pub(crate) remark: Option<String>,
}

/// The inputs of a decision except for the binding and the configuration.
#[derive(Clone, Debug)]
pub(crate) struct Inputs {
    pub(crate) request: Request,
    pub(crate) snapshot: Arc<Snapshot>,
    /// Workloads that were placed in a cluster and that the cluster did not report yet.
    pub(crate) assumed: Arc<Assumed>,
    pub(crate) estimates: Arc<estimator::Answers>,
    pub(crate) extenders: extender::Answers,
    /// The number of calls to extenders whose responses the decision used.
    pub(crate) extender_calls: usize,
}

impl RecordedDecision {
    /// Creates the record of a decision. Its time is that of the request.
    pub(crate) fn new(
        trigger: ScheduleType,
        binding: &Arc<Binding>,
        configuration: u64,
        inputs: Inputs,
        outcome: Outcome,
    ) -> Self {
        Self {
            time: inputs.request.time(),
            trigger,
            binding: Arc::clone(binding),
            configuration,
            inputs: Some(inputs),
            outcome,
            remark: None,
        }
    }
}

impl Inputs {
    /// Returns the number of assumed workloads.
    pub(crate) fn workloads(&self) -> usize {
        let clusters = self.assumed.iter();
        clusters.map(|(_, workloads)| workloads.len()).sum()
    }
}

#[cfg(test)]
impl Inputs {
    /// Returns inputs without answers of estimators and extenders.
    pub(crate) fn of(request: Request, snapshot: Arc<Snapshot>, assumed: Assumed) -> Self {
        Self {
            request,
            snapshot,
            assumed: Arc::new(assumed),
            estimates: Arc::default(),
            extenders: extender::Answers::default(),
            extender_calls: 0,
        }
    }
}

#[cfg(test)]
impl RecordedDecision {
    /// Returns the record of a decision about a ConfigMap, which selects no cluster.
    pub(crate) fn about_config_map(namespace: &str, name: &str, assumed: Assumed) -> Self {
        let object = serde_json::json!({
            "metadata": { "name": name, "namespace": namespace },
            "spec": { "resource": { "apiVersion": "v1", "kind": "ConfigMap", "name": name }, "placement": {} },
        });
        let object: berth_api::ResourceBinding = serde_json::from_value(object).unwrap();
        let binding = Arc::new(Binding::from(object));
        let request = Request::new(&binding.key, &binding.spec, &binding.status)
            .unwrap()
            .with_time(jiff::Timestamp::now());
        let inputs = Inputs::of(request, berth_engine::Fleet::new().snapshot(), assumed);
        let outcome = Outcome {
            result: Ok(berth_engine::Placement::default()),
            failed_terms: Vec::new(),
        };
        Self::new(ScheduleType::Reconcile, &binding, 0, inputs, outcome)
    }
}
