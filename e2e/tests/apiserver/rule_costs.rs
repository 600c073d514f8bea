//! What rules may cost: definitions whose rules may take too long are refused, with how far they are off.

use serde_json::{Value, json};

use crate::definitions::{DEFINITIONS, JSON, causes, definition};
use crate::server::{Served, server};

const AT: &str = "spec.validation.openAPIV3Schema";
const ADVICE: &str = "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)";

async fn refused(server: &Served, spec: Value) -> Vec<String> {
    let path = format!("{DEFINITIONS}?dryRun=All");
    let body = definition(spec).to_string();
    causes(&server.raw("POST", &path, &[JSON], body).await)
}

fn properties() -> Value {
    json!({
        "s": {"type": "string", "maxLength": 77}, "t": {"type": "string"}, "n": {"type": "integer"}, "e": {"type": "string", "enum": ["a", "bcd"]},
        "either": {"x-kubernetes-int-or-string": true, "maxLength": 21}, "key": {"type": "string", "format": "byte", "maxLength": 33},
        "d": {"type": "string", "format": "duration"}, "o": {"type": "object", "properties": {"x": {"type": "integer"}}},
        "l": {"type": "array", "maxItems": 17, "items": {"type": "string", "maxLength": 9}}, "open": {"type": "array", "items": {"type": "string"}},
        "m": {"type": "object", "maxProperties": 11, "additionalProperties": {"type": "integer"}},
    })
}

/// Rules, with the factor by which they exceed what they may cost where they are there so many times.
const RECORDED: &[(&str, u64, &str)] = &[
    ("self.s == 'abc'", 4_100_000, "1.230000x"),
    ("self.s == self.s", 351_428, "1.229998x"),
    ("self.t == self.t", 39, "1.226850x"),
    ("self.e == self.e", 2_460_000, "1.230000x"),
    ("self.either == self.either", 946_153, "1.229999x"),
    ("self.key == self.key", 1_537_500, "1.230000x"),
    ("self.d == self.d", 1_537_500, "1.230000x"),
    (
        "self.n == 1 && self.n == 2 || self.n == 3",
        2_050_000,
        "1.230000x",
    ),
    ("self.o == self.o", 3_075_000, "1.230000x"),
    ("has(self.s) && has(self.o.x)", 4_100_000, "1.230000x"),
    ("self.s.contains(self.s)", 12_680, "1.223620x"),
    ("self.t.contains('abcdefghijklmnop')", 19, "1.195381x"),
    ("self.s.matches('^[a-z0-9]+$')", 129_473, "1.229993x"),
    ("self.t.matches('a')", 39, "1.226843x"),
    ("self.s + self.s == self.s", 124_242, "1.229996x"),
    ("self.l == self.l", 2_050_000, "1.230000x"),
    ("self.l.all(x, x == self.s)", 72_352, "1.251690x"),
    (
        "self.l.all(x, self.l.exists(y, y == x))",
        4_100,
        "1.227950x",
    ),
    (
        "self.l.map(x, x + 'a').join(',') == self.s",
        1,
        "more than 100x",
    ),
    (
        "self.l.filter(x, x == self.s).exists_one(x, x == self.s)",
        27_954,
        "1.229976x",
    ),
    ("self.l.all(i, x, x == self.s)", 72_352, "1.251690x"),
    ("self.m.all(k, k == 'a')", 261_702, "1.229999x"),
    (
        "self.m.transformMap(k, v, self.s).all(k, v, v == self.s)",
        76_875,
        "1.191563x",
    ),
    (
        "self.l.transformList(i, x, x).size() == 1",
        51_250,
        "1.209500x",
    ),
    ("self.l.sortBy(x, x)[0] == self.s", 14_137, "1.225678x"),
    ("self.l.sort() == self.l", 19_838, "1.237891x"),
    ("self.l.distinct() == self.l", 20_500, "1.219750x"),
    (
        "self.l.slice(1, 3).reverse() == self.l",
        396_774,
        "1.229999x",
    ),
    ("sets.equivalent(self.l, self.l)", 21_206, "1.236310x"),
    ("self.s in self.l", 585_714, "1.229999x"),
    (
        "self.l.isSorted() && self.l.indexOf('a') == 1",
        68_333,
        "1.195828x",
    ),
    ("self.open.size() == 1", 3_075_000, "1.230000x"),
    ("self.open.all(x, x.size() == 1)", 10, "6.3x"),
    ("self.s.replace('a', 'bcd') == self.s", 126_804, "1.229999x"),
    ("self.s.split(',').all(x, x == self.s)", 6_473, "1.238285x"),
    (
        "self.s.substring(1).upperAscii().trim() == self.s",
        96_093,
        "1.229990x",
    ),
    ("self.s.findAll('a+').size() == 1", 351_428, "1.229998x"),
    ("'%s'.format([self.s]) == self.s", 267_391, "1.229999x"),
    ("strings.quote(self.s) == self.s", 186_363, "1.229996x"),
    (
        "quantity(self.s).isLessThan(quantity('1'))",
        351_428,
        "1.229998x",
    ),
    ("url(self.s).getHost() == 'a'", 351_428, "1.229998x"),
    (
        "ip(self.s).family() == 4 && ip.isCanonical(self.s)",
        124_242,
        "1.229996x",
    ),
    (
        "cidr(self.s).containsIP(self.s) && cidr(self.s).containsCIDR(cidr(self.s))",
        86_013,
        "1.229986x",
    ),
    (
        "format.dns1123Label().validate(self.s).hasValue()",
        12_300,
        "1.225080x",
    ),
    ("semver(self.s) == semver('1.0.0')", 351_428, "1.229998x"),
    ("self.?s.orValue('abc') == self.s", 341_666, "1.229998x"),
    (
        "self.?s.optMap(x, x + self.s).orValue('') == self.s",
        1,
        "more than 100x",
    ),
    (
        "[self.s, 'abc'].all(x, x.contains(self.s))",
        492_000,
        "1.230000x",
    ),
    ("{'a': self.s}.all(k, v, v == self.s)", 315_384, "1.229998x"),
    (
        "(self.n == 1 ? self.s : 'abcdefgh') == self.s",
        332_432,
        "1.229998x",
    ),
    ("type(self.s) == string", 3_075_000, "1.230000x"),
    ("dyn(self.s) == self.s", 341_666, "1.229998x"),
    (
        "[1, 2, 3].map(x, x + 1).all(x, [4, 5].exists(y, y == x))",
        86_619,
        "1.229990x",
    ),
];

