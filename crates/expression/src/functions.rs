//! The functions of expressions, and the limits of an evaluation. Each loop iteration calls [`COUNT_ITERATION`], which
//! checks the limits.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use berth_cel::metering::{self, Charge};
use kube_cel::KubeCelExt;
use kube_cel::cel::common::ast::{CallExpr, Expr};
use kube_cel::cel::extractors::This;
use kube_cel::cel::{Context, ExecutionError, IdedExpr, Value};

/// Maximum number of loop iterations in one evaluation.
pub(crate) const MAX_ITERATIONS: u32 = 10_000;
/// Maximum size of all values that one evaluation creates or copies, in bytes.
pub(crate) const MAX_BYTES: u64 = 32 << 20;
/// Maximum total time of the evaluations in one [`Budget`].
pub(crate) const MAX_TIME: Duration = Duration::from_secs(1);
/// The function that counts a loop iteration. Expressions cannot call a function of this name.
pub(crate) const COUNT_ITERATION: &str = "@count_iteration";
/// Maximum number of compiled patterns in the cache.
const MAX_PATTERNS: usize = 256;
/// Maximum size of a compiled pattern, in bytes.
const MAX_PATTERN_SIZE: usize = 1 << 18;

thread_local! {
    static ITERATIONS: Cell<u32> = const { Cell::new(0) };
    static DEADLINE: Cell<Option<Instant>> = const { Cell::new(None) };
    static PATTERNS: RefCell<HashMap<Arc<String>, regex::Regex>> = RefCell::default();
}

/// The functions, shared by all expressions.
pub(crate) static FUNCTIONS: LazyLock<Context<'static>> = LazyLock::new(|| {
    let mut context = Context::default().with_all();
    context.add_function(COUNT_ITERATION, count_iteration);
    context.add_function("matches", matches);
    metering::add_functions(&mut context);
    context
});

/// An exceeded limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exceeded {
    /// Loops took more than [`MAX_ITERATIONS`] iterations.
    Iterations,
    /// The values took more than [`MAX_BYTES`].
    Bytes,
    /// The time budget ended.
    Time,
}

/// A time budget of evaluations in one scheduling cycle. A cycle has three budgets: for the filters, for the scores and
/// for the reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Budget {
    deadline: Instant,
}

impl Budget {
    pub(crate) fn begin() -> Self {
        Self::within(MAX_TIME)
    }

    pub(crate) fn within(time: Duration) -> Self {
        Self {
            deadline: Instant::now() + time,
        }
    }

    /// Evaluates an expression within the limits on iterations, bytes and time.
    pub(crate) fn run(
        self,
        root: &IdedExpr,
        scope: &Context<'_>,
    ) -> Result<Result<Value, ExecutionError>, Exceeded> {
        if Instant::now() > self.deadline {
            return Err(Exceeded::Time);
        }
        ITERATIONS.set(0);
        DEADLINE.set(Some(self.deadline));
        Charge::start(MAX_BYTES, self.deadline);
        let result = Value::resolve(root, scope);
        let is_within_bytes = Charge::end().is_some();
        // `||` and loops can hide the error of an exceeded limit, so the limits are checked again here.
        if ITERATIONS.get() > MAX_ITERATIONS {
            return Err(Exceeded::Iterations);
        }
        if (ITERATIONS.get() > 0 || !is_within_bytes) && Instant::now() > self.deadline {
            return Err(Exceeded::Time);
        }
        if !is_within_bytes {
            return Err(Exceeded::Bytes);
        }
        Ok(result)
    }
}

fn count_iteration() -> Result<Value, ExecutionError> {
    ITERATIONS.set(ITERATIONS.get().saturating_add(1));
    let late = DEADLINE
        .get()
        .is_some_and(|deadline| Instant::now() > deadline);
    if late || ITERATIONS.get() > MAX_ITERATIONS {
        return Err(ExecutionError::function_error(
            COUNT_ITERATION,
            "limit exceeded",
        ));
    }
    Ok(Value::Bool(true))
}

/// Compiles a regular expression of limited size.
pub(crate) fn pattern(text: &str) -> Result<regex::Regex, regex::Error> {
    regex::RegexBuilder::new(text)
        .size_limit(MAX_PATTERN_SIZE)
        .build()
}

fn matches(This(text): This<Arc<String>>, source: Arc<String>) -> Result<Value, ExecutionError> {
    PATTERNS.with_borrow_mut(|patterns| {
        if !patterns.contains_key(&source) {
            let compiled = pattern(&source)
                .map_err(|error| ExecutionError::function_error("matches", error))?;
            if patterns.len() >= MAX_PATTERNS {
                patterns.clear();
            }
            patterns.insert(Arc::clone(&source), compiled);
        }
        let compiled = patterns.get(&source);
        Ok(Value::Bool(
            compiled.is_some_and(|pattern| pattern.is_match(&text)),
        ))
    })
}

/// Reports whether a function exists. The CEL library has no lookup, so this code calls the function without arguments.
pub(crate) fn exists(name: &str) -> bool {
    let call = IdedExpr {
        id: 0,
        expr: Expr::Call(CallExpr {
            func_name: name.to_owned(),
            target: None,
            args: Vec::new(),
        }),
    };
    let undeclared = ExecutionError::UndeclaredReference(Arc::new(name.to_owned()));
    Value::resolve(&call, &FUNCTIONS) != Err(undeclared)
}
