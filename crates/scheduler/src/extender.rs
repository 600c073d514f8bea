//! HTTP extenders: external servers that filter and score clusters, narrow preemptions and store decisions, as
//! kube-scheduler's extenders do.
//!
//! ```text
//! engine ── lookup ──> AnswerCache ── Unanswered ──> scheduler ── task ──> Extenders::call: one POST per extender
//!    ^                                                                          │
//!    └───── AnswerCache <── the scheduler decides again <── Answers ────────────┘
//! ```
//!
//! The engine never waits. A decision that lacks a response is discarded, the extender is called in a task, and the
//! decision is made again with the response: filters in sequence, each with the clusters that the previous one left;
//! scores of all extenders concurrently.
//!
//! - [`config`] holds the configuration and its validation, [`wire`] the protocol, [`schema`] its JSON Schemas.
//! - `client` calls one extender: `messages` encodes and decodes, `http` and `tls` connect.
//! - `plugin` and `post_filter` run extenders at the extension points of the framework.
//!
//! docs/extenders.md is the users' guide. Must not know: the scheduler's task, queue and writes.

mod answer_cache;
mod answers;
mod client;
pub mod config;
#[cfg(fuzzing)]
pub mod fuzzing;
mod http;
mod messages;
mod metrics;
mod plugin;
mod post_filter;
pub mod schema;
mod tls;
pub mod wire;

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use berth_core::Snapshot;
use futures::future::join_all;

use self::answer_cache::AnswerCache;
use self::client::ExtenderClient;
use self::plugin::ExtenderPlugin;
use self::post_filter::NarrowingPostFilter;
use crate::binding::Binding;
use crate::framework::{Plugin, PostFilter};

pub use answer_cache::Unanswered;
pub use answers::{Answers, CallError};
pub use config::{ExtenderConfig, ExtenderConfigError};
pub use metrics::ExtenderMetrics;
pub use tls::TlsError;

/// Rounds of calls beyond those that a decision needs while the fleet does not change.
const SPARE_ROUNDS: usize = 8;

/// The extenders of a configuration, in its order. Cheap to clone.
///
/// All profiles share them. Decisions are serial, so one cache is enough.
#[derive(Clone, Debug)]
pub struct Extenders(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    id: u64,
    clients: Vec<Arc<ExtenderClient>>,
    cache: AnswerCache,
}

impl Extenders {
    /// Validates the configuration and builds the clients; `None` if there are no extenders. Does not connect: an extender
    /// may start later.
    ///
    /// # Errors
    /// If a field is invalid or a certificate file cannot be used.
    pub fn new(
        configs: &[ExtenderConfig],
        metrics: &ExtenderMetrics,
    ) -> Result<Option<Self>, ExtenderConfigError> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        if configs.is_empty() {
            return Ok(None);
        }
        let mut names: BTreeSet<Arc<str>> = BTreeSet::new();
        let mut clients = Vec::with_capacity(configs.len());
        for (index, validated) in config::validate(configs)?.into_iter().enumerate() {
            let mut name: Arc<str> = validated.prefix.as_str().into();
            if names.contains(&name) {
                name = format!("{name} (extenders[{index}])").into();
            }
            names.insert(Arc::clone(&name));
            let counters = metrics.counters(&name);
            let client = ExtenderClient::new(name, validated, counters).map_err(|error| {
                ExtenderConfigError {
                    path: format!("extenders[{index}].tlsConfig"),
                    message: error.to_string(),
                }
            })?;
            clients.push(Arc::new(client));
        }
        Ok(Some(Self(Arc::new(Shared {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            clients,
            cache: AnswerCache::default(),
        }))))
    }

    /// Returns the extenders as plugins, which follow the plugins of each profile. Their score weight is 1: the weight of
    /// the configuration is part of the scores.
    pub fn plugins(&self) -> Vec<Plugin> {
        let clients = self.0.clients.iter().enumerate();
        clients
            .map(|(index, client)| {
                let point = Arc::new(ExtenderPlugin {
                    index,
                    client: Arc::clone(client),
                    cache: self.0.cache.clone(),
                });
                let mut plugin = Plugin::new(client.plugin.as_str());
                if client.filter.is_some() {
                    plugin = plugin.filter(point.clone());
                }
                if client.prioritize.is_some() {
                    plugin = plugin.score(point.clone());
                }
                if client.bind.is_some() {
                    plugin = plugin.bind(point);
                }
                if client.reads_objects() {
                    plugin = plugin.reads_objects();
                }
                plugin
            })
            .collect()
    }

    /// Wraps a PostFilter plugin so that extenders narrow its nominations. Returns it unchanged if no extender has a preempt
    /// verb.
    pub fn narrow(&self, plugin: Arc<dyn PostFilter>) -> Arc<dyn PostFilter> {
        let clients = self.0.clients.iter().enumerate();
        let clients: Vec<_> = clients
            .filter(|(_, client)| client.preempt.is_some())
            .map(|(index, client)| (index, Arc::clone(client)))
            .collect();
        if clients.is_empty() {
            return plugin;
        }
        Arc::new(NarrowingPostFilter {
            plugin,
            clients,
            cache: self.0.cache.clone(),
        })
    }

    /// Makes a decision, PostFilter included, with the answers so far. If lookups remain unanswered, the decision is
    /// provisional: [`Self::call`] the extenders and decide again. Answers for another configuration are dropped.
    pub fn decide<T>(
        &self,
        answers: Answers,
        decision: impl FnOnce() -> T,
    ) -> (T, Answers, Option<Unanswered>) {
        let answers = if answers.extenders == self.0.id {
            answers
        } else {
            Answers {
                extenders: self.0.id,
                ..Answers::default()
            }
        };
        self.0.cache.decide(answers, decision)
    }

    /// Reports whether a decision with this many affinity terms may call again. Requests name clusters, so a fleet that
    /// changes faster than the extenders respond could otherwise need more calls forever.
    pub fn may_call(&self, answers: &Answers, terms: usize) -> bool {
        answers.rounds < (terms + 1) * (self.0.clients.len() + 1) + SPARE_ROUNDS
    }

    /// Sends all unanswered requests concurrently and adds the answers.
    pub fn call(
        &self,
        unanswered: Unanswered,
        binding: Arc<Binding>,
        snapshot: Arc<Snapshot>,
        mut answers: Answers,
    ) -> impl Future<Output = Answers> + Send + 'static + use<> {
        let shared = Arc::clone(&self.0);
        async move {
            let calls = unanswered.0.into_iter().map(async |query| {
                let client = shared.clients.get(query.extender)?;
                let answer = client.call(&binding, &snapshot, &query.request).await;
                Some((query, answer))
            });
            let fresh = join_all(calls).await;
            answers.by_query.extend(fresh.into_iter().flatten());
            answers.rounds += 1;
            answers
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
