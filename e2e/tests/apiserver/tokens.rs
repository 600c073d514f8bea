//! Tokens of service accounts: their audiences, the objects that they are bound to, token reviews, and the published
//! keys.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use berth_e2e::eventually;
use serde_json::{Value, json};

use crate::harness::content_type::JSON;
use crate::harness::objects::message_outline;
use crate::harness::server;
use crate::harness::server::{ApiResponse, TestServer, raw};

/// The issuer of the tokens, which is also the default audience.
const OWN: &str = "https://kubernetes.default.svc";

/// A namespace with the service account `bot`.
struct Scene<'a> {
    server: &'a TestServer,
    namespace: String,
}

impl<'a> Scene<'a> {
    async fn new(server: &'a TestServer) -> Self {
        let namespace = server.namespace().await;
        let scene = Self { server, namespace };
        scene
            .create("serviceaccounts", json!({"metadata": {"name": "bot"}}))
            .await;
        scene
    }

    fn path(&self, rest: &str) -> String {
        format!("/api/v1/namespaces/{}/{rest}", self.namespace)
    }

    async fn create(&self, plural: &str, object: Value) -> Value {
        self.server.create(&self.path(plural), object).await
    }

    /// Requests a token of the account.
    async fn request(&self, body: &Value) -> ApiResponse {
        let path = self.path("serviceaccounts/bot/token");
        self.server
            .raw("POST", &path, &[JSON], body.to_string())
            .await
    }

