//! A CEL expression: parsed, with the macros that the parser does not know expanded, and every loop made to
//! count its steps so that no rule can run for ever.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::bounds::{self, Depth};
use kube_cel::KubeCelExt;
use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, ListExpr, LiteralValue, operators,
};
use kube_cel::cel::extractors::This;
use kube_cel::cel::parser::Parser;
use kube_cel::cel::{Context, ExecutionError, IdedExpr, Value};

/// Steps of loops that one evaluation may take.
const MAX_STEPS: u32 = 250_000;
/// Counts a step; no expression of a user can have this name.
const STEP: &str = "@step";

thread_local! {
    static STEPS: Cell<u32> = const { Cell::new(0) };
    static REGEXES: std::cell::RefCell<BTreeMap<Arc<String>, regex::Regex>> = std::cell::RefCell::default();
    static FUNCTIONS: Context<'static> = functions();
}

/// An expression that can be run.
#[derive(Debug)]
pub(crate) struct Expression {
    root: IdedExpr,
    depth: Depth,
}

/// Why an evaluation came to nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failure {
    /// Too many steps.
    Budget,
    /// As a real server words it.
    Other(String),
}

impl Expression {
    /// Parses `source`, or says what is wrong with it in the words of the CEL compiler.
    pub(crate) fn parse(source: &str) -> Result<Self, String> {
        let depth = bounds::measure(source)?;
        let parse = || Parser::new().enable_optional_syntax(true).parse(source);
        let mut root = with_room(depth, parse)
            .ok_or_else(|| "ERROR: <input>:-1:0: the expression cannot be parsed".to_owned())?
            .map_err(|errors| {
                let lines: Vec<String> = errors
                    .errors
                    .iter()
                    .map(|e| {
                        located(
                            source,
                            e.pos,
                            &format!(
                                "Syntax error: {}",
                                e.msg.trim_start_matches("Syntax error: ")
                            ),
                        )
                    })
                    .collect();
                lines.join("\n")
            })?;
        let mut unknown = Vec::new();
        FUNCTIONS.with(|known| prepare(&mut root, known, &mut Vec::new(), &mut unknown));
        if let Some(what) = unknown.first() {
            let column = source
                .find(what.name.as_str())
                .map_or(1, |at| at + what.shift + 1);
            let position = (1, isize::try_from(column).unwrap_or(1));
            return Err(located(source, position, &what.problem));
        }
        Ok(Self { root, depth })
    }

    /// Runs it with these variables.
    pub(super) fn run(&self, variables: Vec<(&'static str, Value)>) -> Result<Value, Failure> {
        let ended = with_room(self.depth, || self.run_here(variables));
        ended.unwrap_or_else(|| Err(Failure::Other("the rule cannot be evaluated".to_owned())))
    }

    fn run_here(&self, variables: Vec<(&'static str, Value)>) -> Result<Value, Failure> {
        STEPS.with(|steps| steps.set(0));
        FUNCTIONS.with(|functions| {
            let mut scope = functions.new_inner_scope();
            for (name, value) in variables {
                scope.add_variable_from_value(name, value);
            }
            let result = Value::resolve(&self.root, &scope);
            if STEPS.with(Cell::get) > MAX_STEPS {
                return Err(Failure::Budget);
            }
            result.map_err(|e| Failure::Other(wording(&e)))
        })
    }

    /// True if a variable is used anywhere.
    pub(crate) fn mentions(&self, variable: &str) -> bool {
        let mut found = false;
        visit(&self.root, &mut |e| {
            found |= matches!(&e.expr, Expr::Ident(name) if name == variable);
        });
        found
    }

    /// True if some list or map is indexed.
    pub(super) fn indexes_lists(&self) -> bool {
        let mut found = false;
        visit(&self.root, &mut |e| {
            found |= matches!(&e.expr, Expr::Call(c) if c.func_name == operators::INDEX || c.func_name == operators::OPT_INDEX);
        });
        found
    }

    /// The fields that are selected of these variables, as CEL spells them; none if one is used as a whole.
    pub(super) fn fields_of(&self, variables: &[&str]) -> Option<BTreeSet<String>> {
        let is = |e: &IdedExpr| matches!(&e.expr, Expr::Ident(name) if variables.contains(&name.as_str()));
        let (mut uses, mut selections, mut fields) = (0, 0, BTreeSet::new());
        visit(&self.root, &mut |e| {
            uses += usize::from(is(e));
            if let Expr::Select(select) = &e.expr
                && is(&select.operand)
            {
                selections += 1;
                fields.insert(select.field.clone());
            }
        });
        (uses == selections).then_some(fields)
    }

    /// The chain `self.a.b`, if the expression is nothing but its value.
    pub(crate) fn value_chain(&self) -> Option<Vec<String>> {
        let tests = matches!(&self.root.expr, Expr::Select(select) if select.test);
        chain(&self.root).filter(|_| !tests)
    }

    /// Every chain `self.a.b`, for checks against a schema.
    pub(crate) fn chains(&self) -> Vec<Vec<String>> {
        let mut all = Vec::new();
        visit(&self.root, &mut |e| {
            all.extend(chain(e));
        });
        all
    }
}

/// The stack for what is nested as deep as it may be, without optimisation.
const ROOM: usize = 64 << 20;

/// Does something with as much stack as it needs; none if that is not to be had.
fn with_room<T: Send>(depth: Depth, work: impl FnOnce() -> T + Send) -> Option<T> {
    if !depth.needs_room() {
        return Some(work());
    }
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(ROOM);
        thread.spawn_scoped(scope, work).ok()?.join().ok()
    })
}

