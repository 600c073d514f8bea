//! Tests of the Grafana dashboards of the Helm chart: their format, and the metrics and labels in their queries. The
//! expressions of the alert rules pass the same check of metrics and labels.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::promql::names;
use crate::reference::documented;
use crate::rules::{rules, text};
use crate::{files, read};

const DASHBOARDS: &str = "deploy/chart/files/dashboards";
/// Labels that Prometheus adds to each sample when it scrapes a target.
const TARGET_LABELS: [&str; 3] = ["namespace", "job", "instance"];

/// A query of a dashboard, or the expression of an alert rule.
#[derive(Debug)]
pub(crate) struct Query {
    /// The dashboard with its panel or variable, or the name of the alert.
    location: String,
    pub(crate) expression: String,
    /// Labels that the legend or the variable shows.
    legend: Vec<String>,
}

fn dashboards() -> Vec<(String, Value)> {
    files(DASHBOARDS, "json")
        .into_iter()
        .map(|file| {
            let text = std::fs::read_to_string(&file).unwrap();
            let name = file.file_name().unwrap().to_str().unwrap().to_owned();
            (name, serde_json::from_str(&text).unwrap())
        })
        .collect()
}

fn panels(dashboard: &Value) -> &Vec<Value> {
    dashboard["panels"].as_array().unwrap()
}

/// Returns the queries of all panels and variables in all dashboards.
pub(crate) fn queries() -> Vec<Query> {
    let mut queries = Vec::new();
    for (file, dashboard) in dashboards() {
        for variable in dashboard["templating"]["list"].as_array().unwrap() {
            if variable["type"] != "query" {
                continue;
            }
            let query = text(variable, "/query/query");
            let arguments = query.strip_prefix("label_values(").unwrap();
            let (expression, label) = arguments
                .strip_suffix(')')
                .unwrap()
                .rsplit_once(", ")
                .unwrap();
            queries.push(Query {
                location: format!("{file}: variable {}", text(variable, "/name")),
                expression: expression.to_owned(),
                legend: vec![label.to_owned()],
            });
        }
        for panel in panels(&dashboard) {
            for target in panel["targets"].as_array().into_iter().flatten() {
                let legend = text(target, "/legendFormat").split("{{").skip(1);
                let legend = legend.map(|part| part.split_once("}}").unwrap().0.to_owned());
                queries.push(Query {
                    location: format!("{file}: {}", text(panel, "/title")),
                    expression: text(target, "/expr").to_owned(),
                    legend: legend.collect(),
                });
            }
        }
    }
    assert!(queries.len() > 80, "found {} queries", queries.len());
    queries
}

/// Checks that `docs/metrics.md` lists each metric in the queries and alert rules, and each label except those that
/// Prometheus adds.
#[test]
fn queries_and_rules_use_documented_metrics_and_labels() {
    let documented = documented();
    let alerts = rules().into_iter().map(|rule| Query {
        location: text(&rule, "/alert").to_owned(),
        expression: text(&rule, "/expr").to_owned(),
        legend: Vec::new(),
    });
    let mut problems = Vec::new();
    for query in queries().into_iter().chain(alerts) {
        let location = &query.location;
        let names = names(&query.expression);
        let mut labels: BTreeSet<&str> = TARGET_LABELS.into();
        for (metric, matchers) in &names.metrics {
            let parts = ["_bucket", "_count", "_sum"];
            let family = parts.iter().find_map(|part| metric.strip_suffix(part));
            let histogram = family
                .and_then(|family| documented.get(family))
                .filter(|family| family.kind == "histogram");
            let family = histogram.or_else(|| {
                let family = documented.get(metric)?;
                (family.kind != "histogram").then_some(family)
            });
            let Some(family) = family else {
                problems.push(format!("{location}: no program exports {metric}"));
                continue;
            };
            let mut known: BTreeSet<&str> = family.labels.iter().map(String::as_str).collect();
            known.extend(TARGET_LABELS);
            if metric.ends_with("_bucket") {
                known.insert("le");
            }
            for matcher in matchers {
                if !known.contains(matcher.as_str()) {
                    problems.push(format!("{location}: {metric} has no label {matcher}"));
                }
            }
            labels.extend(known);
        }
        for label in names.grouping.iter().chain(&query.legend) {
            if !labels.contains(label.as_str()) {
                problems.push(format!("{location}: no metric has the label {label}"));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// Checks that each dashboard has a unique UID, a variable for its data source, panels that do not overlap, and an
/// entry in the README.
#[test]
fn dashboards_can_be_imported_into_any_grafana() {
    let mut dashboard_ids = BTreeSet::new();
    for (file, dashboard) in dashboards() {
        assert!(
            dashboard_ids.insert(text(&dashboard, "/uid").to_owned()),
            "{file}"
        );
        // Grafana assigns an id when it imports a dashboard, so the file must not contain an id.
        assert!(dashboard.get("id").is_none(), "{file}");
        let variables = dashboard["templating"]["list"].as_array().unwrap();
        assert_eq!(variables[0]["name"], "datasource", "{file}");
        assert_eq!(variables[0]["query"], "prometheus", "{file}");
        let variables: BTreeSet<_> = variables.iter().map(|v| text(v, "/name")).collect();
        let mut ids = BTreeSet::new();
        let mut cells: BTreeMap<(u64, u64), &str> = BTreeMap::new();
        for panel in panels(&dashboard) {
            let title = text(panel, "/title");
            assert!(
                ids.insert(panel["id"].as_u64().unwrap()),
                "{file}: the id of {title} is not unique"
            );
            let side = |name: &str| panel["gridPos"][name].as_u64().unwrap();
            assert!(side("x") + side("w") <= 24, "{file}: {title} is too wide");
            for x in side("x")..side("x") + side("w") {
                for y in side("y")..side("y") + side("h") {
                    let other = cells.insert((x, y), title);
                    assert_eq!(other, None, "{file}: {title} overlaps");
                }
            }
            if panel["type"] == "row" {
                continue;
            }
            assert!(
                text(panel, "/description").ends_with('.'),
                "{file}: {title}"
            );
            assert!(!text(panel, "/fieldConfig/defaults/unit").is_empty());
            let targets = panel["targets"].as_array().unwrap();
            for source in targets.iter().chain([panel]) {
                let uid = text(source, "/datasource/uid");
                assert_eq!(uid, "${datasource}", "{file}: {title}");
            }
            for used in targets.iter().map(|target| text(target, "/expr")) {
                for variable in used.split('$').skip(1) {
                    let end = variable.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
                    let variable = &variable[..end.unwrap_or(variable.len())];
                    let is_known = variable == "__rate_interval" || variables.contains(variable);
                    assert!(is_known, "{file}: {title} uses ${variable}");
                }
            }
        }
    }
    let readme = read("deploy/monitoring/README.md");
    for (file, _) in dashboards() {
        assert!(
            readme.contains(&format!("`{file}`")),
            "{file} is not described"
        );
    }
}
