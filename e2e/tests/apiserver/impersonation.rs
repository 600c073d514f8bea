//! Impersonation of users, groups, service accounts and nodes, for all verbs or for a single one. Each test uses its
//! own account, because kube-apiserver caches the successful way of impersonation.

use berth_e2e::eventually;
use kube::Client;
use serde_json::{Value, json};

use crate::objects::JSON;
use crate::server;
use crate::server::{ApiResponse, TestServer, raw};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const AUTHENTICATION: &str = "authentication.k8s.io";
const WHOAMI: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

/// A service account with these cluster-wide rights, and otherwise only those of every user.
struct Actor {
    client: Client,
    user: String,
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
        // Once the last rule applies, all of them do.
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
        let user = format!("system:serviceaccount:{namespace}:actor");
        Self { client, user }
    }

    /// Requests the identity that the server sees.
    async fn whoami(&self, headers: &[(&str, &str)]) -> ApiResponse {
        let headers = [&[JSON], headers].concat();
        raw(&self.client, "POST", WHOAMI, &headers, "{}").await
    }

    async fn refused(&self, headers: &[(&str, &str)], expected: &str) {
        let response = self.whoami(headers).await;
        let expected = expected.replace("ACTOR", &self.user);
        assert_eq!(
            (response.code, &response.json["message"]),
            (403, &json!(expected)),
            "{headers:?}"
        );
    }
}

fn rule(verb: &str, group: &str, resource: &str, names: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": [resource], "verbs": [verb], "resourceNames": names})
}

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
    // Anything else is refused. The message depends on the order of the server's checks.
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

