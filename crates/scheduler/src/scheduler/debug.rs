//! Answers of the scheduler task to queries of the debug endpoints, from the recorded decisions.

use std::collections::{BTreeMap, VecDeque};

use berth_api::BindingKey;
use berth_explain::Report;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

use super::Scheduler;
use super::external_answers::Round;
use crate::debug_api::query::DebugQuery;
use crate::debug_api::{API_VERSION, DecisionDetails, DecisionList, DecisionSummary};
use crate::decision_log::format::{DecisionResult, Estimates, Peers, assumed_by_cluster};
use crate::extender::Extenders;
use crate::profiles::Frameworks;
use crate::recent_decisions::{Inputs, RecentDecisions, RecordedDecision};

/// Maximum number of replaced configurations that are kept to explain earlier decisions.
const RETIRED: usize = 2;

/// The number of the active configuration, and the last replaced configurations.
#[derive(Debug, Default)]
pub(super) struct Configurations {
    pub(super) current: u64,
    retired: VecDeque<Retired>,
}

/// A replaced configuration.
#[derive(Debug)]
struct Retired {
    number: u64,
    frameworks: Frameworks,
    extenders: Option<Extenders>,
}

impl Configurations {
    /// Keeps a replaced configuration, and increments the number of the active configuration.
    pub(super) fn retire(&mut self, frameworks: Frameworks, extenders: Option<Extenders>) {
        self.retired.push_back(Retired {
            number: self.current,
            frameworks,
            extenders,
        });
        if self.retired.len() > RETIRED {
            self.retired.pop_front();
        }
        self.current += 1;
    }
}

impl Scheduler {
    /// Sends the response to a request of a debug endpoint. Ignores a caller that no longer waits for the response.
    pub(super) fn answer_debug(&mut self, query: DebugQuery) {
        match query {
            DebugQuery::List(reply) => drop(reply.send(self.decision_list())),
            DebugQuery::Decision(key, reply) => drop(reply.send(self.decision_details(&key))),
        }
    }

    fn decision_list(&self) -> DecisionList {
        let recent = self.recent_decisions.as_ref();
        let decisions = recent.into_iter().flat_map(RecentDecisions::newest_first);
        DecisionList {
            api_version: API_VERSION.to_owned(),
            kind: "DecisionList".to_owned(),
            leading: self.leading,
            limit: recent.map_or(0, RecentDecisions::limit),
            decisions: decisions.map(summary).collect(),
        }
    }

    fn decision_details(&mut self, key: &BindingKey) -> Option<Box<DecisionDetails>> {
        let decision = self.recent_decisions.as_ref()?.get(key)?;
        let mut details = DecisionDetails {
            api_version: API_VERSION.to_owned(),
            kind: "Decision".to_owned(),
            summary: summary(decision),
            current_configuration: decision.configuration == self.configurations.current,
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
        let configurations = &mut self.configurations;
        let (frameworks, extenders) = if details.current_configuration {
            (&mut self.frameworks, self.answers.extenders.as_ref())
        } else {
            let note = "the configuration of the scheduler has changed since the decision";
            details.notes.push(note.to_owned());
            let mut retired = configurations.retired.iter_mut();
            let Some(retired) = retired.find(|retired| retired.number == decision.configuration)
            else {
                let note =
                    "the old configuration is no longer kept, so the decision cannot be explained";
                details.notes.push(note.to_owned());
                return Some(Box::new(details));
            };
            (&mut retired.frameworks, retired.extenders.as_ref())
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
        let ((outcome, explanation), _, _) = self.answers.decide_with(extenders, round, || {
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