fn chain(e: &IdedExpr) -> Option<Vec<String>> {
    let (mut at, mut chain) = (e, Vec::new());
    while let Expr::Select(select) = &at.expr {
        chain.push(select.field.clone());
        at = &select.operand;
    }
    let of_self = matches!(&at.expr, Expr::Ident(name) if name == "self");
    chain.reverse();
    (!chain.is_empty() && of_self).then_some(chain)
}

/// A problem at a place, as the CEL compiler shows it.
pub(crate) fn located(source: &str, (line, column): (isize, isize), problem: &str) -> String {
    let text = usize::try_from(line - 1)
        .ok()
        .and_then(|l| source.lines().nth(l))
        .unwrap_or_default();
    let dots = ".".repeat(usize::try_from(column - 1).unwrap_or(0));
    format!("ERROR: <input>:{line}:{column}: {problem}\n | {text}\n | {dots}^")
}

/// Calls `see` for an expression and everything in it.
fn visit(e: &IdedExpr, see: &mut dyn FnMut(&IdedExpr)) {
    see(e);
    match &e.expr {
        Expr::Call(call) => {
            call.target.iter().for_each(|t| visit(t, see));
            call.args.iter().for_each(|a| visit(a, see));
        }
        Expr::Comprehension(c) => {
            for part in [
                &c.iter_range,
                &c.accu_init,
                &c.loop_cond,
                &c.loop_step,
                &c.result,
            ] {
                visit(part, see);
            }
        }
        Expr::List(list) => list.elements.iter().for_each(|i| visit(i, see)),
        Expr::Map(map) => {
            for entry in &map.entries {
                if let EntryExpr::MapEntry(entry) = &entry.expr {
                    visit(&entry.key, see);
                    visit(&entry.value, see);
                }
            }
        }
        Expr::Select(select) => visit(&select.operand, see),
        Expr::Ident(_) | Expr::Literal(_) | Expr::Struct(_) | Expr::Unspecified => {}
    }
}

/// Something a rule refers to that there is not.
struct Unknown {
    /// What to look for in the source.
    name: String,
    /// From there to the place the compiler names.
    shift: usize,
    problem: String,
}

/// Variables of every rule, and the names of types.
const VARIABLES: [&str; 2] = ["self", "oldSelf"];
const TYPES: [&str; 9] = [
    "bool",
    "bytes",
    "double",
    "int",
    "list",
    "map",
    "null_type",
    "string",
    "uint",
];

