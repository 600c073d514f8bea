//! HTTP extenders: external servers that take part in decisions, as kube-scheduler's extenders do. An extender filters
//! clusters, scores clusters, permits or spares the victims of preemptions, or stores decisions.
//!
//! ```text
//! engine ── lookup ──> AnswerCache ── Unanswered ──> scheduler ── task ──> Extenders::call: one POST per extender
//!    ^                                                                          │
//!    └───── AnswerCache <── the scheduler decides again <── Answers ────────────┘
//! ```
//!
//! The decision engine is synchronous and never waits for an extender. If a decision needs the response of an extender
//! and has none, the scheduler discards the decision, calls the extender in a task, and decides again with the
//! response. Filter requests are sent one after the other, because each filter request contains only the clusters that
//! passed the previous extender. The prioritize requests of all extenders are sent concurrently.
//!
//! - [`config`] contains the configuration and its validation, [`wire`] the protocol, and `schema` the JSON Schemas
//!   of the protocol.
//! - `client` calls one extender. `messages` encodes requests and decodes responses. `http` connects to the extender.
//! - `plugin` and `post_filter` run extenders at the extension points of the framework.
//!
//! docs/extenders.md is the users' guide. This module must not use the scheduler's task, queue or writer.

mod answer_cache;
mod answers;
mod client;
pub(crate) mod config;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod http;
mod messages;
mod metrics;
mod plugin;
mod post_filter;
#[cfg(test)]
mod schema;
pub(crate) mod wire;

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use berth_api::Binding;
use berth_engine::Snapshot;
use futures::future::join_all;

use self::answer_cache::AnswerCache;
use self::client::ExtenderClient;
use self::plugin::ExtenderPlugin;
use self::post_filter::NarrowingPostFilter;
use crate::framework::{Plugin, PostFilter};

pub(crate) use answer_cache::Unanswered;
pub(crate) use answers::Answers;
use config::{ExtenderConfig, ExtenderConfigError};
pub(crate) use metrics::ExtenderMetrics;

/// Number of additional rounds of calls that a decision may use because clusters change. In a round, extenders are
/// called concurrently.
const SPARE_ROUNDS: usize = 8;

/// The extenders of a configuration, in the order of the configuration. Clones are cheap.
///
/// All profiles share the extenders and one answer cache. One cache is enough, because the scheduler makes one decision
/// at a time.
#[derive(Clone, Debug)]
pub(crate) struct Extenders(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    id: u64,
    clients: Vec<Arc<ExtenderClient>>,
    cache: AnswerCache,
}

impl Extenders {
    /// Validates the configuration and creates a client for each extender. Returns `None` if no extender is configured.
    /// Opens no connection, so an extender may start later.
    ///
    /// # Errors
    /// If a field is invalid or a certificate file cannot be used.
    pub(crate) fn new(
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
            let client =
                ExtenderClient::new(name, validated, configs.len(), counters).map_err(|error| {
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

    /// Returns one plugin for each extender. These plugins run after the other plugins of each profile. Their score
    /// weight is 1, because the scores are already multiplied by the weight from the configuration.
    pub(crate) fn plugins(&self) -> Vec<Plugin> {
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

    /// Wraps a PostFilter plugin so that its victims need the permission of the extenders. Returns the plugin unchanged
    /// if no extender has a preempt verb.
    pub(crate) fn narrow(&self, plugin: Arc<dyn PostFilter>) -> Arc<dyn PostFilter> {
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

    /// Runs `decision`, which includes PostFilter, with the answers that are known so far. Answers from the extenders
    /// of another configuration are discarded.
    ///
    /// If [`Unanswered`] requests are returned, the decision is provisional: the caller sends the requests with
    /// [`Self::call`], and decides again with the answers.
    pub(crate) fn decide<T>(
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

    /// Reports whether a decision with this number of affinity terms may call extenders again. The limit is necessary
    /// because a request contains the current clusters. If clusters change faster than the extenders respond, every
    /// repeated decision needs new requests.
    pub(crate) fn may_call(&self, answers: &Answers, terms: usize) -> bool {
        answers.rounds < (terms + 1) * (self.0.clients.len() + 1) + SPARE_ROUNDS
    }

    /// Sends all unanswered requests concurrently. Returns `answers` with the new answers added.
    pub(crate) fn call(
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
