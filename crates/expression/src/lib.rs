//! Filters and scores of clusters as CEL expressions, for the scheduler's plugin `Expression`.
//!
//! The expressions are parsed and checked when the configuration is loaded. The scheduler evaluates them with the
//! Cluster and binding objects, and with the scores that other programs report in ClusterScores.
//!
//! - `args` has the arguments of the plugin. This module has the plugin itself.
//! - `program` parses and compiles an expression. `check` and `variables` find unknown fields and wrong types.
//!   `source_position` finds the positions of errors. `budget` has the limits of an evaluation.
//! - `objects` converts objects to CEL values. `cluster_cache` keeps the converted clusters, and the results of
//!   expressions that do not read the binding.
//!
//! This crate must not know clients, runtimes or the scheduler service. It uses only the plugin traits of `berth-engine`.

mod args;
mod budget;
mod check;
mod cluster_cache;
mod objects;
mod program;
mod source_position;
#[cfg(test)]
mod tests;
mod variables;

use std::cell::RefCell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use berth_api::cluster_score::{ClusterScores, ScoreState};
use berth_cel::{Exceeded, Failure, Scope, Value, Variables};
use berth_engine::{
    AttemptContext, BindingContext, BindingFilter, Bits, ClusterView, CycleState, PluginError,
    PreFilter, PreFilterResult, Reason, Score, Scores,
};
use k8s_openapi::jiff::Timestamp;

use self::budget::{Budget, MAX_BYTES, MAX_ITERATIONS, MAX_TIME};
use self::check::{Paths, ReadScores};
use self::cluster_cache::{CachedCluster, ClusterCache};
use self::program::Program;
use self::variables::Kind;

pub use args::{ExpressionArgs, FilterArgs, ScoreArgs};

/// An invalid expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct ExpressionError {
    /// The path of the expression in the arguments, for example `filter[1].expression`. The path is empty if the error
    /// concerns all arguments.
    pub path: String,
    /// The cause, with the position in the expression.
    pub message: String,
}

/// The plugin `Expression` with the filter and score expressions of one profile.
#[derive(Debug)]
pub struct Expression {
    filter: Vec<FilterExpression>,
    score: Vec<ScoreExpression>,
    cluster_paths: Paths,
    binding_paths: Paths,
    clusters: Mutex<ClusterCache>,
}

/// A condition that clusters must satisfy.
#[derive(Debug)]
struct FilterExpression {
    program: Program,
    /// The message for clusters that do not satisfy the condition.
    message: Arc<str>,
}

/// A number that is added to a cluster's score.
#[derive(Debug)]
struct ScoreExpression {
    program: Program,
    weight: i64,
    default: Option<i64>,
}

/// The variable `binding`. PreFilter converts it once for the whole scheduling cycle.
struct BindingVariables(RefCell<Variables>);

/// A failed evaluation.
enum EvaluationError {
    /// The evaluation failed for one cluster.
    Cluster(String),
    /// The expressions took too long, so the decision fails.
    Decision(PluginError),
}

impl Expression {
    /// The plugin's name.
    pub const NAME: &'static str = "Expression";

