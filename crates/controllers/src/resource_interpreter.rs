//! The interpreter of a controller, which calls webhooks.
//!
//! The operations of [`Interpreter`] are functions over JSON. A controller passes its decision, which uses them, as a
//! closure. The closure runs once, and again each time webhooks have answered, until it needs no other answer.

use berth_interpreter::{Answers, Interpreter};
use futures::StreamExt as _;
use futures::stream;

use crate::interpreter_webhooks::WebhookCaller;
use crate::monitor::Monitor;

/// Maximum calls of webhooks at the same time for one decision.
const CONCURRENT_CALLS: usize = 8;
/// Maximum runs of one decision. A decision has few requests that depend on the answers to others.
const MAX_RUNS: usize = 8;

/// The interpreter of a controller. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct ResourceInterpreter {
    rules: Interpreter,
    caller: WebhookCaller,
}

impl ResourceInterpreter {
    /// Creates an interpreter with these rules. `client` reads the Services of webhooks.
    pub(crate) fn new(rules: Interpreter, client: kube::Client, monitor: Monitor) -> Self {
        Self {
            rules,
            caller: WebhookCaller::new(client, monitor),
        }
    }

    /// Returns the rules, for questions that need no object.
    pub(crate) fn rules(&self) -> &Interpreter {
        &self.rules
    }

    /// Runs a decision, and calls the webhooks that it needs. The decision has to be deterministic.
    pub(crate) async fn interpret<T>(&self, mut decide: impl FnMut(&Interpreter) -> T) -> T {
        if !self.rules.has_webhooks() {
            return decide(&self.rules);
        }
        let answers = Answers::default();
        let rules = self.rules.with_answers(answers.clone());
        let mut runs = 1;
        loop {
            let result = decide(&rules);
            let open = answers.take_open();
            if open.is_empty() || runs == MAX_RUNS {
                return result;
            }
            drop(result);
            let calls = stream::iter(open).map(|request| async {
                let answer = self.caller.call(&request).await;
                (request, answer)
            });
            let mut calls = calls.buffer_unordered(CONCURRENT_CALLS);
            while let Some((request, answer)) = calls.next().await {
                answers.add(request, answer);
            }
            runs += 1;
        }
    }
}
