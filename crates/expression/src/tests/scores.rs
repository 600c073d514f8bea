//! Tests of expressions that read scores: absence, expiry, age, conflicts, the cache, and explanations.

use berth_api::ClusterScore;
use k8s_openapi::jiff::Timestamp;

use super::*;

/// A ClusterScore that was measured at second 100.
fn score(name: &str, cluster: &str, scores: &Json, until: Option<i64>) -> ClusterScore {
    let object = json!({
        "apiVersion": "scheduling.berth/v1alpha1", "kind": "ClusterScore", "metadata": { "name": name },
        "spec": { "clusterName": cluster, "scores": scores, "timestamp": at(100).to_string(),
            "validUntil": until.map(|until| at(until).to_string()) },
    });
    serde_json::from_value(object).unwrap()
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

impl Fixture {
    fn schedule_at(&mut self, second: i64) -> Result<String, String> {
        let (snapshot, request) = (self.snapshot(), request("red").with_time(at(second)));
        selected(&self.engine.schedule(&snapshot, &request))
    }

    /// Returns the clusters that pass the filters, in the order of their names.
    fn passing_at(&mut self, second: i64) -> String {
        let (snapshot, request) = (self.snapshot(), request("red").with_time(at(second)));
        let (_, explanation) = self.engine.explain(&snapshot, &request);
        let clusters = explanation.clusters_of_last_term().unwrap().iter();
        let passing = clusters.filter(|(_, cluster)| cluster.refusal.is_none());
        passing
            .map(|(name, _)| &**name)
            .collect::<Vec<_>>()
            .join(" ")
    }
}

fn filtered(expression: &str) -> Fixture {
    fixture(json!({ "filter": [{ "expression": expression }] }))
}

#[test]
fn absent_and_expired_scores_have_the_default_of_the_expression() {
    for expression in [
        "(has(cluster.scores.carbon) ? cluster.scores.carbon.value : 500.0) < 300.0",
        "cluster.scores.?carbon.value.orValue(500.0) < 300.0",
        "cluster.scores[?'carbon'].?value.orValue(500.0) < 300.0",
        "'carbon' in cluster.scores && cluster.scores['carbon'].value < 300",
        "cluster.scores.exists(name, name == 'carbon' && cluster.scores[name].value <= 100)",
    ] {
        let mut fixture = filtered(expression);
        fixture
            .fleet
            .apply_score(&score("a", "low", &json!({ "carbon": 100 }), Some(200)));
        fixture.fleet.apply_score(&score(
            "b",
            "high",
            &json!({ "carbon": 300.5, "cost": 1 }),
            None,
        ));
        assert_eq!(fixture.passing_at(199), "low", "{expression}");
        assert_eq!(fixture.passing_at(200), "", "{expression}");
        assert_eq!(fixture.passing_at(150), "low", "{expression}");
    }
}

#[test]
fn missing_scores_without_a_default_fail() {
    let mut fixture = filtered("cluster.scores.carbon.value < 300.0");
    let error = fixture.schedule_at(0).unwrap_err();
    assert!(error.contains("failed: no such key: carbon"), "{error}");
    let args =
        json!({ "score": [{ "expression": "100.0 - cluster.scores.carbon.value", "default": 7 }] });
    let mut fixture = super::fixture(args);
    fixture
        .fleet
        .apply_score(&score("a", "low", &json!({ "carbon": 92.4 }), None));
    assert_eq!(fixture.schedule_at(0), Ok("low".into()));
}

#[test]
fn the_age_grows_with_the_time_of_the_decision() {
    let mut fixture = filtered("cluster.scores.?carbon.ageSeconds.orValue(999) < 60");
    fixture
        .fleet
        .apply_score(&score("a", "low", &json!({ "carbon": 1 }), None));
    for (second, passing) in [(100, "low"), (159, "low"), (160, ""), (120, "low")] {
        assert_eq!(fixture.passing_at(second), passing, "{second}");
    }
}

#[test]
fn changed_and_removed_scores_leave_the_cache() {
    let mut fixture = filtered("cluster.scores.carbon.value < 300.0");
    let carbon = |value: f64| score("a", "low", &json!({ "carbon": value }), None);
    for (value, passing) in [(100.0, "low"), (400.0, ""), (200.0, "low")] {
        fixture.fleet.apply_score(&carbon(value));
        assert_eq!(fixture.passing_at(100), passing, "{value}");
    }
    fixture.fleet.remove_score("a");
    assert_eq!(fixture.passing_at(100), "");
}

#[test]
fn results_are_cached_until_a_score_expires() {
    let mut fixture = filtered("cluster.scores.carbon.value < 300.0");
    fixture
        .fleet
        .apply_score(&score("a", "low", &json!({ "carbon": 1 }), Some(200)));
    let scope = |fixture: &mut Fixture, second: i64| {
        fixture.passing_at(second);
        let snapshot = fixture.snapshot();
        let view = snapshot.cluster(snapshot.ordinal("low").unwrap()).unwrap();
        let mut cache = fixture.plugin.clusters();
        let cached = cache.get(&view, &fixture.plugin.cluster_paths, at(second));
        cached.unwrap().filter.len()
    };
    assert_eq!(scope(&mut fixture, 150), 1);
    let snapshot = fixture.snapshot();
    let view = snapshot.cluster(snapshot.ordinal("low").unwrap()).unwrap();
    let results = |second| {
        let mut cache = fixture.plugin.clusters();
        let cached = cache.get(&view, &fixture.plugin.cluster_paths, at(second));
        cached.unwrap().filter.len()
    };
    assert_eq!([results(199), results(200)], [1, 0]);
}

#[test]
fn explanations_contain_the_scores_that_the_expressions_read() {
    let args = json!({
        "filter": [{ "expression": "cluster.scores.?carbon.value.orValue(0.0) < 300.0" }],
        "score": [{ "expression": "cluster.scores.?cost.value.orValue(1.5)" }],
    });
    let mut fixture = fixture(args);
    fixture.fleet.apply_score(&score(
        "a",
        "low",
        &json!({ "carbon": 1, "other": 2 }),
        Some(200),
    ));
    fixture
        .fleet
        .apply_score(&score("b", "low", &json!({ "cost": 0.25 }), None));
    let snapshot = fixture.snapshot();
    let request = request("red").with_time(at(230));
    let (_, explanation) = fixture.engine.explain(&snapshot, &request);
    let clusters = explanation.clusters_of_last_term().unwrap();
    let inputs = |name: &str| clusters[name].inputs[Expression::NAME].clone();
    assert_eq!(
        inputs("low"),
        [
            "score carbon in ClusterScore a expired at 1970-01-01T00:03:20Z",
            "score cost is 0.25, 130s old, in ClusterScore b",
        ]
    );
    assert_eq!(
        inputs("bare"),
        ["carbon", "cost"].map(|name| format!("score {name} is missing: no ClusterScore has it"))
    );
}

#[test]
fn only_expressions_with_scores_read_scores() {
    for (expression, reads) in [
        ("cluster.metadata.name == 'a'", false),
        ("cluster.scores.carbon.value > 1.0", true),
        ("size(cluster.scores) > 1", true),
        ("size(cluster) > 1", true),
    ] {
        let plugin = plugin(json!({ "filter": [{ "expression": expression }] })).unwrap();
        assert_eq!(plugin.reads_scores(), reads, "{expression}");
    }
}

#[test]
fn misspelt_fields_and_mixed_numbers_are_refused() {
    for (expression, starts) in [
        (
            "cluster.scores.carbon.age < 60",
            "line 1, column 23: there is no field \"age\" here, but ageSeconds, value",
        ),
        (
            "cluster.score.carbon.value < 60.0",
            "line 1, column 9: there is no field \"score\" here, but apiVersion, ",
        ),
        (
            "cluster.scores.carbon.value == 'a'",
            "line 1, column 1: cannot apply == to a number and a string",
        ),
        (
            "100 - cluster.scores.carbon.value > 0.0",
            "line 1, column 1: cannot apply - to a whole number and a decimal",
        ),
        (
            "100.0 - int(cluster.scores.carbon.value) > 0.0",
            "line 1, column 1: cannot apply - to a whole number and a decimal",
        ),
        (
            "2 * (1.0 - cluster.scores.carbon.value) > 0.0",
            "line 1, column 1: cannot apply * to a whole number and a decimal",
        ),
        (
            "cluster.scores.?carbon.value.orValue(500) < 300.0",
            "line 1, column 1: cannot apply orValue to a whole number and a decimal",
        ),
    ] {
        let error = plugin(json!({ "filter": [{ "expression": expression }] })).unwrap_err();
        assert!(error.message.starts_with(starts), "{expression}: {error}");
    }
}
