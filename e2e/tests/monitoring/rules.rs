//! Tests of the alert rules: each rule has labels, annotations, a runbook and test cases. [`crate::promtool`] runs
//! these test cases.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::{files, read};

/// The file with the alert rules, which the chart installs.
pub(crate) const RULES: &str = "deploy/chart/files/prometheus-rules.yaml";
/// The folder with promtool's test cases of the rules.
pub(crate) const TESTS: &str = "deploy/monitoring/tests";
const RUNBOOKS: &str = "docs/runbooks";

/// Returns the alert rules of [`RULES`].
pub(crate) fn rules() -> Vec<Value> {
    let file: Value = serde_saphyr::from_str(&read(RULES)).unwrap();
    let groups = file["groups"].as_array().unwrap();
    let rules = groups.iter().filter_map(|group| group["rules"].as_array());
    rules.flatten().cloned().collect()
}

/// Returns the string at a JSON pointer.
pub(crate) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    let text = value.pointer(pointer).and_then(Value::as_str);
    text.unwrap_or_else(|| panic!("{pointer} is no text in {value}"))
}

/// Checks the severity, the summary, the description and the runbook of each alert. The title of a runbook is the name
/// of the alert, and the index of runbooks has a row for each alert.
#[test]
fn every_alert_has_a_severity_a_description_and_a_runbook() {
    let index = read(&format!("{RUNBOOKS}/README.md"));
    let mut runbooks = BTreeSet::new();
    for rule in rules() {
        let name = text(&rule, "/alert");
        let severity = text(&rule, "/labels/severity");
        assert!(["critical", "warning"].contains(&severity), "{name}");
        for annotation in ["summary", "description"] {
            let text = text(&rule, &format!("/annotations/{annotation}"));
            assert!(text.ends_with('.') && text.len() > 10, "{name}: {text}");
        }
        let runbook = text(&rule, "/annotations/runbook_url");
        let page = read(runbook);
        assert!(page.starts_with(&format!("# {name}\n")), "{runbook}");
        let file = runbook.strip_prefix("docs/runbooks/").unwrap();
        let row = format!("| `{name}` | {severity} | [");
        let is_listed = index
            .lines()
            .any(|line| line.starts_with(&row) && line.ends_with(&format!("]({file}) |")));
        assert!(is_listed, "{name} is not in the index of runbooks");
        runbooks.insert(file.to_owned());
    }
    let pages = files(RUNBOOKS, "md").into_iter();
    let pages: BTreeSet<_> = pages
        .map(|page| page.file_name().unwrap().to_str().unwrap().to_owned())
        .filter(|page| page != "README.md")
        .collect();
    assert_eq!(pages, runbooks, "each runbook must belong to an alert");
}

/// Checks that each alert fires in one of promtool's test cases, and does not fire in another test case.
#[test]
fn every_alert_is_tested_with_and_without_its_cause() {
    let (mut fires, mut rests) = (BTreeSet::new(), BTreeSet::new());
    for file in files(TESTS, "yaml") {
        let file: Value = serde_saphyr::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
        for test in file["tests"].as_array().unwrap() {
            for case in test["alert_rule_test"].as_array().unwrap() {
                let expected = case["exp_alerts"].as_array().unwrap();
                let set = if expected.is_empty() {
                    &mut rests
                } else {
                    &mut fires
                };
                set.insert(text(case, "/alertname").to_owned());
            }
        }
    }
    let alerts: BTreeSet<_> = rules()
        .iter()
        .map(|rule| text(rule, "/alert").to_owned())
        .collect();
    assert_eq!(fires, alerts, "each alert must fire in a test case");
    assert_eq!(rests, alerts, "each alert must stay silent in a test case");
}
