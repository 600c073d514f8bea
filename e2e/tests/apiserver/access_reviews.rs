//! Tests of access reviews and rules reviews: their results, and the refusal of invalid reviews.

use serde_json::json;

use crate::authorization::{REVIEWS, grant, request_as, unique};
use crate::harness::content_type::JSON;
use crate::harness::objects::{ResponseStatus, status_of};
use crate::harness::server;
use crate::harness::server::ApiResponse;

/// Checks that access reviews return the decision and the RoleBinding that allows the request, and that a rules review
/// lists the rules of a user. An invalid review gets 422.
#[tokio::test]
async fn access_reviews_return_decision_and_reason() {
    let server = server().await;
    let namespace = server.namespace().await;
    let user = unique("user");
    let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "resourceNames": ["a"]}]);
    grant(&server, &namespace, &user, rules).await;
    let review = |name: &str| {
        json!({"spec": {"resourceAttributes": {
        "namespace": namespace, "verb": "get", "resource": "pods", "name": name}}})
    };
    let own = format!("{REVIEWS}/selfsubjectaccessreviews");
    let assert_allowed = |response: &ApiResponse| {
        let status = &response.json["status"];
        let reason = status["reason"].as_str().unwrap_or_default();
        let begins = "RBAC: allowed by RoleBinding \"given";
        assert!(
            response.code == 201 && status["allowed"] == true && reason.starts_with(begins),
            "{}",
            response.text
        );
    };
    let response = request_as(&server, &user, "POST", &own, &review("a")).await;
    assert_allowed(&response);
    let response = request_as(&server, &user, "POST", &own, &review("b")).await;
    assert_eq!(response.json["status"], json!({"allowed": false}));
    let response = server
        .raw("POST", &own, &[JSON], review("b").to_string())
        .await;
    assert_eq!(response.json["status"], json!({"allowed": true}));

    let mut of_another = review("a");
    of_another["spec"]["user"] = json!(user);
    for path in [
        format!("{REVIEWS}/subjectaccessreviews"),
        format!("{REVIEWS}/namespaces/{namespace}/localsubjectaccessreviews"),
    ] {
        let response = server
            .raw("POST", &path, &[JSON], of_another.to_string())
            .await;
        assert_allowed(&response);
    }
    let path = format!("{REVIEWS}/selfsubjectrulesreviews");
    let spec = json!({"spec": {"namespace": namespace}});
    let response = request_as(&server, &user, "POST", &path, &spec).await;
    let granted = response.json["status"]["resourceRules"].as_array().unwrap();
    let expected =
        json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"]});
    assert!(granted.contains(&expected), "{}", response.text);

    for (spec, message) in [
        (
            json!({"user": "x"}),
            "spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified",
        ),
        (
            json!({"resourceAttributes": {"verb": "get", "resource": "pods"}}),
            "spec.user: Invalid value: \"\": at least one of user or group must be specified",
        ),
    ] {
        let path = format!("{REVIEWS}/subjectaccessreviews");
        let body = json!({ "spec": spec }).to_string();
        let response = server.raw("POST", &path, &[JSON], body).await;
        let expected = format!(".authorization.k8s.io \"\" is invalid: {message}");
        assert_eq!(
            (response.code, &response.json["message"]),
            (422, &json!(expected))
        );
    }
}

#[tokio::test]
async fn invalid_access_reviews_are_refused() {
    let server = server().await;
    let local = format!("{REVIEWS}/namespaces/default/localsubjectaccessreviews");
    let rules = format!("{REVIEWS}/selfsubjectrulesreviews");
    let path =
        json!({"spec": {"user": "u", "nonResourceAttributes": {"path": "/", "verb": "get"}}});
    let both = json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"},
        "nonResourceAttributes": {"path": "/", "verb": "get"}}});
    for (url, body, code, message) in [
        (
            &local,
            path.to_string(),
            422,
            ".authorization.k8s.io \"\" is invalid: spec.nonResourceAttributes: Invalid value: \
             {\"Path\":\"/\",\"Verb\":\"get\"}: disallowed on this kind of request",
        ),
        (
            &format!("{REVIEWS}/selfsubjectaccessreviews"),
            both.to_string(),
            422,
            ".authorization.k8s.io \"\" is invalid: spec.nonResourceAttributes: Invalid value: \
             {\"Path\":\"/\",\"Verb\":\"get\"}: cannot be specified in combination with resourceAttributes",
        ),
        (
            &rules,
            String::new(),
            400,
            "the object provided is unrecognized (must be of type SelfSubjectRulesReview): couldn't get version/kind; \
             json parse error: ",
        ),
        (
            &rules,
            json!({"spec": {}}).to_string(),
            400,
            "no namespace on request",
        ),
    ] {
        let response = server.raw("POST", url, &[JSON], body.clone()).await;
        let ResponseStatus(found_code, found) = status_of(&response);
        assert!(
            found_code == code && found.starts_with(message),
            "{body}: {found}"
        );
    }
}
