//! An expression that can be run: with every loop counting its steps so that none can run for ever, and with what
//! was found out when it was checked put in its place.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, Expr, ListExpr, LiteralValue, operators,
};
use kube_cel::cel::{Context, ExecutionError, IdedExpr, Value};

use super::bounds::Depth;
use super::check::{Special, callee, is_type_name, qualified};
use super::functions::{self, ALIKE, ENTRIES, JOIN, STEP};
use super::macros::children;
use super::syntax::{Syntax, with_room};
use super::uses::Uses;
use crate::schema::ListType;

/// One key and its value; no expression of a user can have this name.
const ENTRY: &str = "@entry";

thread_local! {
    static FUNCTIONS: Context<'static> = functions::functions();
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
    /// Makes an expression ready; none if something in it cannot be run. `special` is what its types make of it.
    pub(super) fn new(syntax: Syntax, special: &BTreeMap<u64, Special>) -> Option<Self> {
        let (root, depth) = syntax.into_parts();
        let prepared = with_room(depth, move || {
            let mut root = root;
            FUNCTIONS.with(|known| {
                let mut prepare = Prepare {
                    known,
                    special,
                    bound: Vec::new(),
                    runs: true,
                };
                prepare.node(&mut root);
                prepare.runs.then_some(root)
            })
        });
        let root = prepared.ok()??;
        Some(Self { root, depth })
    }

    /// Runs it with these variables.
    pub(super) fn run(&self, variables: Vec<(&'static str, Value)>) -> Result<Value, Failure> {
        with_room(self.depth, || self.run_here(variables))
            .unwrap_or_else(|problem| Err(Failure::Other(problem)))
    }

    fn run_here(&self, variables: Vec<(&'static str, Value)>) -> Result<Value, Failure> {
        functions::begin();
        FUNCTIONS.with(|functions| {
            let mut scope = functions.new_inner_scope();
            for (name, value) in variables {
                scope.add_variable_from_value(name, value);
            }
            let result = Value::resolve(&self.root, &scope);
            if functions::exhausted() {
                return Err(Failure::Budget);
            }
            result.map_err(|e| Failure::Other(wording(&e)))
        })
    }

    /// What it makes use of.
    pub(super) fn uses(&self) -> Uses<'_> {
        Uses(&self.root)
    }
}

struct Prepare<'e> {
    known: &'e Context<'static>,
    special: &'e BTreeMap<u64, Special>,
    /// The variables of the loops around.
    bound: Vec<String>,
    /// False if something was found that cannot be run.
    runs: bool,
}

