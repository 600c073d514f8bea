//! Tests of the rights that a client needs to impersonate users, groups, service accounts, UIDs and extra values.

use berth_e2e::eventually;
use kube::Client;
use serde_json::{Value, json};

use crate::harness::content_type::JSON;
use crate::harness::server;
use crate::harness::server::{ApiResponse, TestServer, raw};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const AUTHENTICATION: &str = "authentication.k8s.io";
const WHOAMI: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

/// A service account that has the rules passed to [`Actor::new`] in the whole cluster, and the rights that all
/// authenticated users have.
struct Actor {
    client: Client,
}

impl Actor {
    async fn new(server: &TestServer, rules: Value) -> Self {
        let namespace = server.namespace().await;
        let accounts = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
        server
            .create(&accounts, json!({"metadata": {"name": "actor"}}))
            .await;
        let token = server
            .create(&format!("{accounts}/actor/token"), json!({}))
            .await;
        let token = token["status"]["token"].as_str().unwrap();
        let name = format!("acts-{namespace}");
        // The server applies all rules of the role at once, so the last rule shows that all of them apply.
        let mut rules = rules.as_array().unwrap().clone();
        rules.push(json!({"nonResourceURLs": ["/ready"], "verbs": ["get"]}));
        let role = json!({"metadata": {"name": name}, "rules": rules});
        server.create(&format!("{RBAC}/clusterroles"), role).await;
        let binding = json!({"metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "namespace": namespace, "name": "actor"}]});
        server
            .create(&format!("{RBAC}/clusterrolebindings"), binding)
            .await;
        let client = server.with_token(Some(token)).await;
        eventually("the rights to apply", async || {
            match raw(&client, "GET", "/ready", &[], "").await.code {
                404 => Ok(()),
                other => Err(other),
            }
        })
        .await;
        Self { client }
    }

    /// Sends a SelfSubjectReview with these headers. The response contains the identity after the impersonation.
    async fn whoami(&self, headers: &[(&str, &str)]) -> ApiResponse {
        let headers = [&[JSON], headers].concat();
        raw(&self.client, "POST", WHOAMI, &headers, "{}").await
    }
}

fn rule(verb: &str, group: &str, resource: &str, names: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": [resource], "verbs": [verb], "resourceNames": names})
}

/// Checks that a client may impersonate exactly the users, groups, service accounts, UIDs and extra values that its
/// rules name. Impersonation without a user name gets 400.
#[tokio::test]
async fn impersonation_is_authorized_for_user_group_uid_and_extra() {
    let server = server().await;
    let rules = json!([
        rule("impersonate", "", "users", &["bob"]),
        rule("impersonate", "", "groups", &["devs"]),
        rule("impersonate", "", "serviceaccounts", &["bot"]),
        rule("impersonate", AUTHENTICATION, "uids", &["77"]),
        rule(
            "impersonate",
            AUTHENTICATION,
            "userextras/scopes",
            &["view"]
        ),
    ]);
    let actor = Actor::new(&server, rules).await;
    let bob = ("impersonate-user", "bob");
    let bot = ("impersonate-user", "system:serviceaccount:some:bot");
    let devs = ("impersonate-group", "devs");
    let own = [
        "system:serviceaccounts",
        "system:serviceaccounts:some",
        "system:authenticated",
    ];
    for (headers, expected) in [
        (
            &[bob][..],
            json!({"username": "bob", "groups": ["system:authenticated"]}),
        ),
        (
            &[bob, devs],
            json!({"username": "bob", "groups": ["devs", "system:authenticated"]}),
        ),
        (
            &[bob, ("impersonate-uid", "77")],
            json!({"username": "bob", "uid": "77", "groups": ["system:authenticated"]}),
        ),
        (
            &[bob, ("impersonate-extra-scopes", "view")],
            json!({"username": "bob", "groups": ["system:authenticated"], "extra": {"scopes": ["view"]}}),
        ),
        (&[bot], json!({"username": bot.1, "groups": own})),
        (
            &[bot, devs],
            json!({"username": bot.1, "groups": ["devs", "system:authenticated"]}),
        ),
    ] {
        let response = actor.whoami(headers).await;
        let found = &response.json["status"]["userInfo"];
        assert_eq!(
            (response.code, found),
            (201, &expected),
            "{headers:?}: {}",
            response.text
        );
    }
    // Any other impersonation gets 403. The message depends on the order in which the server checks the headers.
    for headers in [
        &[("impersonate-user", "eve")][..],
        &[bob, devs, ("impersonate-group", "ops")],
        &[bob, ("impersonate-uid", "78")],
        &[
            bob,
            ("impersonate-extra-scopes", "view"),
            ("impersonate-extra-scopes", "edit"),
        ],
        &[bob, ("impersonate-extra-other", "view")],
        &[("impersonate-user", "system:serviceaccount:some:other")],
        &[bot, ("impersonate-group", "system:serviceaccounts")],
        &[("impersonate-user", "system:serviceaccount:some")],
        &[("impersonate-user", "system:anonymous")],
    ] {
        let response = actor.whoami(headers).await;
        assert_eq!(response.code, 403, "{headers:?}: {}", response.text);
    }
    for headers in [
        &[devs][..],
        &[("impersonate-uid", "77")],
        &[("impersonate-extra-scopes", "view")],
    ] {
        let response = actor.whoami(headers).await;
        let message = response.json["message"].as_str().unwrap_or_default();
        assert!(
            response.code == 400 && message.ends_with("without impersonating a user name"),
            "{headers:?}: {}",
            response.text
        );
    }
}

/// Checks that the administrator may impersonate users and service accounts. A service account without the right to
/// impersonate gets 403.
#[tokio::test]
async fn impersonation_needs_a_right() {
    let server = server().await;
    let headers = [
        JSON,
        ("impersonate-user", "bob"),
        ("impersonate-group", "devs"),
        ("impersonate-uid", "77"),
        ("impersonate-extra-scopes", "view"),
    ];
    let response = server.raw("POST", WHOAMI, &headers, "{}").await;
    assert_eq!(
        response.json["status"]["userInfo"],
        json!({"username": "bob", "uid": "77", "groups": ["devs", "system:authenticated"],
            "extra": {"scopes": ["view"]}})
    );
    let headers = [JSON, ("impersonate-user", "system:serviceaccount:a:b")];
    let response = server.raw("POST", WHOAMI, &headers, "{}").await;
    assert_eq!(
        response.json["status"]["userInfo"]["groups"],
        json!([
            "system:serviceaccounts",
            "system:serviceaccounts:a",
            "system:authenticated"
        ])
    );
    let response = server
        .raw("GET", "/api", &[("impersonate-group", "devs")], "")
        .await;
    assert_eq!(response.code, 400, "{}", response.text);

    let namespace = server.namespace().await;
    let accounts = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
    server
        .create(&accounts, json!({"metadata": {"name": "bot"}}))
        .await;
    let token = server
        .raw("POST", &format!("{accounts}/bot/token"), &[JSON], "{}")
        .await;
    let bot = server
        .with_token(token.json["status"]["token"].as_str())
        .await;
    let response = raw(&bot, "GET", "/api", &[("impersonate-user", "bob")], "").await;
    assert_eq!(
        (response.code, &response.json["reason"]),
        (403, &json!("Forbidden"))
    );
}
