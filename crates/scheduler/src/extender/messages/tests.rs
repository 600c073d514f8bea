use serde_json::{Value, json};

use super::*;

fn names(names: &[&str]) -> Names {
    names.iter().map(|name| Arc::from(*name)).collect()
}

fn decoded(request: &Request, response: &Value) -> Result<Answer, String> {
    decode(request, 2, false, response.to_string().as_bytes()).map_err(|error| error.to_string())
}

/// Returns the rejected clusters with their reasons, sorted by name.
fn rejected(sent: &[&str], response: &Value) -> Vec<(String, String)> {
    let Ok(Answer::Rejected(rejected)) = decoded(&Request::Filter(names(sent)), response) else {
        panic!("{response} is not a filter response");
    };
    let mut rejected: Vec<_> = rejected
        .iter()
        .map(|(name, reason)| (name.to_string(), reason.to_string()))
        .collect();
    rejected.sort();
    rejected
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    let pairs = pairs.iter();
    pairs
        .map(|&(name, reason)| (name.into(), reason.into()))
        .collect()
}

#[test]
fn clusters_missing_in_the_response_are_rejected() {
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
        assert_eq!(rejected(&["a", "b"], &answer), pairs(&expected), "{answer}");
    }
}

#[test]
fn clusters_are_read_from_the_field_that_the_request_used() {
    let request = Request::Filter(names(&["a", "b"]));
    let answer = json!({ "clusterNames": ["a"], "clusters": { "items": [{ "metadata": { "name": "b" } }] } });
    for (names_only, passes) in [(true, "a"), (false, "b")] {
        let Ok(Answer::Rejected(rejected)) =
            decode(&request, 1, names_only, answer.to_string().as_bytes())
        else {
            panic!("not a filter response");
        };
        assert!(!rejected.contains_key(passes) && rejected.len() == 1);
    }
}

#[test]
fn invalid_responses_are_errors() {
    let filter = Request::Filter(names(&["a"]));
    let prioritize = Request::Prioritize(names(&["a"]));
    for (request, answer, expected) in [
        (&filter, json!({ "error": "no database" }), "no database"),
        (
            &filter,
            json!({ "clusterNames": ["a", "x"] }),
            "the response names cluster \"x\", which was not sent",
        ),
        (
            &filter,
            json!({ "clusterNames": ["a"], "failedClusters": { "y": "" } }),
            "the response names cluster \"y\", which was not sent",
        ),
        (
            &filter,
            json!({ "failedAndUnresolvableClusters": { "z": "" } }),
            "the response names cluster \"z\", which was not sent",
        ),
        (
            &filter,
            json!({ "clusterNames": "a" }),
            "malformed response: clusterNames: invalid type: string \"a\", expected a sequence at line 1 column 19",
        ),
        (&filter, json!([]), "malformed response: "),
        (
            &prioritize,
            json!([{ "host": "x", "score": 1 }]),
            "the response names cluster \"x\", which was not sent",
        ),
        (
            &prioritize,
            json!([{ "host": "a", "score": 11 }]),
            "malformed response: the score of cluster \"a\" is 11, not 0 to 10",
        ),
        (
            &prioritize,
            json!([{ "host": "a", "score": -1 }]),
            "malformed response: the score of cluster \"a\" is -1, not 0 to 10",
        ),
        (
            &prioritize,
            json!([{ "host": "a" }]),
            "malformed response: [0]: missing field `score`",
        ),
    ] {
        let error = decoded(request, &answer).unwrap_err();
        assert!(error.starts_with(expected), "{answer}: {error}");
    }
    let error = decode(&filter, 1, true, b"<html>").unwrap_err();
    assert!(matches!(error, CallError::Malformed(_)), "{error}");
}

#[test]
fn scores_are_scaled_and_weighted() {
    let request = Request::Prioritize(names(&["a", "b", "c"]));
    let answer = json!([{ "host": "a", "score": 10 }, { "host": "b", "score": 3 }]);
    let Ok(Answer::Scores(scores)) = decoded(&request, &answer) else {
        panic!("no scores");
    };
    let expected = HashMap::from([("a".into(), 200), ("b".into(), 60)]);
    assert_eq!(*scores, expected);
    let nothing = decoded(&request, &Value::Null).unwrap();
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
fn victims_are_sent_by_cluster_and_the_response_names_the_permitted_ones() {
    let sent = BTreeSet::from([
        victim(Some("shop"), "web", "m1"),
        victim(Some("shop"), "cart", "m1"),
        victim(None, "crd", "m2"),
    ]);
    let sent_json = serde_json::to_value(by_cluster(&sent)).unwrap();
    let expected = json!({
        "m1": { "bindings": [{ "namespace": "shop", "name": "cart" }, { "namespace": "shop", "name": "web" }] },
        "m2": { "bindings": [{ "namespace": "", "name": "crd" }] },
    });
    assert_eq!(sent_json, expected);

    let request = Request::Preempt(Arc::new(sent.clone()));
    let all = decoded(&request, &json!({ "clusterNameToVictims": sent_json })).unwrap();
    assert!(matches!(all, Answer::Victims(permitted) if *permitted == sent));
    let some = json!({ "clusterNameToVictims": { "m2": { "bindings": [{ "name": "crd" }] } } });
    let some = decoded(&request, &some).unwrap();
    assert!(
        matches!(some, Answer::Victims(permitted) if *permitted == BTreeSet::from([victim(None, "crd", "m2")]))
    );
    for (answer, expected) in [
        (
            json!({ "clusterNameToVictims": { "m3": { "bindings": [] } } }),
            "the response names cluster \"m3\", which was not sent",
        ),
        (
            json!({ "clusterNameToVictims": { "m1": { "bindings": [{ "namespace": "shop", "name": "x" }] } } }),
            "the response names binding \"shop/x\", which was not sent",
        ),
    ] {
        assert_eq!(decoded(&request, &answer).unwrap_err(), expected);
    }
}
