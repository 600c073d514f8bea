//! The resource interpreter of a controller: repeats the controller's decision until all interpreter webhooks that the
//! decision needs have answered. `interpreter_webhooks` calls them.
//!
//! The operations of [`Interpreter`] are functions over JSON and call no webhook themselves. A controller passes its
//! decision, which uses these operations, as a closure. The closure runs, the webhooks that the run needs are called,
//! and the closure runs again with their responses, until a run needs no further webhook.

use berth_component_base::blocking::without_blocking_the_runtime;
use berth_interpreter::{Answers, Interpreter};
use futures::StreamExt as _;
use futures::stream;

use crate::interpreter_webhooks::WebhookCaller;
use crate::monitor::Monitor;

/// Maximum number of simultaneous webhook calls for one decision.
const CONCURRENT_CALLS: usize = 8;
/// Maximum number of runs of one decision. Few requests of a decision depend on the responses to its other requests.
const MAX_RUNS: usize = 8;

/// The resource interpreter of a controller. Clones are cheap.
#[derive(Clone, Debug)]
pub(crate) struct ResourceInterpreter {
    rules: Interpreter,
    caller: WebhookCaller,
}

impl ResourceInterpreter {
    /// Creates an interpreter with these rules. `client` reads the Services that webhooks refer to.
    pub(crate) fn new(rules: Interpreter, client: kube::Client, monitor: Monitor) -> Self {
        Self {
            rules,
            caller: WebhookCaller::new(client, monitor),
        }
    }

    /// Returns the rules, for operations that need no webhook.
    pub(crate) fn rules(&self) -> &Interpreter {
        &self.rules
    }

    /// Runs a decision, and calls the webhooks that it needs. The decision must be deterministic. It may wait for scripts,
    /// which run on threads of their own.
    pub(crate) async fn interpret<T>(&self, mut decide: impl FnMut(&Interpreter) -> T) -> T {
        let has_scripts = self.rules.has_scripts();
        let mut decide = |rules: &Interpreter| {
            if has_scripts {
                without_blocking_the_runtime(|| decide(rules))
            } else {
                decide(rules)
            }
        };
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