/// Expands macros, makes loops count, and finds what cannot be resolved.
fn prepare(
    e: &mut IdedExpr,
    known: &Context<'_>,
    bound: &mut Vec<String>,
    unknown: &mut Vec<Unknown>,
) {
    if let Some(expanded) = option_macro(&e.expr) {
        e.expr = expanded;
    }
    match &mut e.expr {
        Expr::Call(call) => {
            if call.func_name == operators::OPT_SELECT {
                // An absent field is none, not an error, as with an absent key.
                operators::OPT_INDEX.clone_into(&mut call.func_name);
            }
            let name = qualified(call, known).unwrap_or_else(|| call.func_name.clone());
            let is_operator = name.starts_with(['_', '!', '-', '@']);
            if !is_operator && !has_function(known, &name) {
                unknown.push(Unknown {
                    shift: name.len(),
                    problem: format!("undeclared reference to '{name}' (in container '')"),
                    name: name.clone(),
                });
            }
            // `optional.of` is one name, not a call on a variable.
            if let Some(target) = call.target.as_mut().filter(|_| name == call.func_name) {
                prepare(target, known, bound, unknown);
            }
            call.args
                .iter_mut()
                .for_each(|a| prepare(a, known, bound, unknown));
        }
        Expr::Comprehension(c) => {
            prepare(&mut c.iter_range, known, bound, unknown);
            prepare(&mut c.accu_init, known, bound, unknown);
            let before = bound.len();
            bound.extend([c.iter_var.clone(), c.accu_var.clone()]);
            for part in [&mut c.loop_cond, &mut c.loop_step, &mut c.result] {
                prepare(part, known, bound, unknown);
            }
            bound.truncate(before);
            let condition = std::mem::take(&mut c.loop_cond);
            c.loop_cond = call(
                operators::LOGICAL_AND,
                vec![call(STEP, Vec::new()), condition],
            );
        }
        Expr::List(list) => {
            list.elements
                .iter_mut()
                .for_each(|i| prepare(i, known, bound, unknown));
        }
        Expr::Map(map) => {
            for entry in &mut map.entries {
                if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                    prepare(&mut entry.key, known, bound, unknown);
                    prepare(&mut entry.value, known, bound, unknown);
                }
            }
        }
        Expr::Select(select) => prepare(&mut select.operand, known, bound, unknown),
        Expr::Ident(name) => {
            let there = VARIABLES.contains(&name.as_str())
                || TYPES.contains(&name.as_str())
                || bound.contains(name);
            if !there {
                unknown.push(Unknown {
                    name: name.clone(),
                    shift: 0,
                    problem: format!("undeclared reference to '{name}' (in container '')"),
                });
            }
        }
        Expr::Struct(of) => unknown.push(Unknown {
            name: of.type_name.clone(),
            shift: 0,
            problem: format!(
                "undeclared reference to '{}' (in container '')",
                of.type_name
            ),
        }),
        Expr::Literal(_) | Expr::Unspecified => {}
    }
}

/// The whole name of a function in a namespace, `optional.of`.
fn qualified(call: &CallExpr, known: &Context<'_>) -> Option<String> {
    let Expr::Ident(prefix) = &call.target.as_ref()?.expr else {
        return None;
    };
    let name = format!("{prefix}.{}", call.func_name);
    has_function(known, &name).then_some(name)
}

/// Whether there is a function of this name; calling it tells, as nothing else does.
fn has_function(known: &Context<'_>, name: &str) -> bool {
    let undeclared = ExecutionError::UndeclaredReference(Arc::new(name.to_owned()));
    Value::resolve(&call(name, Vec::new()), known) != Err(undeclared)
}

fn call(name: &str, args: Vec<IdedExpr>) -> IdedExpr {
    ided(Expr::Call(CallExpr {
        func_name: name.to_owned(),
        target: None,
        args,
    }))
}

fn ided(expr: Expr) -> IdedExpr {
    IdedExpr { id: 0, expr }
}

