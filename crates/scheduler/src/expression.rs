//! The plugin `Expression`: filters and scores written in CEL, in the configuration instead of in Rust.
//!
//! Expressions are parsed, checked and bounded when the configuration is loaded, and evaluated over the objects of
//! the cluster and of the binding. It is a plugin as any other: it sees what the framework shows to all.

mod args;
mod check;
mod fleet;
mod functions;
mod objects;
mod place;
mod program;
#[cfg(test)]
mod tests;
mod turns;
mod variables;

use std::cell::RefCell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use berth_core::{
    BindingContext, BindingFilter, Bits, ClusterView, CycleContext, CycleState, PluginError,
    PreFilter, PreFilterResult, Reason, Score, Scores,
};
use kube_cel::cel::{Context, ExecutionError, Value};

use self::args::ExpressionArgs;
use self::check::Paths;
use self::fleet::{Known, KnownCluster};
use self::functions::{Bound, MAX_TIME, MAX_TURNS, Pass};
use self::objects::Variables;
use self::program::Program;
use self::variables::Kind;
use crate::framework::args::{Args, ArgsError};
use crate::framework::events::{EventKind, Registration};
use crate::framework::handle::Handle;
use crate::framework::plugin::Plugin;
use crate::framework::registry::FactoryError;

/// Filters and scores of the configuration.
#[derive(Debug)]
pub struct Expression {
    filter: Vec<Condition>,
    score: Vec<Preference>,
    reads_cluster: Paths,
    reads_binding: Paths,
    known: Mutex<Known>,
}

/// A cluster has to satisfy it.
#[derive(Debug)]
struct Condition {
    program: Program,
    /// What is said where it is false.
    message: Arc<str>,
}

/// A number, the higher the better.
#[derive(Debug)]
struct Preference {
    program: Program,
    weight: i64,
    default: Option<i64>,
}

/// The binding as expressions see it, from PreFilter on.
struct BindingVariables(RefCell<Variables>);

/// Why there is no value.
enum NoValue {
    /// For this cluster.
    Here(String),
    /// For no cluster any more: the decision has taken too long.
    Nowhere(PluginError),
}

impl Expression {
    /// The plugin's name.
    pub const NAME: &'static str = "Expression";

    /// The plugin of these arguments.
    ///
    /// # Errors
    /// When an expression cannot be evaluated, whatever the objects are; the error says which one and where.
    pub fn plugin(args: &Args, _: &Handle) -> Result<Plugin, FactoryError> {
        Ok(Self::new(args)?.into_plugin())
    }

    /// Reads the expressions of these arguments.
    ///
    /// # Errors
    /// As [`Self::plugin`].
    pub fn new(args: &Args) -> Result<Self, ArgsError> {
        let args: ExpressionArgs = args.parse_required()?;
        if args.filter.is_empty() && args.score.is_empty() {
            return Err(ArgsError {
                path: String::new(),
                message: "there is no expression: give some in filter or score".into(),
            });
        }
        let parse = |list: &str, index: usize, source: &str, kind: Kind| {
            Program::parse(source, kind).map_err(|error| ArgsError {
                path: format!("{list}[{index}].expression"),
                message: error.to_string(),
            })
        };
        let mut plugin = Self {
            filter: Vec::new(),
            score: Vec::new(),
            reads_cluster: Paths::default(),
            reads_binding: Paths::default(),
            known: Mutex::default(),
        };
        for (index, one) in args.filter.into_iter().enumerate() {
            let program = parse("filter", index, &one.expression, Kind::Bool)?;
            plugin.note(&program);
            let message = one.message.filter(|message| !message.trim().is_empty());
            let message = message.unwrap_or_else(|| {
                format!(
                    "cluster(s) did not satisfy the expression {:?}",
                    program.source
                )
            });
            plugin.filter.push(Condition {
                program,
                message: message.into(),
            });
        }
        for (index, one) in args.score.into_iter().enumerate() {
            let program = parse("score", index, &one.expression, Kind::Number)?;
            plugin.note(&program);
            plugin.score.push(Preference {
                program,
                weight: one.weight.get().into(),
                default: one.default,
            });
        }
        Ok(plugin)
    }