#[tokio::test]
async fn impersonation_can_be_limited_to_one_verb() {
    let server = server().await;
    let on = |verb: &str, mode: &str| {
        let verb = format!("impersonate-on:{mode}:{verb}");
        json!({"apiGroups": [AUTHENTICATION], "resources": ["selfsubjectreviews"], "verbs": [verb]})
    };
    let rules = json!([
        on("create", "user-info"),
        rule("impersonate:user-info", AUTHENTICATION, "users", &["carl"]),
        rule(
            "impersonate:user-info",
            AUTHENTICATION,
            "groups",
            &["devs", "system:masters"]
        ),
        rule("impersonate:user-info", AUTHENTICATION, "uids", &["77"]),
        rule(
            "impersonate:user-info",
            AUTHENTICATION,
            "userextras/acme.io/scopes",
            &["view"]
        ),
        on("create", "serviceaccount"),
        rule(
            "impersonate:serviceaccount",
            AUTHENTICATION,
            "serviceaccounts",
            &["bot"]
        ),
        on("create", "arbitrary-node"),
        rule(
            "impersonate:arbitrary-node",
            AUTHENTICATION,
            "nodes",
            &["n1"]
        ),
    ]);
    let actor = Actor::new(&server, rules).await;
    let carl = ("impersonate-user", "carl");
    let bot = ("impersonate-user", "system:serviceaccount:some:bot");
    let node = ("impersonate-user", "system:node:n1");
    let own = [
        "system:serviceaccounts",
        "system:serviceaccounts:some",
        "system:authenticated",
    ];
    for (headers, expected) in [
        (
            &[carl][..],
            json!({"username": "carl", "groups": ["system:authenticated"]}),
        ),
        (
            &[
                carl,
                ("impersonate-group", "devs"),
                ("impersonate-uid", "77"),
                ("impersonate-extra-acme.io%2fscopes", "view"),
            ],
            json!({"username": "carl", "uid": "77", "groups": ["devs", "system:authenticated"],
                "extra": {"acme.io/scopes": ["view"]}}),
        ),
        (&[bot], json!({"username": bot.1, "groups": own})),
        (
            &[node],
            json!({"username": node.1, "groups": ["system:nodes", "system:authenticated"]}),
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
    // The right does not extend to another verb.
    let list = "/api/v1/namespaces/default/pods";
    let response = raw(&actor.client, "GET", list, &[carl], "").await;
    assert_eq!(response.code, 403, "{}", response.text);
    for headers in [
        &[("impersonate-user", "eve")][..],
        &[carl, ("impersonate-group", "ops")],
        &[carl, ("impersonate-group", "system:masters")],
        &[carl, ("impersonate-uid", "78")],
        &[carl, ("impersonate-extra-acme.io%2fother", "view")],
        &[("impersonate-user", "system:serviceaccount:some:other")],
        &[("impersonate-user", "system:node:n2")],
        &[node, ("impersonate-group", "devs")],
        &[bot, ("impersonate-group", "devs")],
    ] {
        let response = actor.whoami(headers).await;
        assert_eq!(response.code, 403, "{headers:?}: {}", response.text);
    }
}

#[tokio::test]
async fn refusals_name_the_first_missing_right() {
    let server = server().await;
    let nothing = Actor::new(&server, json!([])).await;
    let reviews = r#"resource "selfsubjectreviews" in API group "authentication.k8s.io" at the cluster scope"#;
    for (user, mode) in [
        ("eve", "user-info"),
        ("system:serviceaccount:some:bot", "serviceaccount"),
        ("system:node:n1", "arbitrary-node"),
    ] {
        let expected = format!(
            "selfsubjectreviews.authentication.k8s.io is forbidden: User \"ACTOR\" cannot \
             impersonate-on:{mode}:create {reviews}"
        );
        nothing
            .refused(&[("impersonate-user", user)], &expected)
            .await;
    }
    let path = raw(
        &nothing.client,
        "GET",
        "/api",
        &[("impersonate-user", "eve")],
        "",
    )
    .await;
    let expected = format!(
        "forbidden: User \"{}\" cannot impersonate-on:user-info:get path \"/api\"",
        nothing.user
    );
    assert_eq!(path.json["message"], expected);
    let rules = json!([
        {"apiGroups": [AUTHENTICATION], "resources": ["selfsubjectreviews"],
            "verbs": ["impersonate-on:user-info:create"]},
        rule("impersonate:user-info", AUTHENTICATION, "users", &["carl"]),
        rule("impersonate:user-info", AUTHENTICATION, "groups", &["system:masters"]),
    ]);
    let some = Actor::new(&server, rules).await;
    let carl = ("impersonate-user", "carl");
    let scope = r#"in API group "authentication.k8s.io" at the cluster scope"#;
    for (headers, what, resource, why) in [
        (
            &[("impersonate-user", "zed")][..],
            r#"users.authentication.k8s.io "zed""#,
            "users",
            "",
        ),
        (
            &[carl, ("impersonate-group", "g")],
            r#"groups.authentication.k8s.io "g""#,
            "groups",
            "",
        ),
        (
            &[carl, ("impersonate-group", "system:masters")],
            r#"groups.authentication.k8s.io "system:masters""#,
            "groups",
            ": impersonating the system:masters group is not allowed",
        ),
        (
            &[carl, ("impersonate-uid", "7")],
            r#"uids.authentication.k8s.io "7""#,
            "uids",
            "",
        ),
        (
            &[carl, ("impersonate-extra-acme.io%2fscopes", "view")],
            r#"userextras.authentication.k8s.io "view""#,
            "userextras/acme.io/scopes",
            "",
        ),
        (
            &[carl, ("impersonate-extra-scopes", "view")],
            "userextras.authentication.k8s.io",
            "userextras",
            ": impersonating an invalid key in extra is not allowed: extra.key: Invalid value: \"scopes\": must be a \
             domain-prefixed path (such as \"acme.io/foo\")",
        ),
    ] {
        let expected = format!(
            "{what} is forbidden: User \"ACTOR\" cannot impersonate:user-info resource \"{resource}\" {scope}{why}"
        );
        some.refused(headers, &expected).await;
    }
}
