use std::time::{Duration, Instant};

use super::*;
use crate::depth::Depth;
use crate::limits::Exceeded;
use crate::parse::parse;

const MAX_PATTERN: usize = 1 << 20;

/// Evaluates an expression with the variable `self`, whose value is 3.
fn value(source: &str) -> Result<Value, Failure> {
    let depth = Depth::measure(source).map_err(Failure::Error)?;
    let evaluate = || {
        let program = compiled(source).map_err(|error| Failure::Error(error.to_string()))?;
        let mut scope = Scope::new(Variables::new());
        scope.add("self", Value::Int(3));
        let mut limits = Limits {
            steps: 250_000,
            bytes: 32 << 20,
            pattern: MAX_PATTERN,
            deadline: Instant::now() + Duration::from_mins(1),
        };
        program.run(&scope, &mut limits)
    };
    depth.with_stack(evaluate).unwrap()
}

fn compiled(source: &str) -> Result<Program, CompileError> {
    Program::compile(parse(source)?, &[Variable::plain("self")], MAX_PATTERN)
}

#[test]
fn deeply_nested_expressions_do_not_overflow_the_stack() {
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
        // The result is ignored: neither an accepted nor a refused expression may overflow the stack.
        drop(value(&source));
    }
    assert_eq!(value(&nested("(", ")", 60)), Ok(Value::Bool(true)));
}

#[test]
fn optional_values_and_macros_are_evaluated() {
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

/// The expected results are those of Go's package `regexp`.
#[test]
fn patterns_match_as_in_go() {
    for source in [
        r"'123'.matches(r'^\d+$') && !'١٢٣'.matches(r'^\d+$')",
        r"'a_1'.matches(r'^\w+$') && !'é'.matches(r'^\w+$')",
        r"'écd'.matches(r'\bcd') && !'abcd'.matches(r'\bcd')",
        "'a]'.matches('^[^[]+$') && !'a[b'.matches('^[^[]+$')",
    ] {
        assert_eq!(value(source), Ok(Value::Bool(true)), "{source}");
    }
}

#[test]
fn fields_of_other_values_than_maps_are_errors() {
    for source in ["self.a == 1", "[1].a == 1", "dyn(null).a == 1"] {
        let error = Failure::Error("no such overload".to_owned());
        assert_eq!(value(source), Err(error), "{source}");
    }
}

#[test]
fn expensive_loops_are_stopped() {
    let list = format!("[{}]", vec!["1"; 200].join(","));
    let source = format!("{list}.all(a, {list}.all(b, {list}.all(c, true)))");
    assert_eq!(value(&source), Err(Failure::Exceeded(Exceeded::Steps)));
}

#[test]
fn large_values_are_stopped() {
    let grow = ".map(a, a + a + a + a + a + a + a + a + a + a)";
    let text = format!("['0123456789']{}[0]", grow.repeat(5));
    for source in [
        format!("['0123456789']{} == []", grow.repeat(8)),
        format!("[1, 2, 3, 4, 5, 6, 7, 8, 9].all(x, {text}.lowerAscii().reverse() != '')"),
        "size(lists.range(100000000)) > 0".to_owned(),
    ] {
        let exceeded = Err(Failure::Exceeded(Exceeded::Bytes));
        assert_eq!(value(&source), exceeded, "{source}");
    }
}

#[test]
fn values_are_converted() {
    for source in [
        "string(true) == 'true' && bool('true') && bool('F') == false && dyn(1) == 1",
        "string(duration('90m')) == '5400s' && string(duration('-1.5s')) == '-1.5s'",
        "string(timestamp('2020-01-01T02:00:00.5+01:00')) == '2020-01-01T01:00:00.500Z'",
        "string(1.5) == '1.5' && string(ip('::1')) == '::1' && string(b'a') == 'a'",
        "int(timestamp(7)) == 7 && int(duration('1s')) == 1000000000 && int('7') == 7",
        "bytes(b'a') == bytes('a') && size('éa') == 2 && 'é'.size() == 1 && size(b'é') == 2",
        "timestamp(0) + duration('1h') == timestamp(3600) && timestamp(timestamp(0)) == timestamp(0)",
        "{'a': {'b': 1}}.?a.b == optional.of(1) && {'a': {'c': 1}}.?a.b.orValue(2) == 2",
        "optional.of(1) != optional.of(2) && {'a': 1}.?b == optional.none()",
        "format.dns1123Label().validate('A').hasValue() && dyn(1) == dyn(1.0)",
        "matches('[', '.') && '['.matches('[[]')",
        "self.?x == optional.none() || [1, 2].exists(x, 1 / (x - 1) == 1) && false || .self == 3",
    ] {
        assert_eq!(value(source), Ok(Value::Bool(true)), "{source}");
    }
}

#[test]
fn invalid_expressions_are_refused() {
    for source in [
        "nofn(self)",
        "Foo{a: 1} == 1",
        "self.nofn()",
        "other == 1",
        "self >",
        "int('x') == 1",
        "'a'.matches('[')",
        "matches('a', '[')",
    ] {
        assert!(compiled(source).is_err(), "{source}");
    }
}

#[test]
fn failed_evaluations_have_a_message() {
    for (source, expected) in [
        ("10 / (self - 3) > 1", "division by zero"),
        ("9223372036854775807 + self > 0", "integer overflow"),
        ("[1][2] == 1", "index out of bounds: 2"),
        ("{'a': 1}.b == 1", "no such key: b"),
    ] {
        assert_eq!(
            value(source),
            Err(Failure::Error(expected.into())),
            "{source}"
        );
    }
}