    fn note(&mut self, program: &Program) {
        let uses = program.uses.clone();
        self.reads_cluster.0.extend(uses.cluster.0);
        self.reads_binding.0.extend(uses.binding.0);
    }

    fn into_plugin(self) -> Plugin {
        let this = Arc::new(self);
        let mut plugin = Plugin::new(Self::NAME)
            .reads_objects()
            .wakes_on(Registration::any(EventKind::Cluster));
        if !this.reads_binding.is_empty() {
            plugin = plugin.pre_filter(this.clone());
        }
        if !this.filter.is_empty() {
            plugin = plugin.filter(this.clone());
        }
        if !this.score.is_empty() {
            plugin = plugin.score(this);
        }
        plugin
    }

    /// A plugin that panics is caught by the engine; what it knew of clusters is whole even then.
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with the variables of the binding.
    fn with_binding<T>(
        &self,
        context: &BindingContext<'_>,
        then: impl FnOnce(&mut Variables) -> Result<T, PluginError>,
    ) -> Result<T, PluginError> {
        match context.state().get::<BindingVariables>() {
            Some(variables) => then(&mut variables.0.borrow_mut()),
            // The profile has this plugin at some points only.
            None => then(&mut self.variables(&context.cycle())?),
        }
    }

    fn variables(&self, context: &CycleContext<'_>) -> Result<Variables, PluginError> {
        objects::binding(context.request().object(), &self.reads_binding)
            .map_err(PluginError::failed)
    }

    /// Whether a cluster passes, and if not, why.
    fn verdict(
        &self,
        pass: Pass,
        known: &mut KnownCluster,
        binding: &mut Variables,
    ) -> Result<Result<(), Arc<str>>, PluginError> {
        for (index, condition) in self.filter.iter().enumerate() {
            let passes = if let Some(passes) = known.filter.get(&index) {
                passes.clone()
            } else {
                let passes = match run(pass, &condition.program, &known.scope, binding) {
                    Ok(Value::Bool(true)) => Ok(()),
                    Ok(Value::Bool(false)) => Err(Arc::clone(&condition.message)),
                    Ok(_) => Err(failed(&condition.program, "the value is no bool").into()),
                    Err(NoValue::Here(error)) => Err(error.into()),
                    Err(NoValue::Nowhere(error)) => return Err(error),
                };
                if condition.program.uses.binding.is_empty() {
                    known.filter.insert(index, passes.clone());
                }
                passes
            };
            if passes.is_err() {
                return Ok(passes);
            }
        }
        Ok(Ok(()))
    }