#[tokio::test]
async fn rules_that_may_cost_too_much_are_refused_with_a_factor() {
    let server = server().await;
    let mut wrong = Vec::new();
    for (rule, times, factor) in RECORDED {
        let spec = json!({"type": "array", "maxItems": times, "items": {"type": "object", "properties": properties(),
            "x-kubernetes-validations": [{"rule": rule}]}});
        let at = format!("{AT}.properties[spec].items.x-kubernetes-validations[0].rule");
        let expected = format!(
            "{at}: Forbidden: estimated rule cost exceeds budget by factor of {factor} {ADVICE}"
        );
        let found = refused(&server, spec).await;
        if !found.contains(&expected) {
            wrong.push(format!("{rule}: {found:#?}\n{expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn all_rules_together_may_cost_no_more_than_ten_times_as_much() {
    let server = server().await;
    let list = |most: u64, cost: &str| {
        json!({"type": "array", "maxItems": most, "items": {"type": "object", "properties": properties(),
        "x-kubernetes-validations": [{"rule": cost}]}})
    };
    let rule = "self.s.contains(self.s)";
    // Each is within bounds, and the last one is too cheap to be named.
    let lists = json!({"a": list(9_000, rule), "b": list(8_000, rule), "c": list(7_000, rule), "d": list(6_000, rule), "e": list(5_000, rule), "f": list(100, rule)});
    let fine = json!({"type": "object", "properties": {"a": lists["a"], "f": lists["f"]}});
    assert_eq!(refused(&server, fine).await, Vec::<String>::new());
    let mut all = lists.as_object().unwrap().clone();
    for i in 0..20 {
        all.insert(format!("x{i}"), list(4_000 + i, rule));
    }
    let found = refused(&server, json!({"type": "object", "properties": all})).await;
    let at = |name: &str| {
        format!("{AT}.properties[spec].properties[{name}].items.x-kubernetes-validations[0].rule")
    };
    let mut expected: Vec<String> = ["a", "b", "c", "d"]
        .map(|name| {
            format!(
                "{}: Forbidden: contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema",
                at(name)
            )
        })
        .into();
    expected.push(format!(
        "{AT}: Forbidden: x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema exceeds budget by factor of 1.112548x {ADVICE}"
    ));
    expected.sort();
    assert_eq!(found, expected);
}

#[tokio::test]
async fn messages_may_not_cost_too_much_either() {
    let server = server().await;
    let rule = json!({"rule": "self.n == 1", "messageExpression": "self.open.map(x, self.open.map(y, x + y).join('')).join('')"});
    let spec =
        json!({"type": "object", "properties": properties(), "x-kubernetes-validations": [rule]});
    let at = format!("{AT}.properties[spec].x-kubernetes-validations[0].messageExpression");
    let expected = format!(
        "{at}: Forbidden: estimated messageExpression cost exceeds budget by factor of more than 100x {ADVICE}"
    );
    let found = refused(&server, spec).await;
    assert!(found.contains(&expected), "{found:#?}");
}
