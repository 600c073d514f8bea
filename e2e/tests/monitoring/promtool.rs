//! Validation of the alert rules and the dashboard queries with promtool.

use std::path::Path;
use std::process::Command;

use berth_test_requirements::needs;
use serde_json::json;

use crate::dashboards::queries;
use crate::rules::{RULES, TESTS};
use crate::{files, in_repository};

fn promtool(arguments: &[&str], paths: &[impl AsRef<Path>]) {
    let output = Command::new("promtool")
        .args(arguments)
        .args(paths.iter().map(AsRef::as_ref))
        .output()
        .unwrap();
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{arguments:?}\n{out}{err}");
}

#[needs(promtool)]
#[test]
fn the_rules_are_valid_and_pass_their_tests() {
    promtool(
        &["check", "rules", "--lint=all", "--lint-fatal"],
        &[in_repository(RULES)],
    );
    promtool(&["test", "rules"], &files(TESTS, "yaml"));
}

#[needs(promtool)]
#[test]
fn the_queries_of_dashboards_are_valid() {
    let rules: Vec<_> = queries()
        .into_iter()
        .enumerate()
        .map(|(number, query)| {
            let expression = query.expression.replace("$__rate_interval", "5m");
            json!({ "record": format!("query_{number}"), "expr": expression })
        })
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("queries.yaml");
    // promtool reads YAML, and every JSON document is valid YAML.
    let groups = json!({ "groups": [{ "name": "queries", "rules": rules }] });
    std::fs::write(&file, groups.to_string()).unwrap();
    promtool(&["check", "rules"], &[file]);
}