    /// The score of a cluster.
    fn points(
        &self,
        pass: Pass,
        name: &str,
        known: &mut KnownCluster,
        binding: &mut Variables,
    ) -> Result<i64, PluginError> {
        let mut sum: i64 = 0;
        for (index, preference) in self.score.iter().enumerate() {
            let points = if let Some(points) = known.score.get(&index) {
                points.clone()
            } else {
                let points = match run(pass, &preference.program, &known.scope, binding) {
                    Ok(value) => number(&value).ok_or_else(|| {
                        failed(&preference.program, "the value is no number").into()
                    }),
                    Err(NoValue::Here(error)) => Err(error.into()),
                    Err(NoValue::Nowhere(error)) => return Err(error),
                };
                if preference.program.uses.binding.is_empty() {
                    known.score.insert(index, points.clone());
                }
                points
            };
            let points = match (points, preference.default) {
                (Ok(points), _) | (Err(_), Some(points)) => points,
                (Err(error), None) => {
                    return Err(PluginError::failed(format!("cluster {name}: {error}")));
                }
            };
            sum = sum.saturating_add(points.saturating_mul(preference.weight));
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
        context: &CycleContext<'_>,
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
        let mut all = self.known();
        let pass = all.reasons();
        let known = all.of(cluster, &self.reads_cluster)?;
        let verdict = self.with_binding(context, |binding| self.verdict(pass, known, binding));
        match verdict {
            Ok(Ok(())) => Ok(()),
            Ok(Err(reason)) => Err(reason.to_string().into()),
            Err(error) => Err(error.to_string().into()),
        }
    }

    fn restrict(
        &self,
        context: &BindingContext<'_>,
        _prior: &Bits,
        candidates: &mut Bits,
    ) -> Result<(), PluginError> {
        let (snapshot, pass) = (context.snapshot(), Pass::begin());
        let mut all = self.known();
        all.begin_cycle();
        all.tidy(snapshot.len());
        let refused = self.with_binding(context, |binding| {
            let mut refused = Vec::new();
            for ordinal in candidates.iter() {
                let Some(cluster) = snapshot.cluster(ordinal) else {
                    continue;
                };
                let known = all
                    .of(&cluster, &self.reads_cluster)
                    .map_err(PluginError::failed)?;
                if self.verdict(pass, known, binding)?.is_err() {
                    refused.push(ordinal);
                }
            }
            Ok(refused)
        })?;
        for ordinal in refused {
            candidates.set(ordinal, false);
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
        let mut all = self.known();
        let known = all
            .of(cluster, &self.reads_cluster)
            .map_err(PluginError::failed)?;
        self.with_binding(context, |binding| {
            self.points(Pass::begin(), cluster.name(), known, binding)
        })
    }

    fn score_fleet(
        &self,
        context: &BindingContext<'_>,
        scores: &mut Scores<'_>,
    ) -> Result<(), PluginError> {
        let (snapshot, pass) = (context.snapshot(), Pass::begin());
        let mut all = self.known();
        all.tidy(snapshot.len());
        self.with_binding(context, |binding| {
            for place in 0..scores.candidates().len() {
                let candidate = scores.candidates().get(place);
                let Some(cluster) = candidate.and_then(|one| snapshot.cluster(one.ordinal)) else {
                    continue;
                };
                let known = all
                    .of(&cluster, &self.reads_cluster)
                    .map_err(PluginError::failed)?;
                scores.add(place, self.points(pass, cluster.name(), known, binding)?);
            }
            Ok(())
        })
    }
}

/// Evaluates for a cluster and a binding. The variables of the binding are lent, not copied.
fn run(
    pass: Pass,
    program: &Program,
    cluster: &Context<'static>,
    binding: &mut Variables,
) -> Result<Value, NoValue> {
    let mut scope = Context::Child {
        parent: cluster,
        variables: std::mem::take(binding),
        resolver: None,
    };
    let result = pass.run(&program.root, &scope);
    if let Context::Child { variables, .. } = &mut scope {
        std::mem::swap(binding, variables);
    }
    match result {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(NoValue::Here(failed(program, &wording(&error)))),
        Err(Bound::Turns) => {
            let error = format!("more than {MAX_TURNS} turns of its loops were needed");
            Err(NoValue::Here(failed(program, &error)))
        }
        Err(Bound::Time) => Err(NoValue::Nowhere(PluginError::failed(format!(
            "the expressions took longer than {MAX_TIME:?} for one decision, at {:?}",
            program.source
        )))),
    }
}

fn failed(program: &Program, error: &str) -> String {
    format!("the expression {:?} failed: {error}", program.source)
}

/// The nearest whole number.
fn number(value: &Value) -> Option<i64> {
    match *value {
        Value::Int(number) => Some(number),
        Value::UInt(number) => Some(i64::try_from(number).unwrap_or(i64::MAX)),
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the nearest i64 is what is wanted"
        )]
        Value::Float(number) if number.is_finite() => Some(number.round() as i64),
        _ => None,
    }
}

/// In the words of Kubernetes.
fn wording(error: &ExecutionError) -> String {
    match error {
        ExecutionError::NoSuchKey(key) => format!("no such key: {key}"),
        ExecutionError::IndexOutOfBounds(Value::Int(at)) => format!("index out of bounds: {at}"),
        ExecutionError::DivisionByZero(_) => "division by zero".to_owned(),
        ExecutionError::RemainderByZero(_) => "modulus by zero".to_owned(),
        ExecutionError::Overflow(..) => "integer overflow".to_owned(),
        ExecutionError::MissingArgumentOrTarget => {
            "an argument of a function is not there".to_owned()
        }
        ExecutionError::FunctionError { message, .. } => message.clone(),
        _ => "no such overload".to_owned(),
    }
}
