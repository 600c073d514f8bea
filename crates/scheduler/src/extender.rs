//! HTTP extenders: servers outside the process that filter and score clusters, narrow preemptions and store
//! decisions, as kube-scheduler has them.
//!
//! ```text
//! engine ── would like to know ──> desk ── Wanted ──> service ── spawns ──> ask: one POST for each extender
//!    ^                                                                        │
//!    └──────── desk <── the service decides again <── Answers ────────────────┘
//! ```
//!
//! The engine does not wait. A decision that lacks an answer is thrown away, the extender is asked in a task
//! of its own, and the decision is made again with the answer at hand: filters one after the other, each with
//! what the one before it left; the scores of all extenders at the same time. [`config`] is what is configured
//! and [`wire`] what is said; docs/extenders.md tells users about both.

mod answers;
mod call;
pub mod config;
mod desk;
mod http;
mod metrics;
mod one;
mod points;
mod preempt;
pub mod schema;
mod tls;
pub mod wire;

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use berth_core::Snapshot;
use futures::future::join_all;

use self::desk::Desk;
use self::one::Extender;
use self::points::AtPoints;
use crate::binding::Binding;
use crate::framework::{Plugin, PostFilter};

pub use answers::{Answers, CallError};
pub use config::{ExtenderConfig, ExtenderConfigError};
pub use desk::Wanted;
pub use metrics::ExtenderMetrics;
pub use tls::TlsError;

/// Rounds of questions beyond those that a decision needs where the fleet stands still.
const SPARE_ROUNDS: usize = 8;

/// The extenders of a configuration, in its order. Cheap to clone.
///
/// All profiles share them: decisions are made one after the other, so there is one desk.
#[derive(Clone, Debug)]
pub struct Extenders(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    id: u64,
    all: Vec<Arc<Extender>>,
    desk: Desk,
}

impl Extenders {
    /// The extenders of a configuration; None where it has none. Nothing is connected yet, and none has to
    /// be there yet.
    ///
    /// # Errors
    /// When a field is wrong, or a file of certificates cannot be used.
    pub fn new(
        configs: &[ExtenderConfig],
        metrics: &ExtenderMetrics,
    ) -> Result<Option<Self>, ExtenderConfigError> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        if configs.is_empty() {
            return Ok(None);
        }
        let mut names: BTreeSet<Arc<str>> = BTreeSet::new();
        let mut all = Vec::with_capacity(configs.len());
        for (index, checked) in config::check(configs)?.into_iter().enumerate() {
            let mut name: Arc<str> = checked.prefix.as_str().into();
            if names.contains(&name) {
                name = format!("{name} (extenders[{index}])").into();
            }
            names.insert(Arc::clone(&name));
            let of_extender = metrics.of(&name);
            let extender =
                Extender::new(name, checked, of_extender).map_err(|error| ExtenderConfigError {
                    path: format!("extenders[{index}].tlsConfig"),
                    message: error.to_string(),
                })?;
            all.push(Arc::new(extender));
        }
        Ok(Some(Self(Arc::new(Shared {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            all,
            desk: Desk::default(),
        }))))
    }

    /// The extenders as plugins, for each profile after its own. Their scores have the weight 1 there: that
    /// of the configuration is in them already.
    pub fn plugins(&self) -> Vec<Plugin> {
        let all = self.0.all.iter().enumerate();
        all.map(|(index, extender)| {
            let points = Arc::new(AtPoints {
                index,
                extender: Arc::clone(extender),
                desk: self.0.desk.clone(),
            });
            let mut plugin = Plugin::new(extender.plugin.as_str());
            if extender.filter.is_some() {
                plugin = plugin.filter(points.clone());
            }
            if extender.prioritize.is_some() {
                plugin = plugin.score(points.clone());
            }
            if extender.bind.is_some() {
                plugin = plugin.bind(points);
            }
            if extender.reads_objects() {
                plugin = plugin.reads_objects();
            }
            plugin
        })
        .collect()
    }

    /// A PostFilter plugin whose nominations the extenders narrow; itself where none of them does.
    pub fn narrow(&self, plugin: Arc<dyn PostFilter>) -> Arc<dyn PostFilter> {
        let all = self.0.all.iter().enumerate();
        let extenders: Vec<_> = all
            .filter(|(_, extender)| extender.preempt.is_some())
            .map(|(index, extender)| (index, Arc::clone(extender)))
            .collect();
        if extenders.is_empty() {
            return plugin;
        }
        Arc::new(preempt::Narrowed {
            plugin,
            extenders,
            desk: self.0.desk.clone(),
        })
    }

    /// Makes a decision, PostFilter included, with what was answered for it so far. What it wanted to know
    /// besides comes with it; where that is something, the decision is provisional: [`Self::ask`], and decide
    /// again. The answers of an earlier configuration do not count.
    pub fn decide<T>(
        &self,
        answers: Answers,
        decision: impl FnOnce() -> T,
    ) -> (T, Answers, Option<Wanted>) {
        let answers = if answers.of == self.0.id {
            answers
        } else {
            Answers {
                of: self.0.id,
                ..Answers::default()
            }
        };
        self.0.desk.decide(answers, decision)
    }

    /// Whether a decision with so many affinity terms may still ask. Questions name the clusters that they
    /// are about, so a fleet that changes faster than the extenders answer could make it ask forever.
    pub fn may_ask(&self, answers: &Answers, terms: usize) -> bool {
        answers.rounds < (terms + 1) * (self.0.all.len() + 1) + SPARE_ROUNDS
    }

    /// Asks all that a decision wanted to know, at the same time, and adds the answers to those there are.
    pub fn ask(
        &self,
        wanted: Wanted,
        binding: Arc<Binding>,
        snapshot: Arc<Snapshot>,
        mut answers: Answers,
    ) -> impl Future<Output = Answers> + Send + 'static + use<> {
        let shared = Arc::clone(&self.0);
        async move {
            let calls = wanted.0.into_iter().map(async |asked| {
                let extender = shared.all.get(asked.extender)?;
                let answer = extender.ask(&binding, &snapshot, &asked.question).await;
                Some((asked, answer))
            });
            let given = join_all(calls).await;
            answers.given.extend(given.into_iter().flatten());
            answers.rounds += 1;
            answers
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
