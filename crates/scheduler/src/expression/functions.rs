//! The functions of expressions, and the bounds of an evaluation: every turn of a loop is counted, and looks at
//! the time.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use kube_cel::KubeCelExt;
use kube_cel::cel::common::ast::{CallExpr, Expr};
use kube_cel::cel::extractors::This;
use kube_cel::cel::{Context, ExecutionError, IdedExpr, Value};

/// Turns of loops that one evaluation may take.
pub(super) const MAX_TURNS: u32 = 10_000;
/// How long the evaluations for all clusters of one decision may take together.
pub(super) const MAX_TIME: Duration = Duration::from_secs(1);
/// Counts a turn; no function of an expression can have this name.
pub(super) const TURN: &str = "@turn";
/// Patterns that are kept compiled.
const MAX_PATTERNS: usize = 256;
/// The size of a compiled pattern.
const MAX_PATTERN_SIZE: usize = 1 << 18;

thread_local! {
    static TURNS: Cell<u32> = const { Cell::new(0) };
    static DEADLINE: Cell<Option<Instant>> = const { Cell::new(None) };
    static PATTERNS: RefCell<HashMap<Arc<String>, regex::Regex>> = RefCell::default();
}

/// The functions; the same for all expressions.
pub(super) static FUNCTIONS: LazyLock<Context<'static>> = LazyLock::new(|| {
    let mut context = Context::default().with_all();
    context.add_function(TURN, turn);
    context.add_function("matches", matches);
    context
});

/// Which bound was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bound {
    /// Of one evaluation.
    Turns,
    /// Of a decision.
    Time,
}

/// The evaluations of one decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pass {
    deadline: Instant,
}

impl Pass {
    pub(super) fn begin() -> Self {
        Self::within(MAX_TIME)
    }

    pub(super) fn within(time: Duration) -> Self {
        Self {
            deadline: Instant::now() + time,
        }
    }

    /// Evaluates within the bounds.
    pub(super) fn run(
        self,
        root: &IdedExpr,
        scope: &Context<'_>,
    ) -> Result<Result<Value, ExecutionError>, Bound> {
        if Instant::now() > self.deadline {
            return Err(Bound::Time);
        }
        TURNS.set(0);
        DEADLINE.set(Some(self.deadline));
        let result = Value::resolve(root, scope);
        // `||` and loops forget errors: what was reached is not told by the result.
        if TURNS.get() > MAX_TURNS {
            return Err(Bound::Turns);
        }
        if TURNS.get() > 0 && Instant::now() > self.deadline {
            return Err(Bound::Time);
        }
        Ok(result)
    }
}

fn turn() -> Result<Value, ExecutionError> {
    TURNS.set(TURNS.get().saturating_add(1));
    let late = DEADLINE
        .get()
        .is_some_and(|deadline| Instant::now() > deadline);
    if late || TURNS.get() > MAX_TURNS {
        return Err(ExecutionError::function_error(TURN, "too much"));
    }
    Ok(Value::Bool(true))
}

/// A pattern, compiled.
pub(super) fn pattern(text: &str) -> Result<regex::Regex, regex::Error> {
    regex::RegexBuilder::new(text)
        .size_limit(MAX_PATTERN_SIZE)
        .build()
}

fn matches(This(text): This<Arc<String>>, wanted: Arc<String>) -> Result<Value, ExecutionError> {
    PATTERNS.with_borrow_mut(|known| {
        if !known.contains_key(&wanted) {
            let compiled = pattern(&wanted)
                .map_err(|error| ExecutionError::function_error("matches", error))?;
            if known.len() >= MAX_PATTERNS {
                known.clear();
            }
            known.insert(Arc::clone(&wanted), compiled);
        }
        let found = known.get(&wanted);
        Ok(Value::Bool(
            found.is_some_and(|known| known.is_match(&text)),
        ))
    })
}

/// Whether there is a function of this name. Calling it tells, as nothing else does.
pub(super) fn exists(name: &str) -> bool {
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
