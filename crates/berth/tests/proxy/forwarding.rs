//! Tests of the requests that `clusters/NAME/proxy` forwards, and of the responses. The member is a [`Backend`], which
//! records the forwarded requests.

use http::{Method, Request};
use http_body_util::BodyExt as _;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::backend::{Backend, tunnel};
use crate::test_plane::{TestPlane, proxy, read_body, request, send};

const SECRETS: &str = "/api/v1/namespaces/karmada-cluster/secrets";

/// Registers a cluster. The fields in `spec` replace the default fields of its spec.
async fn register(plane: &TestPlane, name: &str, spec: Value) {
    let admin = plane.admin();
    let secret = json!({ "metadata": { "name": format!("{name}-impersonator") },
        "stringData": { "token": "t0ken" } });
    plane.create(&admin, SECRETS, &secret).await;
    let mut cluster = json!({ "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
        "metadata": { "name": name },
        "spec": { "syncMode": "Pull", "insecureSkipTLSVerification": true, "impersonatorSecretRef": {
            "namespace": "karmada-cluster", "name": format!("{name}-impersonator") } } });
    for (field, value) in spec.as_object().unwrap() {
        cluster["spec"][field] = value.clone();
    }
    let clusters = "/apis/cluster.karmada.io/v1alpha1/clusters";
    plane.create(&admin, clusters, &cluster).await;
}

