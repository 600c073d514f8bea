//! Tests of the results of CEL expressions: errors of operands, numbers of different types, times, conversions of
//! constants, and the cost limit. Most tests create a definition with a list of rules, and check the result of each
//! rule.

use berth_test_requirements::needs;
use serde_json::{Value, json};

use crate::harness::content_type::JSON;
use crate::harness::definitions::{DEFINITIONS, Kind, causes, definition};
use crate::harness::server::server;

/// The expected outcome of a rule.
#[derive(Debug, Clone, Copy)]
enum Outcome {
    Holds,
    Fails,
    /// The evaluation fails with this message.
    Error(&'static str),
    /// The evaluation fails because no function accepts arguments of these types.
    NoOverload,
}
use Outcome::{Error, Fails, Holds, NoOverload};

fn definition_with_rules(rules: &[&str]) -> Value {
    let rules: Vec<Value> = rules.iter().map(|rule| json!({"rule": rule})).collect();
    definition(json!({"type": "object",
        "properties": {
            "l": {"type": "array", "maxItems": 5, "items": {"type": "integer"}},
            "m": {"type": "object", "maxProperties": 5, "additionalProperties": {"type": "integer"}},
            "n": {"type": "integer"}, "z": {"type": "integer"}, "f": {"type": "number"},
            "s": {"type": "string", "maxLength": 40}, "is": {"x-kubernetes-int-or-string": true},
            "t": {"type": "string", "format": "date-time"},
        },
        "x-kubernetes-validations": rules}))
}

/// Creates an object of a kind with these rules, and checks that each rule has its expected outcome.
async fn assert_outcomes(cases: &[(&str, Outcome)]) {
    let server = server().await;
    let rules: Vec<&str> = cases.iter().map(|(rule, _)| *rule).collect();
    let kind = Kind::install(&server, &definition_with_rules(&rules)).await;
    let spec = json!({"l": [0, 1, 2], "m": {"a": 0, "b": 1}, "n": 3, "z": 0, "f": 1.0, "is": 5, "s": "x",
        "t": "2025-03-30T00:30:00Z"});
    let response = kind.create("o", &spec).await;
    let mut expected: Vec<String> = cases
        .iter()
        .filter_map(|(rule, outcome)| {
            let cause = match outcome {
                Holds => return None,
                Fails => format!("failed rule: {rule}"),
                Error(message) => format!("\"object\": {message} evaluating rule: {rule}"),
                NoOverload => format!("\"object\": no such overload evaluating rule: {rule}"),
            };
            Some(format!("spec: Invalid value: {cause}"))
        })
        .collect();
    expected.sort();
    let mut found: Vec<String> = causes(&response)
        .into_iter()
        .map(|cause| match cause.rsplit_once(" for rule: ") {
            // The message of kube-apiserver about a missing overload is longer.
            Some((text, rule)) if text.contains("no such overload") => {
                format!("spec: Invalid value: \"object\": no such overload evaluating rule: {rule}")
            }
            _ => cause,
        })
        .collect();
    found.sort();
    let only = |some: &[String], others: &[String]| -> Vec<String> {
        some.iter()
            .filter(|s| !others.contains(s))
            .cloned()
            .collect()
    };
    assert_eq!(
        found,
        expected,
        "{:#?} instead of {:#?}",
        only(&found, &expected),
        only(&expected, &found)
    );
}

/// Checks that an error of one operand of `||`, `&&`, `exists` or `all` is ignored if another operand determines the
/// result. Otherwise the rule fails with this error.
#[tokio::test]
async fn errors_are_ignored_if_another_operand_decides() {
    assert_outcomes(&[
        ("self.l.exists(x, 2 / x == 2)", Holds),
        ("self.l.all(x, 2 / x == 7)", Fails),
        ("self.l.exists(x, 2 / x == 9)", Error("division by zero")),
        ("self.l.all(x, 2 / x > 0)", Error("division by zero")),
        (
            "self.l.exists_one(x, 2 / x == 2)",
            Error("division by zero"),
        ),
        (
            "self.l.map(x, 2 / x).size() == 3",
            Error("division by zero"),
        ),
        ("self.m.exists(k, 2 / self.m[k] == 2)", Holds),
        ("[[1, 0], [2, 1]].exists(p, p.all(q, 2 / q == 1))", Fails),
        (
            "[[1, 0], [2, 1]].all(p, p.exists(q, 2 / q == 1))",
            Error("division by zero"),
        ),
        (
            "[1, 2].exists(x, self.l[x + 5] == 1)",
            Error("index out of bounds: 6"),
        ),
        ("1 / self.z == 1 || true", Holds),
        ("1 / self.z == 1 && false", Fails),
        ("1 / self.z == 1 || false", Error("division by zero")),
        ("self.l[7] == 1 || 1 / self.z == 1 || true", Holds),
        ("dyn(1) || true", Holds),
        ("dyn(1) || false", NoOverload),
        ("false || dyn(1)", NoOverload),
        ("dyn('a') && false", Fails),
        ("dyn('a') && true", NoOverload),
        ("dyn(1) ? true : false", NoOverload),
    ])
    .await;
}

/// Checks that comparisons of `int`, `uint` and `double` values use the numeric value, also within lists and maps.
#[tokio::test]
async fn numbers_of_different_types_are_compared_by_value() {
    assert_outcomes(&[
        ("dyn(1) == dyn(1.0)", Holds),
        ("dyn(1u) == 1", Holds),
        ("dyn(1) != dyn(1.5)", Holds),
        ("dyn(1) == dyn('1')", Fails),
        ("dyn(1) == dyn(true)", Fails),
        ("dyn(-1) == dyn(18446744073709551615u)", Fails),
        ("dyn(2) < 1.5", Fails),
        ("dyn(1u) < -1", Fails),
        ("dyn(1.5) <= 2u", Holds),
        ("dyn(2u) >= 2.0", Holds),
        ("dyn(1) > dyn(0.5)", Holds),
        ("dyn(1) < 'a'", NoOverload),
        ("0.0 / 0.0 == 0.0 / 0.0", Fails),
        ("dyn([1, 2]) == dyn([1.0, 2.0])", Holds),
        ("dyn([1]) == [1u]", Holds),
        ("dyn({'a': 1}) == dyn({'a': 1.0})", Holds),
        ("'a' in dyn([1])", Fails),
        ("dyn(1) + dyn(1.0) == 2.0", NoOverload),
        ("dyn(self.f) == 1", Holds),
        ("dyn(self.n) == 3.0", Holds),
        ("self.is == 5", Holds),
        ("dyn(self.is) == 5.0", Holds),
        ("self.is == dyn(5u)", Holds),
        ("[1, 2].exists(x, dyn(x) == 2.0)", Holds),
        ("sets.contains([dyn(1), dyn(2)], [dyn(1.0)])", Holds),
        ("sets.equivalent([dyn(1)], [dyn(1u)])", Holds),
        ("dyn([1, 2]).indexOf(dyn(1.0)) == 0", Holds),
        ("dyn(null) == dyn(0)", Fails),
        ("dyn(b'a') == dyn('a')", Fails),
    ])
    .await;
}

/// Checks that the functions that read a field of a timestamp, such as `getHours`, convert the timestamp to UTC.
#[tokio::test]
async fn time_fields_are_in_utc() {
    assert_outcomes(&[
        ("self.t.getHours() == 0 && self.t.getMonth() == 2", Holds),
        (
            "timestamp('2024-12-31T23:30:00Z').getDayOfYear() == 365",
            Holds,
        ),
        (
            "timestamp('2024-12-31T23:30:12+05:00').getHours() == 18",
            Holds,
        ),
        ("duration('90m').getHours() == 1", Holds),
        ("duration('90m').getMinutes() == 90", Holds),
        ("duration('1.5s').getMilliseconds() == 1500", Holds),
        ("duration('-90m').getHours() == -1", Holds),
    ])
    .await;
}

/// Checks that a definition is rejected if one of its rules converts a constant to a type that cannot represent this
/// constant, or contains a regular expression that is too large.
#[tokio::test]
async fn inconvertible_constants_are_refused_with_the_definition() {
    let server = server().await;
    let cases = [
        ("int('7') == 7", None),
        ("int('+5') == 5", None),
        ("double('1e5') == 1.0", None),
        ("int('x' + 'y') == 1", None),
        ("int(self.s) == 1", None),
        ("'a'.matches('a{1000}')", None),
        ("self.l.exists_one(x, x == 1)", None),
        (
            "int('x') == 1",
            Some("type conversion error from 'string' to 'int'"),
        ),
        (
            "int('') == 1",
            Some("type conversion error from 'string' to 'int'"),
        ),
        (
            "int(dyn('x')) == 1",
            Some("type conversion error from 'string' to 'int'"),
        ),
        (
            "double(int('x')) == 1.0",
            Some("type conversion error from 'string' to 'int'"),
        ),
        (
            "false && int('x') == 1",
            Some("type conversion error from 'string' to 'int'"),
        ),
        (
            "int('99999999999999999999') == 1",
            Some("type conversion error from 'string' to 'int'"),
        ),
        ("int(1e300) == 1", Some("integer overflow")),
        ("int(18446744073709551615u) == 1", Some("integer overflow")),
        ("uint(-1) == 1u", Some("unsigned integer overflow")),
        ("uint(1e300) == 1u", Some("unsigned integer overflow")),
        (
            "uint('+5') == 5u",
            Some("type conversion error from 'string' to 'uint'"),
        ),
        (
            "double('x') == 1.0",
            Some("type conversion error from 'string' to 'double'"),
        ),
        (
            "bool('yes')",
            Some("type conversion error from 'string' to 'bool'"),
        ),
        (
            "string(b'\\xff') == 'x'",
            Some("invalid UTF-8 in bytes, cannot convert to string"),
        ),
        (
            "duration(dyn('x')) == duration('1s')",
            Some("type conversion error from 'string' to 'google.protobuf.Duration'"),
        ),
        (
            "timestamp(dyn('x')) == timestamp(0)",
            Some("type conversion error from 'string' to 'google.protobuf.Timestamp'"),
        ),
    ];
    let (mut failures, path) = (Vec::new(), format!("{DEFINITIONS}?dryRun=All"));
    for (rule, refused) in cases {
        let body = definition_with_rules(&[rule]).to_string();
        let response = server.raw("POST", &path, &[JSON], body).await;
        let fits = match refused {
            None => response.code == 201,
            Some(why) => {
                response.code == 422
                    && response.json["message"]
                        .as_str()
                        .is_some_and(|message| message.contains(why))
            }
        };
        if !fits {
            failures.push(format!("{rule}: {}", response.text));
        }
    }
    for rule in ["'a'.matches('a{1001}')", "'a'.matches('(a{100}){11}')"] {
        let body = definition_with_rules(&[rule]).to_string();
        let response = server.raw("POST", &path, &[JSON], body).await;
        if response.code != 422 {
            failures.push(format!("{rule}: {}", response.text));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Checks that the server stops the evaluation of an expensive rule on a large object, and rejects the object with 422.
/// kube-apiserver rejects this definition because of the estimated cost of its rule.
#[needs(embedded)]
#[tokio::test]
async fn expensive_rules_are_stopped_during_evaluation() {
    let server = server().await;
    let spec = json!({"type": "object", "properties": {"l": {"type": "array", "items": {"type": "integer"}}},
        "x-kubernetes-validations": [{"rule": "self.l.all(a, self.l.all(b, self.l.all(c, a + b + c >= 0)))"}]});
    let kind = Kind::install(&server, &definition(spec)).await;
    assert_eq!(
        kind.create("small", &json!({"l": [1, 2, 3]})).await.code,
        201
    );
    let large = kind.create("large", &json!({"l": vec![1; 1000]})).await;
    assert_eq!(large.code, 422, "{}", large.text);
    assert_eq!(large.causes(), ["spec FieldValueInvalid"]);
}