impl Prepare<'_> {
    fn node(&mut self, e: &mut IdedExpr) {
        self.name(e);
        match &mut e.expr {
            Expr::Comprehension(c) => self.comprehension(c),
            Expr::Call(call) => {
                let at = e.id;
                if let Some(instead) = self.call(at, call) {
                    e.expr = instead;
                }
            }
            Expr::Struct(_) | Expr::Unspecified => self.runs = false,
            Expr::Select(select) => {
                self.node(&mut select.operand);
                let Some(Special::Field { optional, reserved }) = self.special.get(&e.id) else {
                    return;
                };
                if *reserved {
                    select.field = super::escape(&select.field);
                }
                if *optional && !select.test {
                    let operand = std::mem::take(select.operand.as_mut());
                    let field = std::mem::take(&mut select.field).into();
                    let field = literal(LiteralValue::String(field));
                    e.expr = self::call(operators::OPT_INDEX, vec![operand, field]).expr;
                }
            }
            _ => children(e, &mut |child| self.node(child)),
        }
    }

    /// Names of types are one name, dots or not, and a dot before a name says no more than the name.
    fn name(&self, e: &mut IdedExpr) {
        let local = |name: &str| self.bound.iter().any(|b| b == name);
        match &mut e.expr {
            Expr::Ident(name) if name.starts_with('.') => *name = name.split_off(1),
            Expr::Select(_) => {
                let first = |name: &str| name.split('.').next().map(str::to_owned);
                if let Some(name) = qualified(e).filter(|name| is_type_name(name))
                    && !first(&name).is_some_and(|first| local(&first))
                {
                    e.expr = Expr::Ident(name);
                }
            }
            _ => {}
        }
    }

    fn call(&mut self, at: u64, call: &mut CallExpr) -> Option<Expr> {
        if call.func_name == operators::OPT_SELECT {
            // An absent field is none, not an error, as with an absent key.
            operators::OPT_INDEX.clone_into(&mut call.func_name);
            if let (Some(Special::Field { reserved: true, .. }), [_, field]) =
                (self.special.get(&at), call.args.as_mut_slice())
                && let Expr::Literal(LiteralValue::String(name)) = &field.expr
            {
                let name = super::escape(name.inner());
                *field = literal(LiteralValue::String(name.into()));
            }
        }
        if call.func_name.starts_with('.') {
            call.func_name = call.func_name.split_off(1);
        }
        let (name, target) = callee(call);
        let on_target = target.is_some();
        let is_operator = name.starts_with(['_', '!', '-', '@']);
        if !is_operator && !has_function(self.known, &name) {
            self.runs = false;
        }
        if let Some(target) = call.target.as_mut().filter(|_| on_target) {
            self.node(target);
        }
        call.args.iter_mut().for_each(|a| self.node(a));
        self.operator(at, call)
    }

    /// What an operator is on these types.
    fn operator(&self, at: u64, call: &mut CallExpr) -> Option<Expr> {
        let how = match self.special.get(&at)? {
            Special::Joined(how) => how,
            Special::Swapped => {
                call.args.reverse();
                return None;
            }
            Special::Field { .. } => return None,
        };
        let function = match call.func_name.as_str() {
            operators::ADD => JOIN,
            operators::EQUALS | operators::NOT_EQUALS => ALIKE,
            _ => return None,
        };
        let keys: &[String] = match how.as_ref() {
            ListType::Map(keys) => keys,
            _ => &[],
        };
        let keys = keys
            .iter()
            .map(|key| literal(LiteralValue::String(super::escape(key).into())));
        let mut args = std::mem::take(&mut call.args);
        args.push(ided(Expr::List(ListExpr::new(keys.collect()))));
        let found = self::call(function, args);
        Some(if call.func_name == operators::NOT_EQUALS {
            self::call(operators::LOGICAL_NOT, vec![found]).expr
        } else {
            found.expr
        })
    }

    fn comprehension(&mut self, c: &mut ComprehensionExpr) {
        self.node(&mut c.iter_range);
        self.node(&mut c.accu_init);
        let before = self.bound.len();
        self.bound.extend([c.iter_var.clone(), c.accu_var.clone()]);
        self.bound.extend(c.iter_var2.clone());
        for part in [&mut c.loop_cond, &mut c.loop_step, &mut c.result] {
            self.node(part);
        }
        self.bound.truncate(before);
        let condition = std::mem::take(&mut c.loop_cond);
        c.loop_cond = call(
            operators::LOGICAL_AND,
            vec![call(STEP, Vec::new()), condition],
        );
        if let Some(second) = c.iter_var2.take() {
            let part = |i: i64| {
                let index = literal(LiteralValue::Int(i.into()));
                call(operators::INDEX, vec![named(ENTRY), index])
            };
            let first = std::mem::replace(&mut c.iter_var, ENTRY.to_owned());
            let step = std::mem::take(&mut c.loop_step);
            c.loop_step = bound(first, part(0), bound(second, part(1), step));
            let range = std::mem::take(&mut c.iter_range);
            c.iter_range = call(ENTRIES, vec![range]);
        }
    }
}