    async fn token(&self, spec: &Value) -> String {
        let response = self.request(&json!({ "spec": spec })).await;
        assert_eq!(response.code, 201, "{}", response.text);
        response.json["status"]["token"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    /// Returns a token that is bound to an object of the namespace.
    async fn bound_to(&self, kind: &str, name: &str) -> String {
        let reference = json!({"kind": kind, "apiVersion": "v1", "name": name});
        self.token(&json!({ "boundObjectRef": reference })).await
    }

    /// Returns the status of a token review.
    async fn review(&self, token: &str, audiences: &[&str]) -> Value {
        let body = json!({"spec": {"token": token, "audiences": audiences}}).to_string();
        let path = "/apis/authentication.k8s.io/v1/tokenreviews";
        let response = self.server.raw("POST", path, &[JSON], body).await;
        assert_eq!(response.code, 201, "{}", response.text);
        response.json["status"].clone()
    }
}

/// Returns the claims of a token. Removes the times and the identifier of the token, which differ between tokens.
fn claims(token: &str) -> Value {
    let part = token.split('.').nth(1).unwrap();
    let mut claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap();
    for changing in ["exp", "iat", "nbf"] {
        assert!(claims[changing].is_number(), "{claims}");
        claims.as_object_mut().unwrap().remove(changing);
    }
    assert!(claims["jti"].is_string(), "{claims}");
    claims.as_object_mut().unwrap().remove("jti");
    claims
}

fn pod(name: &str, account: &str, node: Option<&str>) -> Value {
    json!({"metadata": {"name": name}, "spec": {"serviceAccountName": account, "nodeName": node,
        "containers": [{"name": "c", "image": "i"}]}})
}

/// Checks that a token review succeeds for the audiences of the token and fails for other audiences. The API server
/// refuses a token that was not issued for the server's own audience.
#[tokio::test]
async fn tokens_are_valid_for_their_audiences_only() {
    let server = server().await;
    let scene = Scene::new(&server).await;
    let plain = scene.token(&json!({})).await;
    let for_others = scene.token(&json!({"audiences": ["a", "b"]})).await;
    for (token, audiences, expected) in [
        (&plain, &[][..], &[OWN][..]),
        (&plain, &["x", OWN], &[OWN]),
        (&for_others, &["a"], &["a"]),
        (&for_others, &["b", "c", "a"], &["b", "a"]),
    ] {
        let status = scene.review(token, audiences).await;
        assert_eq!(
            (&status["authenticated"], &status["audiences"]),
            (&json!(true), &json!(expected))
        );
    }
    for (token, audiences) in [(&plain, &["x"][..]), (&for_others, &[])] {
        let status = scene.review(token, audiences).await;
        let error = status["error"].as_str().unwrap_or_default();
        assert!(
            status["authenticated"].is_null() && error.contains("token audiences"),
            "{status}"
        );
    }
    assert_eq!(
        scene.review("a.b.c", &[]).await,
        json!({"user": {}, "error": "invalid bearer token"})
    );
    let client = server.with_token(Some(&for_others)).await;
    assert_eq!(raw(&client, "GET", "/version", &[], "").await.code, 401);
}

/// Checks that a token bound to a pod, Secret or Node names this object in its claims, and that a token review returns
/// the pod and node in the extra fields of the user.
#[tokio::test]
async fn tokens_name_the_objects_they_are_bound_to() {
    let server = server().await;
    let scene = Scene::new(&server).await;
    let node = format!("node-{}", scene.namespace);
    let body = json!({"metadata": {"name": node}}).to_string();
    let response = server.raw("POST", "/api/v1/nodes", &[JSON], body).await;
    assert_eq!(response.code, 201, "{}", response.text);
    let mut uids = BTreeMap::from([("node", response.json["metadata"]["uid"].clone())]);
    scene.create("pods", pod("free", "bot", None)).await;
    let placed = scene
        .create("pods", pod("placed", "bot", Some(&node)))
        .await;
    let secret = scene
        .create("secrets", json!({"metadata": {"name": "s"}}))
        .await;
    uids.insert("placed", placed["metadata"]["uid"].clone());
    uids.insert("secret", secret["metadata"]["uid"].clone());
    let object = |name: &str, uid: &str| json!({"name": name, "uid": uids[uid]});
    let key = |what: &str| format!("authentication.kubernetes.io/{what}");
    for (kind, name, bound, extra) in [
        ("Pod", "free", json!(null), &["pod-name", "pod-uid"][..]),
        (
            "Pod",
            "placed",
            json!({"pod": object("placed", "placed"), "node": object(&node, "node")}),
            &["node-name", "node-uid", "pod-name", "pod-uid"],
        ),
        ("Secret", "s", json!({"secret": object("s", "secret")}), &[]),
        (
            "Node",
            &node,
            json!({"node": object(&node, "node")}),
            &["node-name", "node-uid"],
        ),
    ] {
        let token = scene.bound_to(kind, name).await;
        let claimed = claims(&token);
        assert_eq!(
            (&claimed["aud"], &claimed["iss"], &claimed["sub"]),
            (
                &json!([OWN]),
                &json!(OWN),
                &json!(format!("system:serviceaccount:{}:bot", scene.namespace))
            )
        );
        let mut found = claimed["kubernetes.io"].clone();
        assert_eq!(found["namespace"], scene.namespace.as_str());
        assert_eq!(found["serviceaccount"]["name"], "bot");
        found
            .as_object_mut()
            .unwrap()
            .retain(|k, _| k != "namespace" && k != "serviceaccount");
        if bound.is_object() {
            assert_eq!(found, bound, "{kind}");
        }
        let status = scene.review(&token, &[]).await;
        let mut expected: Vec<String> = extra.iter().map(|what| key(what)).collect();
        expected.push(key("credential-id"));
        expected.sort();
        let user = status["user"]["extra"].as_object().unwrap();
        let mut names: Vec<String> = user.keys().cloned().collect();
        names.sort();
        assert_eq!(names, expected, "{kind} {name}");
    }
}

/// Checks that a token becomes invalid when the pod or Secret that it is bound to is deleted.
#[tokio::test]
async fn tokens_expire_with_the_object_they_are_bound_to() {
    let server = server().await;
    let scene = Scene::new(&server).await;
    scene.create("pods", pod("p", "bot", None)).await;
    scene
        .create("secrets", json!({"metadata": {"name": "s"}}))
        .await;
    for (kind, plural, name) in [("Pod", "pods", "p"), ("Secret", "secrets", "s")] {
        // Use the token only after its object is deleted, because kube-apiserver caches valid tokens.
        let token = scene.bound_to(kind, name).await;
        let path = scene.path(&format!("{plural}/{name}?gracePeriodSeconds=0"));
        let response = server.raw("DELETE", &path, &[], "").await;
        assert_eq!(response.code, 200, "{}", response.text);
        let gone = "[invalid bearer token, service account token has been invalidated]";
        eventually("the token to become invalid", async || {
            let status = scene.review(&token, &[]).await;
            if status == json!({"user": {}, "error": gone}) {
                Ok(())
            } else {
                Err(status)
            }
        })
        .await;
    }
}

/// Checks the status codes and messages of refused token requests, for example for a pod of another account.
#[tokio::test]
async fn invalid_token_requests_are_refused() {
    let server = server().await;
    let scene = Scene::new(&server).await;
    scene.create("pods", pod("p", "bot", None)).await;
    scene.create("pods", pod("other", "another", None)).await;
    let bound = |reference: Value| json!({"spec": {"boundObjectRef": reference}});
    let cannot = "TokenRequest in version \"v1\" cannot be handled as a TokenRequest: json: cannot unmarshal string into \
                  Go struct field TokenRequestSpec.spec";
    for (body, code, message) in [
        (
            bound(json!({"kind": "Pod", "apiVersion": "v1", "name": "other"})),
            400,
            "cannot bind token for serviceaccount \"bot\" to pod running with different serviceaccount name.".to_owned(),
        ),
        (
            bound(json!({"kind": "Pod", "apiVersion": "v1", "name": "p", "uid": "nope"})),
            409,
            "Operation cannot be fulfilled on Pod \"p\": the UID in the bound object reference (nope) does not match"
                .to_owned(),
        ),
        (
            bound(json!({"kind": "Pod", "apiVersion": "v1", "name": "none"})),
            404,
            "pods \"none\" not found".to_owned(),
        ),
        (
            bound(json!({"kind": "Pod", "apiVersion": "v1"})),
            400,
            "Name parameter required.".to_owned(),
        ),
        (
            bound(json!({"kind": "ConfigMap", "apiVersion": "v1", "name": "p"})),
            400,
            "cannot bind token to object of type ".to_owned(),
        ),
        (
            json!({"spec": {"expirationSeconds": "x"}}),
            400,
            format!("{cannot}.expirationSeconds of type int64"),
        ),
        (
            json!({"spec": {"audiences": "x"}}),
            400,
            format!("{cannot}.audiences of type []string"),
        ),
        (
            json!({"spec": {"expirationSeconds": (1_i64 << 32) + 1}}),
            422,
            "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid value: 4294967297: \
             may not specify a duration larger than 2^32 seconds"
                .to_owned(),
        ),
        (
            json!({"metadata": {"name": "zz"}}),
            422,
            "TokenRequest.authentication.k8s.io \"bot\" is invalid: metadata.name: Invalid value: \"zz\": must match \
             the service account name if specified"
                .to_owned(),
        ),
        (
            json!({"metadata": {"namespace": "zz"}}),
            400,
            String::new(),
        ),
        (
            json!("x"),
            400,
            "the object provided is unrecognized (must be of type TokenRequest): couldn't get version/kind; json \
             parse error: "
                .to_owned(),
        ),
    ] {
        let response = scene.request(&body).await;
        let found = response.json["message"].as_str().unwrap();
        assert!(
            response.code == code
                && (found.starts_with(&message) || message_outline(found) == message_outline(&message)),
            "{body}: {found}"
        );
    }
}

/// Checks that a service account can read the OpenID configuration and the public key that signs its tokens. Anonymous
/// clients cannot read the key.
#[tokio::test]
async fn public_keys_of_tokens_are_published() {
    let server = server().await;
    let scene = Scene::new(&server).await;
    let token = scene.token(&json!({})).await;
    let bot = server.with_token(Some(&token)).await;
    let found = raw(&bot, "GET", "/.well-known/openid-configuration", &[], "").await;
    assert_eq!(found.code, 200, "{}", found.text);
    assert_eq!(
        (
            &found.json["issuer"],
            &found.json["id_token_signing_alg_values_supported"]
        ),
        (&json!(OWN), &json!(["ES256"]))
    );
    assert_eq!(found.headers["cache-control"], "public, max-age=3600");
    let uri = found.json["jwks_uri"].as_str().unwrap();
    let path = uri.find("/openid/").map(|at| &uri[at..]);
    assert_eq!(path, Some("/openid/v1/jwks"), "{uri}");
    let keys = raw(&bot, "GET", "/openid/v1/jwks", &[], "").await;
    assert_eq!(keys.headers["content-type"], "application/jwk-set+json");
    let header = token.split('.').next().unwrap();
    let header: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(header).unwrap()).unwrap();
    let key = &keys.json["keys"][0];
    assert_eq!(
        (
            &key["kid"],
            &key["kty"],
            &key["crv"],
            &key["alg"],
            &key["use"]
        ),
        (
            &header["kid"],
            &json!("EC"),
            &json!("P-256"),
            &json!("ES256"),
            &json!("sig")
        )
    );
    for coordinate in ["x", "y"] {
        let bytes = URL_SAFE_NO_PAD
            .decode(key[coordinate].as_str().unwrap())
            .unwrap();
        assert_eq!(bytes.len(), 32, "{keys:?}");
    }
    let anonymous = server.with_token(None).await;
    assert_eq!(
        raw(&anonymous, "GET", "/openid/v1/jwks", &[], "")
            .await
            .code,
        403
    );
}