/// `target.optMap(x, f)` and `target.optFlatMap(x, f)`: f of the value, if there is one.
fn option_macro(e: &Expr) -> Option<Expr> {
    let Expr::Call(CallExpr {
        func_name,
        target: Some(target),
        args,
    }) = e
    else {
        return None;
    };
    let ([variable, body], "optMap" | "optFlatMap") = (args.as_slice(), func_name.as_str()) else {
        return None;
    };
    let Expr::Ident(variable) = &variable.expr else {
        return None;
    };
    let on = |method: &str| {
        ided(Expr::Call(CallExpr {
            func_name: method.to_owned(),
            target: Some(target.clone()),
            args: Vec::new(),
        }))
    };
    let optional = |function: &str, args: Vec<IdedExpr>| {
        ided(Expr::Call(CallExpr {
            func_name: function.to_owned(),
            target: Some(Box::new(ided(Expr::Ident("optional".to_owned())))),
            args,
        }))
    };
    let result = if func_name == "optMap" {
        optional("of", vec![body.clone()])
    } else {
        body.clone()
    };
    // A loop over nothing binds the variable.
    let bound = ided(Expr::Comprehension(Box::new(ComprehensionExpr {
        iter_range: ided(Expr::List(ListExpr::new(Vec::new()))),
        iter_var: "@unused".to_owned(),
        iter_var2: None,
        accu_var: variable.clone(),
        accu_init: on("value"),
        loop_cond: ided(Expr::Literal(LiteralValue::Boolean(false.into()))),
        loop_step: ided(Expr::Ident(variable.clone())),
        result,
    })));
    let choice = call(
        operators::CONDITIONAL,
        vec![on("hasValue"), bound, optional("none", Vec::new())],
    );
    Some(choice.expr)
}

/// The words of a real server for an evaluation that failed.
fn wording(error: &ExecutionError) -> String {
    match error {
        ExecutionError::NoSuchKey(key) => format!("no such key: {key}"),
        ExecutionError::IndexOutOfBounds(Value::Int(at)) => format!("index out of bounds: {at}"),
        ExecutionError::DivisionByZero(_) => "division by zero".to_owned(),
        ExecutionError::RemainderByZero(_) => "modulus by zero".to_owned(),
        ExecutionError::Overflow(..) => "integer overflow".to_owned(),
        ExecutionError::UndeclaredReference(name) => {
            format!("undeclared reference to '{name}' (in container '')")
        }
        ExecutionError::FunctionError { message, .. } => message.clone(),
        _ => "no such overload".to_owned(),
    }
}

/// The functions rules may use.
fn functions() -> Context<'static> {
    let mut context = Context::default().with_all();
    context.add_function(STEP, || -> Result<Value, ExecutionError> {
        let taken = STEPS.with(|steps| {
            steps.set(steps.get().saturating_add(1));
            steps.get()
        });
        if taken > MAX_STEPS {
            return Err(ExecutionError::function_error(STEP, "too many steps"));
        }
        Ok(Value::Bool(true))
    });
    context.add_function("matches", matches);
    context.add_function("type", |value: Value| -> Result<Value, ExecutionError> {
        Ok(Value::String(Arc::new(type_name(&value).to_owned())))
    });
    for name in TYPES {
        context.add_variable_from_value(name, Value::String(Arc::new(name.to_owned())));
    }
    context
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::List(_) => "list",
        Value::Map(_) => "map",
        Value::Int(_) => "int",
        Value::UInt(_) => "uint",
        Value::Float(_) => "double",
        Value::String(_) => "string",
        Value::Bytes(_) => "bytes",
        Value::Bool(_) => "bool",
        Value::Null => "null_type",
        _ => "type",
    }
}

/// Patterns that are kept compiled, on each thread.
const MAX_REGEXES: usize = 256;

