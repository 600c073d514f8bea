//! Options that make no sense are refused in the words of a real server.

use serde_json::{Value, json};

use crate::harness::Harness;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test]
async fn lists_are_refused_what_makes_no_sense() {
    let h = Harness::start().await;
    let options =
        |why: &str| format!("ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: {why}");
    let cases = [
        (
            "resourceVersionMatch=Exact",
            422,
            options("Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"),
        ),
        (
            "resourceVersionMatch=Foo&resourceVersion=1",
            422,
            options("Unsupported value: \"Foo\": supported values: \"Exact\", \"NotOlderThan\", \"\""),
        ),
        (
            "resourceVersionMatch=Exact&resourceVersion=0",
            422,
            options("Forbidden: resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\""),
        ),
        (
            "continue=abc&resourceVersionMatch=Exact&resourceVersion=1",
            422,
            options("Forbidden: resourceVersionMatch is forbidden when continue is provided"),
        ),
        (
            "continue=abc&resourceVersion=1",
            400,
            "specifying resource version is not allowed when using continue".to_owned(),
        ),
        ("limit=x", 400, "strconv.ParseInt: parsing \"x\": invalid syntax".to_owned()),
        (
            "fieldSelector=spec.foo%3D1",
            400,
            "\"spec.foo\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"".to_owned(),
        ),
    ];
    for (query, code, message) in cases {
        let (found, answer) = h
            .raw("GET", &format!("{MAPS}?{query}"), "", Vec::new())
            .await;
        assert_eq!(
            (found, answer["message"].as_str()),
            (code, Some(message.as_str())),
            "{query}"
        );
    }
    let (code, _) = h
        .raw("GET", &format!("{MAPS}?limit=-1"), "", Vec::new())
        .await;
    assert_eq!(code, 200);
    let pods = "/api/v1/namespaces/default/pods?fieldSelector=spec.foo%3D1";
    let (_, answer) = h.raw("GET", pods, "", Vec::new()).await;
    assert_eq!(answer["message"], "field label not supported: spec.foo");
}

#[tokio::test]
async fn writes_are_refused_what_makes_no_sense() {
    let h = Harness::start().await;
    let map = |name: &str, data: Value| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
            .to_string()
    };
    let apply = "application/apply-patch+yaml";
    let path = |manager: &str| format!("{MAPS}/a?fieldManager={manager}");
    let first = map("a", json!({"a": "1"})).into_bytes();
    assert_eq!(h.raw("PATCH", &path("one"), apply, first).await.0, 201);
    let second = map("a", json!({"a": "2"})).into_bytes();
    let (code, answer) = h.raw("PATCH", &path("two"), apply, second).await;
    assert_eq!(code, 409);
    assert_eq!(
        answer["message"],
        "Apply failed with 1 conflict: conflict with \"one\": .data.a"
    );
    let forced = format!("{MAPS}/a?force=true");
    let merge = "application/merge-patch+json";
    let (code, answer) = h.raw("PATCH", &forced, merge, b"{}".to_vec()).await;
    assert_eq!(code, 422);
    assert_eq!(
        answer["message"],
        "PatchOptions.meta.k8s.io \"\" is invalid: force: Forbidden: may not be specified for non-apply patch"
    );
    let policy = format!("{MAPS}/a?propagationPolicy=Foo");
    let (code, answer) = h
        .raw("DELETE", &policy, "application/json", Vec::new())
        .await;
    assert_eq!(code, 422);
    assert_eq!(
        answer["message"],
        "DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: Unsupported value: \"Foo\": supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\""
    );
}
