//! A scanner that finds the names of metrics and labels in PromQL expressions.

use std::collections::BTreeSet;

use crate::exposition::label_names;

/// The names of metrics and labels in an expression.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Names {
    /// Metrics, each with the labels of its matchers.
    pub(crate) metrics: Vec<(String, Vec<String>)>,
    /// Labels in `by`, `on` and similar clauses.
    pub(crate) grouping: BTreeSet<String>,
}

/// Keywords that precede a list of labels in parentheses.
const CLAUSES: [&str; 6] = [
    "by",
    "without",
    "on",
    "ignoring",
    "group_left",
    "group_right",
];

/// Operators and keywords that can occur without a parenthesis after them. Any other word without a parenthesis is a
/// metric.
const WORDS: [&str; 11] = [
    "and", "or", "unless", "offset", "bool", "sum", "max", "min", "count", "group", "avg",
];

/// Returns the names of metrics and labels in an expression.
pub(crate) fn names(expression: &str) -> Names {
    let mut names = Names::default();
    let mut rest = expression;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' => quoted_length(rest),
            '{' => {
                let length = matchers_length(rest);
                let last = names.metrics.last_mut();
                let (_, labels) = last.unwrap_or_else(|| panic!("no metric before {rest}"));
                labels.extend(matcher_labels(&rest[..length]));
                length
            }
            '[' => rest.find(']').unwrap() + 1,
            '0'..='9' => word_length(rest),
            'a'..='z' | 'A'..='Z' | '_' => {
                let word = &rest[..word_length(rest)];
                let after = rest[word.len()..].trim_start();
                if CLAUSES.contains(&word) {
                    let (list, _) = after[1..].split_once(')').unwrap();
                    let labels = list.split(',').map(|label| label.trim().to_owned());
                    names.grouping.extend(labels);
                    rest.find(')').unwrap() + 1
                } else {
                    if !WORDS.contains(&word) && !after.starts_with('(') {
                        names.metrics.push((word.to_owned(), Vec::new()));
                    }
                    word.len()
                }
            }
            other => other.len_utf8(),
        };
        rest = &rest[length..];
    }
    names
}

fn word_length(text: &str) -> usize {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != ':');
    end.unwrap_or(text.len())
}

fn quoted_length(text: &str) -> usize {
    // The opening quote counts as escaped, so that the loop does not take it for the closing quote.
    let mut escaped = true;
    for (at, character) in text.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    panic!("no end of {text}")
}

fn matchers_length(text: &str) -> usize {
    let mut at = 0;
    loop {
        match &text[at..=at] {
            "}" => return at + 1,
            "\"" => at += quoted_length(&text[at..]),
            _ => at += 1,
        }
    }
}

fn matcher_labels(matchers: &str) -> Vec<String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    // `label_names` expects `=` after each name. Here, `!~` becomes `=`; the `!` of `!=` is trimmed below.
    label_names(&matchers.replace("!~", "="))
        .into_iter()
        .map(|name| name.trim_matches(|c| !is_name(c)).to_owned())
        .collect()
}

/// One expression with functions, matchers, clauses and operators yields its metrics and its labels.
#[test]
fn metrics_matchers_and_grouping_are_found() {
    let found = names(
        "histogram_quantile(0.99, sum by (job, le) (rate(a_bucket{x=~\"1|}\", y!~\"b\",z!=\"\"}[5m])))\n\
         and on (job) max without (z) (c offset 20m == 1) > 0.5",
    );
    let labels = |list: &[&str]| list.iter().map(|&label| label.to_owned()).collect();
    let expected = Names {
        metrics: vec![
            ("a_bucket".to_owned(), labels(&["x", "y", "z"])),
            ("c".to_owned(), Vec::new()),
        ],
        grouping: ["job", "le", "z"].map(str::to_owned).into(),
    };
    assert_eq!(found, expected);
}