fn matches(This(text): This<Arc<String>>, pattern: Arc<String>) -> Result<Value, ExecutionError> {
    REGEXES.with(|known| {
        let mut known = known.borrow_mut();
        if !known.contains_key(&pattern) {
            let compiled = regex::Regex::new(&pattern)
                .map_err(|e| ExecutionError::function_error("matches", e))?;
            if known.len() >= MAX_REGEXES {
                known.clear();
            }
            known.insert(pattern.clone(), compiled);
        }
        Ok(Value::Bool(
            known.get(&pattern).is_some_and(|r| r.is_match(&text)),
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(source: &str) -> Result<Value, Failure> {
        Expression::parse(source)
            .map_err(Failure::Other)?
            .run(vec![("self", Value::Int(3))])
    }

    #[test]
    fn what_is_as_deep_as_may_be_ends_somehow() {
        let nested = |open: &str, close: &str, times: usize| {
            format!("{}true{}", open.repeat(times), close.repeat(times))
        };
        for source in [
            nested("(", ")", 240),
            format!("{} == []", nested("[", "]", 240)),
            nested("[true].all(a, ", ")", 27),
            format!("self{} == 1", ".x".repeat(240)),
            format!("{} > 0", vec!["1"; 240].join(" + ")),
            format!("{}true{}", "true ? ".repeat(110), " : true".repeat(110)),
            nested("{1: ", "}", 120),
            nested("size([", "])", 120),
        ] {
            // Whether it is accepted or not: nothing overflows.
            drop(value(&source));
        }
        assert_eq!(value(&nested("(", ")", 60)), Ok(Value::Bool(true)));
    }

    #[test]
    fn optional_values_and_macros() {
        for source in [
            "optional.of(2).optMap(x, x * 2).orValue(0) == 4",
            "!optional.none().optMap(x, x).hasValue()",
            "optional.of(1).optFlatMap(x, optional.none()).hasValue() == false",
            "{'a': 1}.?b.orValue(7) == 7",
            "{'a': {'b': 1}}.?a.?b.orValue(7) == 1",
            "{'a': 1}[?'a'].hasValue()",
            "type(self) == int && type('a') == string",
            "[1, 2, 3].all(x, x < 4) && [1, 2].exists(x, x == 2) && [1, 2].exists_one(x, x == 2)",
            "[1, 2].map(x, x * 2) == [2, 4] && [1, 2].map(x, x > 1, x * 2) == [4] && [1, 2].filter(x, x > 1) == [2]",
        ] {
            assert_eq!(value(source), Ok(Value::Bool(true)), "{source}");
        }
    }

    #[test]
    fn no_rule_runs_for_ever() {
        let list = format!("[{}]", vec!["1"; 200].join(","));
        let source = format!("{list}.all(a, {list}.all(b, {list}.all(c, true)))");
        assert_eq!(value(&source), Err(Failure::Budget));
    }

    #[test]
    fn what_is_not_there_is_named_with_its_place() {
        assert_eq!(
            value("self > foo"),
            Err(Failure::Other("ERROR: <input>:1:8: undeclared reference to 'foo' (in container '')\n | self > foo\n | .......^".into()))
        );
        assert_eq!(
            value("nofn(self)"),
            Err(Failure::Other("ERROR: <input>:1:5: undeclared reference to 'nofn' (in container '')\n | nofn(self)\n | ....^".into()))
        );
        assert!(value("Foo{a: 1}").is_err());
        assert!(value("self >").is_err());
    }

    #[test]
    fn errors_have_the_words_of_a_real_server() {
        for (source, expected) in [
            ("10 / (self - 3) > 1", "division by zero"),
            ("9223372036854775807 + self > 0", "integer overflow"),
            ("[1][2] == 1", "index out of bounds: 2"),
            ("{'a': 1}.b == 1", "no such key: b"),
        ] {
            assert_eq!(
                value(source),
                Err(Failure::Other(expected.into())),
                "{source}"
            );
        }
    }

    #[test]
    fn fields_are_told_apart_from_uses_of_the_whole() {
        let fields = |source: &str| {
            Expression::parse(source)
                .unwrap()
                .fields_of(&["self", "oldSelf"])
        };
        assert_eq!(
            fields("has(self.a) || self.b.c > oldSelf.d"),
            Some(["a", "b", "d"].map(str::to_owned).into())
        );
        assert_eq!(fields("self == oldSelf"), None);
        assert_eq!(fields("self.a == 1 && self['b'] == 2"), None);
    }
}