/// A loop over nothing, which binds a variable.
fn bound(name: String, value: IdedExpr, result: IdedExpr) -> IdedExpr {
    ided(Expr::Comprehension(Box::new(ComprehensionExpr {
        iter_range: ided(Expr::List(ListExpr::new(Vec::new()))),
        iter_var: "@unused".to_owned(),
        iter_var2: None,
        loop_cond: literal(LiteralValue::Boolean(false.into())),
        loop_step: named(&name),
        accu_var: name,
        accu_init: value,
        result,
    })))
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

fn named(name: &str) -> IdedExpr {
    ided(Expr::Ident(name.to_owned()))
}

fn literal(value: LiteralValue) -> IdedExpr {
    ided(Expr::Literal(value))
}

fn ided(expr: Expr) -> IdedExpr {
    IdedExpr { id: 0, expr }
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

#[cfg(test)]
mod tests {
    use super::super::check::check;
    use super::super::types::CelType;
    use super::*;

    fn value(source: &str) -> Result<Value, Failure> {
        let syntax = Syntax::parse(source).map_err(Failure::Other)?;
        let special = check(&syntax, &CelType::Int, &CelType::Int);
        let special = special.map_or_else(|_| BTreeMap::new(), |checked| checked.special);
        Expression::new(syntax, &special)
            .ok_or_else(|| Failure::Other("it cannot be run".into()))?
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
    fn loops_with_two_variables() {
        for source in [
            "[5, 6].all(i, v, v == i + 5) && ![5, 6].exists(i, v, i == v)",
            "{'a': 1, 'b': 2}.existsOne(k, v, v == 2) && {'a': 1}.all(k, v, k == 'a' && v == 1)",
            "[5, 6].transformList(i, v, i * v) == [0, 6]",
            "[5, 6, 7].transformList(i, v, i > 0, v) == [6, 7]",
            "{'a': 1}.transformMap(k, v, v + 1) == {'a': 2}",
            "['a', 'b'].transformMap(i, v, i == 1, v) == {1: 'b'}",
            "['a', 'b'].transformMapEntry(i, v, {v: i}) == {'a': 0, 'b': 1}",
            "[[1], [2, 3]].transformList(i, l, l.transformList(j, v, i + j + v)) == [[1], [3, 5]]",
            "[3, 1, 2].sortBy(x, x) == [1, 2, 3] && ['bb', 'a'].sortBy(x, size(x)) == ['a', 'bb']",
            "[{'n': 2}, {'n': 1}].sortBy(x, x.n).map(x, x.n) == [1, 2]",
            "optional.unwrap([optional.of(1), optional.none()]) == [1]",
            ".self == 3 && .size([1]) == 1",
            "type(timestamp(0)) == google.protobuf.Timestamp",
        ] {
            assert_eq!(value(source), Ok(Value::Bool(true)), "{source}");
        }
        let twice = "['a', 'a'].transformMapEntry(i, v, {v: i}) == {}";
        assert!(matches!(value(twice), Err(Failure::Other(why)) if why.contains("already exists")));
    }

    /// Those of authorizers, which no rule can get hold of.
    const UNREACHABLE: [&str; 15] = [
        "path",
        "group",
        "serviceAccount",
        "resource",
        "subresource",
        "namespace",
        "name",
        "fieldSelector",
        "labelSelector",
        "check",
        "errored",
        "error",
        "allowed",
        "reason",
        "sign",
    ];

    #[test]
    fn whatever_passes_the_check_can_be_run() {
        FUNCTIONS.with(|known| {
            for name in super::super::check::library::names() {
                let operator = name.starts_with(['_', '!', '-', '@']);
                if !operator && !UNREACHABLE.contains(&name) {
                    assert!(has_function(known, name), "{name}");
                }
            }
        });
        for source in [
            "sign(quantity('-1')) == -1",
            "quantity('1Gi').isLessThan(quantity('2Gi'))",
        ] {
            assert_eq!(value(source), Ok(Value::Bool(true)), "{source}");
        }
    }

    #[test]
    fn values_are_converted_as_by_a_real_server() {
        for source in [
            "string(true) == 'true' && bool('true') && bool('F') == false && dyn(1) == 1",
            "string(duration('90m')) == '5400s' && string(duration('-1.5s')) == '-1.5s'",
            "string(timestamp('2020-01-01T02:00:00.5+01:00')) == '2020-01-01T01:00:00.500Z'",
            "string(1.5) == '1.5' && string(ip('::1')) == '::1' && string(b'a') == 'a'",
            "int(timestamp(7)) == 7 && int(duration('1s')) == 1000000000 && int('7') == 7",
            "bytes(b'a') == bytes('a') && size('éa') == 2 && 'é'.size() == 1 && size(b'é') == 2",
            "duration('1h') + timestamp(0) == timestamp(3600) && timestamp(timestamp(0)) == timestamp(0)",
            "{'a': {'b': 1}}.?a.b == optional.of(1) && {'a': {'c': 1}}.?a.b.orValue(2) == 2",
            "optional.of(1) != optional.of(2) && {'a': 1}.?b == optional.none()",
            "format.named('dns1123Label').value().validate('A').hasValue() && !format.named('x').hasValue()",
        ] {
            assert_eq!(value(source), Ok(Value::Bool(true)), "{source}");
        }
    }

    #[test]
    fn what_cannot_be_run_is_not_made_ready() {
        for source in ["nofn(self)", "Foo{a: 1} == 1", "self.nofn()"] {
            assert_eq!(
                value(source),
                Err(Failure::Other("it cannot be run".into())),
                "{source}"
            );
        }
        assert!(
            matches!(value("self >"), Err(Failure::Other(why)) if why.starts_with("ERROR: <input>:1:7: Syntax error"))
        );
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
}
