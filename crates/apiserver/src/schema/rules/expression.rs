//! An expression that can be run, but not for ever.

use std::collections::BTreeMap;

use kube_cel::cel::{Context, ExecutionError, IdedExpr, Value};

use super::bounds::Depth;
use super::check::Special;
use super::functions;
use super::prepare::prepared;
use super::syntax::{Syntax, with_room};
use super::uses::Uses;

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
        let ready = with_room(depth, move || {
            FUNCTIONS.with(|known| prepared(root, known, special))
        });
        let root = ready.ok()??;
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

/// What becomes of an expression that needs nothing to be known.
pub(super) fn constant(e: &IdedExpr) -> Result<Value, String> {
    FUNCTIONS.with(|functions| Value::resolve(e, functions).map_err(|e| wording(&e)))
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
    use super::super::prepare::has_function;
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
