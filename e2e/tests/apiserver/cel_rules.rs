//! Tests of CEL validation rules (`x-kubernetes-validations`) of custom resources: responses to failed rules, rules
//! that compare with the old object, CEL libraries, and invalid rules.

use serde_json::{Value, json};

use crate::harness::definitions::{Kind, causes, define, definition};
use crate::harness::server::server;

/// Returns a definition with these rules on `spec`.
fn definition_with_rules(properties: Value, rules: Value) -> Value {
    definition(
        json!({"type": "object", "properties": properties, "x-kubernetes-validations": rules}),
    )
}

/// Checks that an object that violates rules is rejected. The response contains the message, the reason and the field
/// path of each failed rule.
#[tokio::test]
async fn failed_rules_report_message_reason_and_path() {
    let server = server().await;
    let kind = Kind::install(
        &server,
        &definition_with_rules(
            json!({"a": {"type": "integer"}, "b": {"type": "integer"},
                "m": {"type": "object", "maxProperties": 5, "additionalProperties": {"type": "integer",
                    "x-kubernetes-validations": [{"rule": "self < 50", "message": "small"}]}}}),
            json!([
                {"rule": "self.a <= self.b"},
                {"rule": "self.a > 0", "message": "a must be positive"},
                {"rule": "self.b < 100", "message": " b big ", "reason": "FieldValueForbidden", "fieldPath": ".b"},
                {"rule": "self.a != 7", "reason": "FieldValueDuplicate", "fieldPath": ".a"},
                {"rule": "self.a != 8", "reason": "FieldValueRequired", "message": "req", "fieldPath": ".a"},
                {"rule": "self.a != 9", "messageExpression": "self.a == 9 ? 'a is nine' : 'other'"},
            ]),
        ),
    )
    .await;
    let cases = [
        (json!({"a": 1, "b": 2}), vec![]),
        (
            json!({"a": 3, "b": 2}),
            vec!["spec: Invalid value: failed rule: self.a <= self.b"],
        ),
        (
            json!({"a": -1, "b": 200}),
            vec![
                "spec.b: Forbidden: b big",
                "spec: Invalid value: a must be positive",
            ],
        ),
        (json!({"a": 7, "b": 9}), vec!["spec.a: Duplicate value"]),
        (json!({"a": 8, "b": 9}), vec!["spec.a: Required value: req"]),
        (
            json!({"a": 9, "b": 9}),
            vec!["spec: Invalid value: a is nine"],
        ),
        (
            json!({"a": 1, "b": 2, "m": {"x/y": 50}}),
            vec!["spec.m[x/y]: Invalid value: 50: small"],
        ),
    ];
    for (i, (spec, mut expected)) in cases.into_iter().enumerate() {
        let response = kind.create(&format!("o{i}"), &spec).await;
        expected.sort_unstable();
        assert_eq!(causes(&response), expected, "{spec}: {}", response.text);
        assert_eq!(response.code, if expected.is_empty() { 201 } else { 422 });
    }
    let response = kind.create("absent", &json!({"b": 2})).await;
    assert!(
        causes(&response).contains(
            &"spec: Invalid value: \"object\": no such key: a evaluating rule: self.a <= self.b"
                .to_owned()
        ),
        "{}",
        response.text
    );
}

