use serde_json::{Value, json};

use super::*;

fn names(names: &[&str]) -> Names {
    names.iter().map(|name| Arc::from(*name)).collect()
}

fn answered(question: &Question, answer: &Value) -> Result<Answer, String> {
    read(question, 2, false, answer.to_string().as_bytes()).map_err(|error| error.to_string())
}

/// The refused clusters with their reasons, by name.
fn refused(sent: &[&str], answer: &Value) -> Vec<(String, String)> {
    let Ok(Answer::Refused(refused)) = answered(&Question::Filter(names(sent)), answer) else {
        panic!("{answer} is no answer to a filter call");
    };
    let mut refused: Vec<_> = refused
        .iter()
        .map(|(name, reason)| (name.to_string(), reason.to_string()))
        .collect();
    refused.sort();
    refused
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    let pairs = pairs.iter();
    pairs
        .map(|&(name, reason)| (name.into(), reason.into()))
        .collect()
}

#[test]
fn clusters_that_are_not_named_do_not_pass() {
    let unnamed = "cluster(s) did not pass an extender";
    for (answer, expected) in [
        (json!({ "clusterNames": ["a", "b"] }), vec![]),
        (
            json!({ "clusters": { "items": [{ "metadata": { "name": "a", "labels": {} }, "spec": {} }] } }),
            vec![("b", unnamed)],
        ),
        (
            json!({ "clusterNames": ["a"], "failedClusters": { "b": "full" } }),
            vec![("b", "full")],
        ),
        (
            json!({ "clusterNames": ["a"], "failedClusters": { "b": "full" }, "failedAndUnresolvableClusters": { "b": "never" } }),
            vec![("b", "never")],
        ),
        (
            json!({ "clusterNames": ["a"], "failedClusters": { "b": "" }, "error": "" }),
            vec![("b", unnamed)],
        ),
        (
            json!({ "clusters": null, "clusterNames": null, "failedClusters": null, "failedAndUnresolvableClusters": null, "error": null }),
            vec![("a", unnamed), ("b", unnamed)],
        ),
        (
            json!({ "clusters": { "items": null } }),
            vec![("a", unnamed), ("b", unnamed)],
        ),
        (json!({}), vec![("a", unnamed), ("b", unnamed)]),
    ] {
        assert_eq!(refused(&["a", "b"], &answer), pairs(&expected), "{answer}");
    }
}

#[test]
fn of_two_ways_to_name_clusters_the_one_that_was_sent_counts() {
    let question = Question::Filter(names(&["a", "b"]));
    let answer = json!({ "clusterNames": ["a"], "clusters": { "items": [{ "metadata": { "name": "b" } }] } });
    for (names_only, passes) in [(true, "a"), (false, "b")] {
        let Ok(Answer::Refused(refused)) =
            read(&question, 1, names_only, answer.to_string().as_bytes())
        else {
            panic!("no answer");
        };
        assert!(!refused.contains_key(passes) && refused.len() == 1);
    }
}

#[test]
fn answers_that_cannot_be_used_are_errors() {
    let filter = Question::Filter(names(&["a"]));
    let prioritize = Question::Prioritize(names(&["a"]));
    for (question, answer, expected) in [
        (&filter, json!({ "error": "no database" }), "no database"),
        (
            &filter,
            json!({ "clusterNames": ["a", "x"] }),
            "the answer names cluster \"x\", which was not sent",
        ),
        (
            &filter,
            json!({ "clusterNames": ["a"], "failedClusters": { "y": "" } }),
            "the answer names cluster \"y\", which was not sent",
        ),
        (
            &filter,
            json!({ "failedAndUnresolvableClusters": { "z": "" } }),
            "the answer names cluster \"z\", which was not sent",
        ),
        (
            &filter,
            json!({ "clusterNames": "a" }),
            "malformed answer: clusterNames: invalid type: string \"a\", expected a sequence at line 1 column 19",
        ),
        (&filter, json!([]), "malformed answer: "),
        (
            &prioritize,
            json!([{ "host": "x", "score": 1 }]),
            "the answer names cluster \"x\", which was not sent",
        ),
        (
            &prioritize,
            json!([{ "host": "a", "score": 11 }]),
            "malformed answer: the score of cluster \"a\" is 11, not 0 to 10",
        ),
        (
            &prioritize,
            json!([{ "host": "a", "score": -1 }]),
            "malformed answer: the score of cluster \"a\" is -1, not 0 to 10",
        ),
        (
            &prioritize,
            json!([{ "host": "a" }]),
            "malformed answer: [0]: missing field `score`",
        ),
    ] {
        let error = answered(question, &answer).unwrap_err();
        assert!(error.starts_with(expected), "{answer}: {error}");
    }
    let error = read(&filter, 1, true, b"<html>").unwrap_err();
    assert!(matches!(error, CallError::Malformed(_)), "{error}");
}

#[test]
fn scores_are_scaled_and_weighted() {
    let question = Question::Prioritize(names(&["a", "b", "c"]));
    let answer = json!([{ "host": "a", "score": 10 }, { "host": "b", "score": 3 }]);
    let Ok(Answer::Scores(scores)) = answered(&question, &answer) else {
        panic!("no scores");
    };
    let expected = HashMap::from([("a".into(), 200), ("b".into(), 60)]);
    assert_eq!(*scores, expected);
    let nothing = answered(&question, &Value::Null).unwrap();
    assert!(matches!(nothing, Answer::Scores(scores) if scores.is_empty()));
}

fn victim(namespace: Option<&str>, name: &str, cluster: &str) -> Victim {
    Victim {
        key: BindingKey {
            namespace: namespace.map(Arc::from),
            name: name.into(),
        },
        cluster: cluster.into(),
    }
}

#[test]
fn victims_go_out_by_cluster_and_a_subset_comes_back() {
    let sent = BTreeSet::from([
        victim(Some("shop"), "web", "m1"),
        victim(Some("shop"), "cart", "m1"),
        victim(None, "crd", "m2"),
    ]);
    let out = serde_json::to_value(by_cluster(&sent)).unwrap();
    let expected = json!({
        "m1": { "bindings": [{ "namespace": "shop", "name": "cart" }, { "namespace": "shop", "name": "web" }] },
        "m2": { "bindings": [{ "namespace": "", "name": "crd" }] },
    });
    assert_eq!(out, expected);

    let question = Question::Preempt(Arc::new(sent.clone()));
    let all = answered(&question, &json!({ "clusterNameToVictims": out })).unwrap();
    assert!(matches!(all, Answer::Victims(kept) if *kept == sent));
    let some = json!({ "clusterNameToVictims": { "m2": { "bindings": [{ "name": "crd" }] } } });
    let some = answered(&question, &some).unwrap();
    assert!(
        matches!(some, Answer::Victims(kept) if *kept == BTreeSet::from([victim(None, "crd", "m2")]))
    );
    for (answer, expected) in [
        (
            json!({ "clusterNameToVictims": { "m3": { "bindings": [] } } }),
            "the answer names cluster \"m3\", which was not sent",
        ),
        (
            json!({ "clusterNameToVictims": { "m1": { "bindings": [{ "namespace": "shop", "name": "x" }] } } }),
            "the answer names binding \"shop/x\", which was not sent",
        ),
    ] {
        assert_eq!(answered(&question, &answer).unwrap_err(), expected);
    }
}
