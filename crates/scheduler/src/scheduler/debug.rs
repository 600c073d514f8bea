//! Answers of the scheduler task to queries of the debug endpoints, from the recorded decisions.

use std::collections::BTreeMap;

use berth_api::BindingKey;
use berth_explain::Report;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

use super::configurations::Configurations;
use super::external_answers::{ExternalAnswers, Round};
use super::leadership::Role;
use super::records::Records;
use crate::debug_api::query::DecisionQuery;
use crate::debug_api::{API_VERSION, DecisionDetails, DecisionList, DecisionSummary};
use crate::decision_log::format::{DecisionResult, Estimates, Peers, assumed_by_cluster};
use crate::recent_decisions::RecentDecisions;
use crate::recorded_decision::{Inputs, RecordedDecision};

/// The parts of the scheduler from which queries are answered.
pub(super) struct DebugView<'a> {
    pub(super) role: &'a Role,
    pub(super) records: &'a Records,
    /// Explanations run the engine of the configuration, which caches placements.
    pub(super) config: &'a mut Configurations,
    pub(super) answers: &'a ExternalAnswers,
}

impl DebugView<'_> {
    /// Sends the response to a request of a debug endpoint. Ignores a caller that no longer waits for the response.
    pub(super) fn answer(&mut self, query: DecisionQuery) {
        match query {
            DecisionQuery::List(reply) => drop(reply.send(self.decision_list())),
            DecisionQuery::Decision(key, reply) => drop(reply.send(self.decision_details(&key))),
        }
    }

    fn decision_list(&self) -> DecisionList {
        let recent = self.records.recent_decisions.as_ref();
        let decisions = recent.into_iter().flat_map(RecentDecisions::newest_first);
        DecisionList {
            api_version: API_VERSION.to_owned(),
            kind: "DecisionList".to_owned(),
            leading: self.role.is_leading(),
            limit: recent.map_or(0, RecentDecisions::limit),
            decisions: decisions.map(summary).collect(),
        }
    }

    fn decision_details(&mut self, key: &BindingKey) -> Option<Box<DecisionDetails>> {
        let decision = self.records.recent_decisions.as_ref()?.get(key)?;
        let mut details = DecisionDetails {
            api_version: API_VERSION.to_owned(),
            kind: "Decision".to_owned(),
            summary: summary(decision),
            current_configuration: decision.configuration == self.config.number,
            peers: None,
            assumed: BTreeMap::new(),
            estimates: None,
            extender_calls: 0,
            report: None,
            notes: Vec::new(),
        };
        let Some(inputs) = &decision.inputs else {
            let note = "the inputs of the decision were dropped to save memory";
            details.notes.push(note.to_owned());
            return Some(Box::new(details));
        };
        details.peers = Peers::of(inputs.request.peers().clone());
        details.assumed = assumed_by_cluster(&inputs.assumed);
        details.estimates = Estimates::of(&inputs.estimates);
        details.extender_calls = inputs.extender_calls;
        if !details.current_configuration {
            let note = "the configuration of the scheduler has changed since the decision";
            details.notes.push(note.to_owned());
        }
        let Some((frameworks, extenders)) = self.config.numbered(decision.configuration) else {
            let note =
                "the old configuration is no longer kept, so the decision cannot be explained";
            details.notes.push(note.to_owned());
            return Some(Box::new(details));
        };
        let Some(framework) = frameworks.of_mut(&decision.binding) else {
            return Some(Box::new(details));
        };
        let Inputs {
            request,
            snapshot,
            assumed,
            ..
        } = inputs;
        let round = Round::recorded(&decision.binding, inputs);
        let engine = &mut framework.engine;
        let ((outcome, explanation), _, _) = self.answers.decide(extenders, round, || {
            engine.explain_with(snapshot, request, assumed)
        });
        if outcome.result != decision.outcome.result {
            let note = "the explanation differs from the recorded result, because a plugin \
                        reads state that the record does not contain";
            details.notes.push(note.to_owned());
        }
        let resource = &decision.binding.spec.resource;
        let report = Report::new(request, &outcome, &explanation)
            .with_resource(resource.namespace.as_deref(), &resource.name);
        details.report = Some(report);
        Some(Box::new(details))
    }
}

fn summary(decision: &RecordedDecision) -> DecisionSummary {
    let binding = &decision.binding;
    DecisionSummary {
        binding: binding.key.to_string(),
        uid: binding.metadata.uid.clone(),
        generation: binding.generation(),
        time: MicroTime(decision.time),
        trigger: decision.trigger.as_str().to_owned(),
        scheduler_name: binding.spec.scheduler().to_owned(),
        result: DecisionResult::from(&decision.outcome),
        remark: decision.remark.clone(),
    }
}