    /// Creates the plugin: parses and checks the expressions.
    ///
    /// # Errors
    /// If an expression is invalid.
    pub fn new(args: ExpressionArgs) -> Result<Self, ExpressionError> {
        if args.filter.is_empty() && args.score.is_empty() {
            return Err(ExpressionError {
                path: String::new(),
                message: "there is no expression: add one to filter or score".into(),
            });
        }
        let parse = |list: &str, index: usize, source: &str, kind: Kind| {
            Program::parse(source, kind).map_err(|error| ExpressionError {
                path: format!("{list}[{index}].expression"),
                message: error.to_string(),
            })
        };
        let mut plugin = Self {
            filter: Vec::new(),
            score: Vec::new(),
            cluster_paths: Paths::default(),
            binding_paths: Paths::default(),
            clusters: Mutex::default(),
        };
        for (index, filter) in args.filter.into_iter().enumerate() {
            let program = parse("filter", index, &filter.expression, Kind::Bool)?;
            plugin.add_paths(&program);
            let message = filter.message.filter(|message| !message.trim().is_empty());
            let message = message.unwrap_or_else(|| {
                format!(
                    "cluster(s) did not satisfy the expression {:?}",
                    program.source
                )
            });
            plugin.filter.push(FilterExpression {
                program,
                message: message.into(),
            });
        }
        for (index, score) in args.score.into_iter().enumerate() {
            let program = parse("score", index, &score.expression, Kind::Number)?;
            plugin.add_paths(&program);
            plugin.score.push(ScoreExpression {
                program,
                weight: score.weight.get().into(),
                default: score.default,
            });
        }
        Ok(plugin)
    }

    fn add_paths(&mut self, program: &Program) {
        let reads = program.reads.clone();
        self.cluster_paths.0.extend(reads.cluster.0);
        self.binding_paths.0.extend(reads.binding.0);
    }

    /// Reports whether an expression reads the binding. In this case, the plugin converts the binding once in
    /// PreFilter.
    pub fn reads_binding(&self) -> bool {
        !self.binding_paths.is_empty()
    }

    /// Reports whether an expression reads scores of ClusterScores.
    pub fn reads_scores(&self) -> bool {
        !matches!(self.cluster_paths.scores(), ReadScores::Named(names) if names.is_empty())
    }

    /// Describes the scores of a cluster that the expressions read.
    fn describe_scores(&self, now: Timestamp, cluster: &ClusterView<'_>) -> Vec<String> {
        let none = ClusterScores::default();
        let scores = cluster.scores().map_or(&none, |scores| &**scores);
        let names = match self.cluster_paths.scores() {
            ReadScores::Named(names) => names,
            ReadScores::All => scores.names(),
        };
        let describe = |name: &str| match scores.state(name, now) {
            ScoreState::Valid(score) => format!(
                "score {name} is {}, {}s old, in ClusterScore {}",
                score.value,
                score.age_seconds(now),
                score.object
            ),
            ScoreState::Expired(score, until) => {
                format!(
                    "score {name} in ClusterScore {} expired at {until}",
                    score.object
                )
            }
            ScoreState::Missing => format!("score {name} is missing: no ClusterScore has it"),
        };
        names.into_iter().map(describe).collect()
    }

    /// Reports whether the plugin has filter expressions.
    pub fn filters(&self) -> bool {
        !self.filter.is_empty()
    }

    /// Reports whether the plugin has score expressions.
    pub fn scores(&self) -> bool {
        !self.score.is_empty()
    }

    /// Locks the cache. The engine catches panics of the plugin, and the cache is consistent after a panic.
    fn clusters(&self) -> MutexGuard<'_, ClusterCache> {
        self.clusters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `then` with the variables of the binding.
    fn with_binding<T>(
        &self,
        context: &BindingContext<'_>,
        then: impl FnOnce(&mut Variables) -> Result<T, PluginError>,
    ) -> Result<T, PluginError> {
        match context.state().get::<BindingVariables>() {
            Some(variables) => then(&mut variables.0.borrow_mut()),
            // The profile does not enable the plugin at PreFilter, so the binding is converted here.
            None => then(&mut self.variables(&context.attempt())?),
        }
    }

    fn variables(&self, context: &AttemptContext<'_>) -> Result<Variables, PluginError> {
        objects::binding(context.request().object(), &self.binding_paths)
            .map_err(PluginError::failed)
    }