/// Checks that a rule with `oldSelf` compares an update with the stored object. List items are compared by their key,
/// and sets regardless of their order.
#[tokio::test]
async fn transition_rules_compare_with_the_old_value() {
    let server = server().await;
    let kind = Kind::install(
        &server,
        &definition_with_rules(
            json!({
                "s": {"type": "string", "maxLength": 9, "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "s is immutable"}]},
                "n": {"type": "integer", "x-kubernetes-validations": [
                    {"rule": "!oldSelf.hasValue() || oldSelf.value() <= self", "optionalOldSelf": true, "message": "no decrease"}]},
                "old": {"type": "integer"},
                "l": {"type": "array", "maxItems": 9, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                    "items": {"type": "object", "required": ["name"],
                        "properties": {"name": {"type": "string", "maxLength": 9}, "v": {"type": "integer"}},
                        "x-kubernetes-validations": [{"rule": "self.v >= oldSelf.v", "message": "v up"}]}},
                "set": {"type": "array", "maxItems": 9, "x-kubernetes-list-type": "set", "items": {"type": "string", "maxLength": 9},
                    "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "same set"}]},
            }),
            json!([{"rule": "!oldSelf.hasValue() || !has(self.old)", "optionalOldSelf": true, "message": "create only"}]),
        ),
    )
    .await;
    let first = json!({"s": "x", "n": 3, "set": ["a", "b"], "l": [{"name": "a", "v": 1}, {"name": "b", "v": 5}]});
    assert_eq!(kind.create("o", &first).await.code, 201);
    let refused = [
        (
            json!({"s": "y"}),
            "spec.s: Invalid value: \"y\": s is immutable",
        ),
        (json!({"n": 2}), "spec.n: Invalid value: 2: no decrease"),
        (json!({"old": 1}), "spec: Invalid value: create only"),
        (
            json!({"l": [{"name": "b", "v": 4}, {"name": "c", "v": 0}]}),
            "spec.l[0]: Invalid value: v up",
        ),
        (json!({"set": ["b"]}), "spec.set: Invalid value: same set"),
    ];
    for (spec, expected) in refused {
        let response = kind.replace("o", &spec).await;
        assert_eq!(causes(&response), [expected], "{spec}: {}", response.text);
    }
    let good = json!({"s": "x", "n": 4, "set": ["b", "a"], "l": [{"name": "b", "v": 6}, {"name": "c", "v": 0}]});
    let response = kind.replace("o", &good).await;
    assert_eq!(response.code, 200, "{}", response.text);
}

/// Checks rules that use the CEL libraries of Kubernetes. A valid object passes all rules, and each invalid object
/// fails exactly one rule.
#[tokio::test]
async fn the_cel_libraries_of_kubernetes_are_supported() {
    let server = server().await;
    let rules = [
        "!has(self.l) || self.l.isSorted()",
        "!has(self.l) || self.l.sum() < 100",
        "!has(self.l) || self.l.min() > 0",
        "!has(self.l) || self.l.max() < 60",
        "!has(self.l) || self.l.indexOf(5) != 0",
        "!has(self.s) || self.s.find('[0-9]+') != '7'",
        "!has(self.s) || self.s.findAll('[0-9]').size() < 3",
        "!has(self.s) || !isURL(self.s) || url(self.s).getHost() == 'x.io'",
        "!has(self.q) || quantity(self.q).isLessThan(quantity('2Gi'))",
        "!has(self.s) || self.s.matches('^[a-z0-9:/.]*$')",
        "!has(self.s) || self.s.upperAscii() != 'ABC'",
        "!has(self.s) || self.s.split('.').size() < 4",
        "self.?l.orValue([0]).size() < 4",
        "self.?m[?'k'].orValue('good') != 'bad'",
        "self.?n.optMap(x, x * 2).orValue(0) < 8",
        "type(self.p) == int ? self.p < 10 : string(self.p).endsWith('%')",
        "!has(self.d) || self.d < duration('1h')",
        "!has(self.t) || self.t < timestamp('2030-01-01T00:00:00Z')",
        "!has(self.bytes) || size(self.bytes) == 3",
        "self.foo__dash__bar < 3",
        "sets.contains([1, 2], [1]) && '%d-%s'.format([1, 'a']) == '1-a' && ip('10.0.0.1').family() == 4",
        "cidr('10.0.0.0/8').containsIP('10.1.1.1') && semver('1.2.3').isLessThan(semver('1.3.0'))",
        "!format.dns1123Label().validate('a').hasValue()",
        "has(self.l) ? self.l.all(x, x < 1000) && self.l.map(x, x * 2).exists(x, x > 0) : true",
    ];
    let definition = definition_with_rules(
        json!({
            "l": {"type": "array", "maxItems": 10, "items": {"type": "integer"}},
            "s": {"type": "string", "maxLength": 30}, "q": {"type": "string", "maxLength": 9},
            "m": {"type": "object", "maxProperties": 3, "additionalProperties": {"type": "string", "maxLength": 5}},
            "n": {"type": "integer"}, "p": {"x-kubernetes-int-or-string": true, "default": 1, "maxLength": 9},
            "d": {"type": "string", "format": "duration"}, "t": {"type": "string", "format": "date-time"},
            "bytes": {"type": "string", "format": "byte", "maxLength": 20}, "foo-bar": {"type": "integer", "default": 1},
        }),
        rules.iter().map(|r| json!({"rule": r})).collect(),
    );
    let kind = Kind::install(&server, &definition).await;
    let good = json!({"l": [1, 2, 3], "s": "http://x.io", "q": "1Gi", "m": {"k": "v"}, "n": 3, "p": "5%",
        "d": "30m", "t": "2025-01-01T00:00:00Z", "bytes": "YWJj"});
    let response = kind.create("good", &good).await;
    assert_eq!(response.code, 201, "{}", response.text);
    let cases = [
        (json!({"l": [3, 2, 1]}), 0),
        (json!({"l": [20, 30, 50]}), 1),
        (json!({"l": [0, 1]}), 2),
        (json!({"l": [1, 60]}), 3),
        (json!({"l": [5, 6]}), 4),
        (json!({"s": "7"}), 5),
        (json!({"s": "1a2b3"}), 6),
        (json!({"s": "http://y.io"}), 7),
        (json!({"q": "3Gi"}), 8),
        (json!({"s": "A"}), 9),
        (json!({"s": "abc"}), 10),
        (json!({"s": "a.b.c.d"}), 11),
        (json!({"l": [1, 2, 3, 4]}), 12),
        (json!({"m": {"k": "bad"}}), 13),
        (json!({"n": 4}), 14),
        (json!({"p": "5"}), 15),
        (json!({"d": "2h"}), 16),
        (json!({"t": "2031-01-01T00:00:00Z"}), 17),
        (json!({"bytes": "YWJjZA=="}), 18),
        (json!({"foo-bar": 5}), 19),
    ];
    for (spec, rule) in cases {
        let response = kind.create("bad", &spec).await;
        let expected = format!("spec: Invalid value: failed rule: {}", rules[rule]);
        assert_eq!(causes(&response), [expected], "{spec}: {}", response.text);
    }
}

/// Checks that the server skips the rules for an object that violates its schema, and reports that it skipped them.
#[tokio::test]
async fn rules_are_evaluated_only_on_structurally_valid_objects() {
    let server = server().await;
    let kind = Kind::install(
        &server,
        &definition_with_rules(
            json!({"a": {"type": "integer"}, "s": {"type": "string", "maxLength": 3}}),
            json!([{"rule": "!has(self.a) || self.a > 0", "message": "pos"}]),
        ),
    )
    .await;
    let response = kind.create("o", &json!({"a": -1, "s": "abcd"})).await;
    assert_eq!(
        causes(&response),
        [
            "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation",
            "spec.s: Too long: may not be more than 3 bytes",
        ]
    );
}

/// Checks that a definition with an empty rule or with a rule that does not compile is rejected with the field of this
/// rule.
#[tokio::test]
async fn invalid_rules_are_refused_with_their_definition() {
    let server = server().await;
    let at = "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0]";
    for (rule, cause) in [
        (json!({"rule": ""}), "rule FieldValueRequired"),
        (json!({"rule": "foo > 1"}), "rule FieldValueInvalid"),
        (json!({"rule": "nofn(self.a)"}), "rule FieldValueInvalid"),
        (json!({"rule": "1 + self.a"}), "rule FieldValueInvalid"),
        (json!({"rule": "self.a >"}), "rule FieldValueInvalid"),
        (
            json!({"rule": "true", "messageExpression": "zz"}),
            "messageExpression FieldValueInvalid",
        ),
    ] {
        let definition = definition_with_rules(json!({"a": {"type": "integer"}}), json!([rule]));
        let response = define(&server, &definition).await;
        assert_eq!(response.causes(), [format!("{at}.{cause}")], "{rule}");
    }
}
