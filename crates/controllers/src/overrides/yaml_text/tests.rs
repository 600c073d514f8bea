use serde_json::json;

use super::*;

#[test]
fn only_text_that_would_be_read_as_another_value_is_quoted() {
    for (text, expected) in [
        ("new", "new"),
        ("true", "\"true\""),
        ("no", "\"no\""),
        ("y", "\"y\""),
        ("123", "\"123\""),
        ("1.5", "\"1.5\""),
        ("1e3", "\"1e3\""),
        ("0x1F", "\"0x1F\""),
        ("017", "\"017\""),
        ("12:30:45", "\"12:30:45\""),
        ("null", "\"null\""),
        ("~", "\"~\""),
        ("", "\"\""),
        ("2020-01-01", "\"2020-01-01\""),
        (" lead", "' lead'"),
        ("trail ", "'trail '"),
        ("a: b", "'a: b'"),
        ("a:b", "a:b"),
        ("a #b", "'a #b'"),
        ("a#b", "a#b"),
        ("*x", "'*x'"),
        ("-", "'-'"),
        ("- x", "'- x'"),
        ("-x", "-x"),
        ("?", "'?'"),
        ("@a", "'@a'"),
        ("`a", "'`a'"),
        ("%a", "'%a'"),
        ("!a", "'!a'"),
        ("&a", "'&a'"),
        ("it's \"q\"", "it's \"q\""),
        ("'a'", "'''a'''"),
        ("a\tb", "\"a\\tb\""),
        ("héé – ☃", "héé – ☃"),
        ("1.2.3", "1.2.3"),
        ("1.19", "\"1.19\""),
        ("---a", "'---a'"),
        ("line1\nline2\n", "|\n  line1\n  line2"),
        ("line1\nline2", "|-\n  line1\n  line2"),
        ("line1\n\n", "|+\n  line1\n"),
        (" a\nb\n", "|2\n   a\n  b"),
        ("a \nb", "\"a \\nb\""),
    ] {
        assert_eq!(
            format(&json!({ "k": text })),
            format!("k: {expected}\n"),
            "{text:?}"
        );
    }
}

#[test]
fn documents_are_formatted_as_by_karmada() {
    for (document, expected) in [
        (
            json!({"servers": [{"name": "a", "ports": [80, 443]}, {"name": "b"}], "flow": [1, 2, {"x": true}],
                "nested": [[1, 2], [], {}]}),
            "flow:\n- 1\n- 2\n- x: true\nnested:\n- - 1\n  - 2\n- []\n- {}\nservers:\n- name: a\n  ports:\n  - 80\n  - 443\n- name: b\n",
        ),
        (
            json!({"a": {"b": {"c": [{"d": 1, "e": "x\ny\n"}, "f"]}}, "host": "new"}),
            "a:\n  b:\n    c:\n    - d: 1\n      e: |\n        x\n        y\n    - f\nhost: new\n",
        ),
        (
            json!({"zeta": 1, "alpha": 2, "item10": "a", "item2": "b", "Upper": "c", "_under": "d", "1": "one", "host": "new", "true": 1}),
            "_under: d\n\"1\": one\nUpper: c\nalpha: 2\nhost: new\nitem2: b\nitem10: a\n\"true\": 1\nzeta: 1\n",
        ),
        (
            json!({"e": 1e3, "f": 1.0, "f2": 1.5, "neg": -0.5, "big": 123_456_789_012_345_678_i64, "n": null, "huge": 1e21, "tiny": 1e-7}),
            "big: 123456789012345678\ne: 1000\nf: 1\nf2: 1.5\nhuge: 1e+21\n\"n\": null\nneg: -0.5\ntiny: 1e-07\n",
        ),
        (
            json!({"long": "aaaaaaaaaaaaaaaaaaaa bbbbbbbbbbbbbbbbbbbbbbbbb cccccccccccccccccccccc dddddddddddddddddddd eeeeeeeeeeeeeeeeeeee ffffffffffffffff"}),
            "long: aaaaaaaaaaaaaaaaaaaa bbbbbbbbbbbbbbbbbbbbbbbbb cccccccccccccccccccccc dddddddddddddddddddd\n  eeeeeeeeeeeeeeeeeeee ffffffffffffffff\n",
        ),
        (json!(["new", {"b": "c"}]), "- new\n- b: c\n"),
        (json!({}), "{}\n"),
        (json!("a"), "a\n"),
    ] {
        assert_eq!(format(&document), expected);
    }
}