    /// Evaluates the filters for a cluster. The inner error is the reason why the cluster does not pass.
    fn evaluate_filters(
        &self,
        budget: Budget,
        cluster: &mut CachedCluster,
        binding: &mut Variables,
    ) -> Result<Result<(), Arc<str>>, PluginError> {
        for (index, filter) in self.filter.iter().enumerate() {
            let passes = if let Some(passes) = cluster.filter.get(&index) {
                passes.clone()
            } else {
                let passes = match evaluate(budget, &filter.program, &cluster.scope, binding) {
                    Ok(Value::Bool(true)) => Ok(()),
                    Ok(Value::Bool(false)) => Err(Arc::clone(&filter.message)),
                    Ok(_) => Err(failed(&filter.program, "the value is not a bool").into()),
                    Err(EvaluationError::Cluster(error)) => Err(error.into()),
                    Err(EvaluationError::Decision(error)) => return Err(error),
                };
                if filter.program.reads.binding.is_empty() {
                    cluster.filter.insert(index, passes.clone());
                }
                passes
            };
            if passes.is_err() {
                return Ok(passes);
            }
        }
        Ok(Ok(()))
    }

    /// Evaluates the scores of a cluster, and returns the weighted sum.
    fn evaluate_scores(
        &self,
        budget: Budget,
        name: &str,
        cluster: &mut CachedCluster,
        binding: &mut Variables,
    ) -> Result<i64, PluginError> {
        let mut sum: i64 = 0;
        for (index, expression) in self.score.iter().enumerate() {
            let score = if let Some(score) = cluster.score.get(&index) {
                score.clone()
            } else {
                let score = match evaluate(budget, &expression.program, &cluster.scope, binding) {
                    Ok(value) => rounded(&value).ok_or_else(|| {
                        failed(&expression.program, "the value is not a number").into()
                    }),
                    Err(EvaluationError::Cluster(error)) => Err(error.into()),
                    Err(EvaluationError::Decision(error)) => return Err(error),
                };
                if expression.program.reads.binding.is_empty() {
                    cluster.score.insert(index, score.clone());
                }
                score
            };
            let score = match (score, expression.default) {
                (Ok(score), _) | (Err(_), Some(score)) => score,
                (Err(error), None) => {
                    return Err(PluginError::failed(format!("cluster {name}: {error}")));
                }
            };
            sum = sum.saturating_add(score.saturating_mul(expression.weight));
        }
        Ok(sum)
    }
}

impl PreFilter for Expression {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn pre_filter(
        &self,
        context: &AttemptContext<'_>,
        state: &mut CycleState,
    ) -> Result<PreFilterResult, PluginError> {
        state.insert(BindingVariables(RefCell::new(self.variables(context)?)));
        Ok(PreFilterResult::All)
    }
}

impl BindingFilter for Expression {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn check(&self, context: &BindingContext<'_>, cluster: &ClusterView<'_>) -> Result<(), Reason> {
        let mut cache = self.clusters();
        let budget = cache.reasons_budget();
        let cached = cache.get(cluster, &self.cluster_paths, context.request().time())?;
        let passes = self.with_binding(context, |binding| {
            self.evaluate_filters(budget, cached, binding)
        });
        match passes {
            Ok(Ok(())) => Ok(()),
            Ok(Err(reason)) => Err(reason.to_string().into()),
            Err(error) => Err(error.to_string().into()),
        }
    }

    fn inputs(&self, context: &BindingContext<'_>, cluster: &ClusterView<'_>) -> Vec<String> {
        self.describe_scores(context.request().time(), cluster)
    }

    fn restrict(
        &self,
        context: &BindingContext<'_>,
        _current: &Bits,
        candidates: &mut Bits,
    ) -> Result<(), PluginError> {
        let (snapshot, budget) = (context.snapshot(), Budget::begin());
        let mut cache = self.clusters();
        cache.begin_cycle();
        cache.drop_removed(snapshot.len());
        let rejected = self.with_binding(context, |binding| {
            let mut rejected = Vec::new();
            for ordinal in candidates.iter() {
                let Some(cluster) = snapshot.cluster(ordinal) else {
                    continue;
                };
                let cached = cache
                    .get(&cluster, &self.cluster_paths, context.request().time())
                    .map_err(PluginError::failed)?;
                if self.evaluate_filters(budget, cached, binding)?.is_err() {
                    rejected.push(ordinal);
                }
            }
            Ok(rejected)
        })?;
        for ordinal in rejected {
            candidates.remove(ordinal);
        }
        Ok(())
    }
}