#[tokio::test]
async fn method_and_url_are_forwarded_unchanged_and_the_user_is_impersonated() {
    let plane = TestPlane::start(0).await;
    let backend = Backend::start().await;
    let endpoint = format!("http://{}/base", backend.address);
    register(&plane, "m", json!({ "apiEndpoint": endpoint })).await;
    let path = format!("{}/a%2Fb%20c/?x=%3F&y=a+b&watch=true", proxy("m"));
    let request = Request::builder()
        .method(Method::PUT)
        .uri(&path)
        .header("x-own", "1")
        .header("impersonate-user", "ann")
        .header("impersonate-group", "system:masters")
        .header("impersonate-extra-scopes", "all");
    let request = request.body(b"body".to_vec()).unwrap();
    let response = read_body(send(&plane.admin(), request).await).await;
    assert_eq!(response.code, 200, "{response:?}");
    let requests = backend.requests("/base/a");
    let [request] = requests.as_slice() else {
        panic!("{requests:?}")
    };
    assert_eq!(request.method, Method::PUT);
    assert_eq!(
        request.uri.to_string(),
        "/base/a%2Fb%20c/?x=%3F&y=a+b&watch=true"
    );
    let header = |name: &str| {
        let all = request.headers.get_all(name).iter();
        all.map(|value| value.to_str().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(header("x-own"), ["1"]);
    assert_eq!(header("host"), [backend.address.to_string()]);
    assert_eq!(header("authorization"), ["Bearer t0ken"]);
    assert_eq!(header("impersonate-user"), ["ann"]);
    assert_eq!(header("impersonate-group"), ["system:masters"]);
    assert_eq!(header("impersonate-extra-scopes"), [""; 0]);
    plane.control_plane.stop().await;
}

#[tokio::test]
async fn responses_are_streamed_and_redirects_are_returned() {
    let plane = TestPlane::start(0).await;
    let backend = Backend::start().await;
    let endpoint = format!("http://{}", backend.address);
    register(&plane, "m", json!({ "apiEndpoint": endpoint })).await;
    let admin = plane.admin();
    let halves = Request::get(format!("{}/halves", proxy("m")));
    let mut halves = send(&admin, halves.body(Vec::new()).unwrap()).await;
    let first = halves.body_mut().frame().await.unwrap().unwrap();
    assert_eq!(first.into_data().unwrap(), "first ");
    backend.send_second_half.notify_one();
    assert_eq!(read_body(halves).await.text, "second");

    // The body is larger than the API server's limit for requests that are not forwarded.
    let large = "x".repeat(5 << 20);
    let path = format!("{}/upload", proxy("m"));
    let response = request(&admin, Method::POST, &path, &large).await;
    assert_eq!(response.text, large.len().to_string());

    let response = request(
        &admin,
        Method::GET,
        &format!("{}/elsewhere", proxy("m")),
        "",
    )
    .await;
    assert_eq!(
        (response.code.as_u16(), &response.headers["location"]),
        (302, &"/followed".parse().unwrap())
    );
    assert!(backend.requests("/followed").is_empty());
    // As in Karmada, the proxy redirects to the path with a slash, so that relative links in the root page work.
    let response = request(&admin, Method::GET, &format!("{}?a=b", proxy("m")), "").await;
    let slash = format!("{}/?a=b", proxy("m"));
    assert_eq!(
        (response.code.as_u16(), &response.headers["location"]),
        (301, &slash.parse().unwrap())
    );
    plane.control_plane.stop().await;
}

#[tokio::test]
async fn connections_are_upgraded_through_the_proxy_url_of_a_cluster() {
    let plane = TestPlane::start(0).await;
    let backend = Backend::start().await;
    let (through, heads) = tunnel().await;
    let spec = json!({ "apiEndpoint": format!("http://{}", backend.address),
        "proxyURL": format!("http://{through}"), "proxyHeader": { "X-Team": "a" } });
    register(&plane, "m", spec).await;
    let request = Request::get(format!("{}/echo", proxy("m")))
        .header("connection", "Upgrade")
        .header("upgrade", "websocket")
        .header("sec-websocket-protocol", "v5.channel.k8s.io");
    let mut response = send(&plane.admin(), request.body(Vec::new()).unwrap()).await;
    assert_eq!(response.status(), 101);
    assert_eq!(response.headers()["upgrade"], "websocket");
    let mut io = TokioIo::new(hyper::upgrade::on(&mut response).await.unwrap());
    for word in [b"ping", b"pong"] {
        let mut back = [0; 4];
        io.write_all(word).await.unwrap();
        io.read_exact(&mut back).await.unwrap();
        assert_eq!(&back, word);
    }
    drop(io);
    let requests = backend.requests("/echo");
    assert_eq!(
        requests[0].headers["sec-websocket-protocol"],
        "v5.channel.k8s.io"
    );
    let heads = heads.lock().unwrap().clone();
    assert!(!heads.is_empty());
    let has_header = |head: &String| head.to_lowercase().contains("x-team: a\r\n");
    assert!(heads.iter().all(has_header), "{heads:?}");
    plane.control_plane.stop().await;
}

#[tokio::test]
async fn errors_name_invalid_clusters_and_unreachable_members() {
    let plane = TestPlane::start(1).await;
    register(
        &plane,
        "gone",
        json!({ "apiEndpoint": "https://127.0.0.1:1" }),
    )
    .await;
    register(&plane, "nowhere", json!({})).await;
    register(
        &plane,
        "bare",
        json!({ "apiEndpoint": "https://127.0.0.1:1", "impersonatorSecretRef": null }),
    )
    .await;
    let other = json!({ "namespace": "karmada-cluster", "name": "gone-impersonator" });
    let endpoint = plane.control_plane.members()[0].server().url();
    let spec = json!({ "apiEndpoint": endpoint, "insecureSkipTLSVerification": false, "secretRef": other });
    register(&plane, "untrusted", spec).await;
    let admin = plane.admin();
    for (cluster, code, reason, expected) in [
        (
            "unknown",
            404,
            "NotFound",
            "clusters.cluster.karmada.io \"unknown\" not found",
        ),
        (
            "gone",
            503,
            "ServiceUnavailable",
            "cannot reach cluster gone: ",
        ),
        (
            "nowhere",
            500,
            "InternalError",
            "the api endpoint of cluster nowhere is empty",
        ),
        (
            "bare",
            500,
            "InternalError",
            "the impersonatorSecretRef of cluster bare is nil",
        ),
        ("untrusted", 500, "InternalError", "has no caBundle"),
    ] {
        let response = request(&admin, Method::GET, &format!("{}/api", proxy(cluster)), "").await;
        let (got, why, message) = response.refusal();
        assert_eq!((got, why.as_str()), (code, reason), "{cluster}: {message}");
        assert!(message.contains(expected), "{cluster}: {message}");
    }
    for path in ["/../x", "/api/%2e%2E", "/a%2F..%2Fb"] {
        let response = request(
            &admin,
            Method::GET,
            &format!("{}{path}", proxy("member1")),
            "",
        )
        .await;
        assert_eq!(response.code, 400, "{path}: {response:?}");
    }
    plane.control_plane.members()[0]
        .server()
        .reachability()
        .set(false);
    let response = request(
        &admin,
        Method::GET,
        &format!("{}/api", proxy("member1")),
        "",
    )
    .await;
    assert_eq!(response.code, 503, "{response:?}");
    plane.control_plane.stop().await;
}