impl Score for Expression {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn score(
        &self,
        context: &BindingContext<'_>,
        cluster: &ClusterView<'_>,
    ) -> Result<i64, PluginError> {
        let mut cache = self.clusters();
        let cached = cache
            .get(cluster, &self.cluster_paths, context.request().time())
            .map_err(PluginError::failed)?;
        self.with_binding(context, |binding| {
            self.evaluate_scores(Budget::begin(), cluster.name(), cached, binding)
        })
    }

    fn inputs(&self, context: &BindingContext<'_>, cluster: &ClusterView<'_>) -> Vec<String> {
        self.describe_scores(context.request().time(), cluster)
    }

    fn score_fleet(
        &self,
        context: &BindingContext<'_>,
        scores: &mut Scores<'_>,
    ) -> Result<(), PluginError> {
        let (snapshot, budget) = (context.snapshot(), Budget::begin());
        let mut cache = self.clusters();
        cache.drop_removed(snapshot.len());
        self.with_binding(context, |binding| {
            for index in 0..scores.candidates().len() {
                let candidate = scores.candidates().get(index);
                let ordinal = candidate.map(|candidate| candidate.ordinal);
                let Some(cluster) = ordinal.and_then(|ordinal| snapshot.cluster(ordinal)) else {
                    continue;
                };
                let cached = cache
                    .get(&cluster, &self.cluster_paths, context.request().time())
                    .map_err(PluginError::failed)?;
                let score = self.evaluate_scores(budget, cluster.name(), cached, binding)?;
                scores.add(index, score);
            }
            Ok(())
        })
    }
}

/// Evaluates an expression for a cluster and a binding. The binding's variables are moved into the scope and back,
/// because copies are expensive.
fn evaluate(
    budget: Budget,
    program: &Program,
    cluster: &Scope<'static>,
    binding: &mut Variables,
) -> Result<Value, EvaluationError> {
    let scope = cluster.with(std::mem::take(binding));
    let result = budget.run(&program.compiled, &scope);
    *binding = scope.into_variables();
    match result {
        Ok(value) => Ok(value),
        Err(Failure::Error(error)) => Err(EvaluationError::Cluster(failed(program, &error))),
        Err(Failure::Exceeded(Exceeded::Steps)) => {
            let error = format!("its loops took more than {MAX_ITERATIONS} iterations");
            Err(EvaluationError::Cluster(failed(program, &error)))
        }
        Err(Failure::Exceeded(Exceeded::Bytes)) => {
            let error = format!("its values took more than {} MiB", MAX_BYTES >> 20);
            Err(EvaluationError::Cluster(failed(program, &error)))
        }
        Err(Failure::Exceeded(Exceeded::Time)) => {
            Err(EvaluationError::Decision(PluginError::failed(format!(
                "the expressions took longer than {MAX_TIME:?} at one extension point, in {:?}",
                program.source
            ))))
        }
    }
}

fn failed(program: &Program, error: &str) -> String {
    format!("the expression {:?} failed: {error}", program.source)
}

/// Rounds a value to an integer. Returns `None` if the value is not a finite number.
fn rounded(value: &Value) -> Option<i64> {
    match *value {
        Value::Int(number) => Some(number),
        Value::UInt(number) => Some(i64::try_from(number).unwrap_or(i64::MAX)),
        #[expect(
            clippy::cast_possible_truncation,
            reason = "saturates at the bounds of i64"
        )]
        Value::Float(number) if number.is_finite() => Some(number.round() as i64),
        _ => None,
    }
}
