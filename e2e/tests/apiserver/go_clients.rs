//! Tests with the requests of Go clients: Leases in protobuf, certificate signing requests, and empty values that Go
//! encodes.

use serde_json::{Value, json};

use crate::harness::content_type::JSON;
use crate::harness::server;
use crate::protobuf::{self, field};

/// Returns a Lease in the protobuf encoding that the leader election of client-go sends.
fn lease(name: &str, holder: &str, version: &str, transitions: u8) -> Vec<u8> {
    // Go encodes unset times as empty messages.
    let meta = [
        field(1, name.as_bytes()),
        field(2, b""),
        field(6, version.as_bytes()),
        field(8, b""),
    ]
    .concat();
    // 1700000000.000120 seconds since 1970.
    let time = [8, 0x80, 0xe2, 0xcf, 0xaa, 6, 16, 0xc0, 0xa9, 7];
    let spec = [
        field(1, holder.as_bytes()),
        vec![2 << 3, 15],
        field(3, &time),
        field(4, &time),
        vec![5 << 3, transitions],
    ]
    .concat();
    let raw = [field(1, &meta), field(2, &spec)].concat();
    protobuf::message("coordination.k8s.io/v1", "Lease", &raw)
}

/// Checks that a client creates and renews a Lease in protobuf. A renewal with an old resource version gets 409.
#[tokio::test]
async fn leader_election_writes_leases_in_protobuf() {
    let server = server().await;
    let namespace = server.namespace().await;
    let leases = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases");
    let headers = [
        ("content-type", protobuf::MEDIA_TYPE),
        ("accept", "application/json"),
    ];
    let created = server
        .raw("POST", &leases, &headers, lease("office", "a", "", 0))
        .await;
    assert_eq!(created.code, 201, "{}", created.text);
    let expected = json!({ "holderIdentity": "a", "leaseDurationSeconds": 15, "leaseTransitions": 0,
        "acquireTime": "2023-11-14T22:13:20.000120Z", "renewTime": "2023-11-14T22:13:20.000120Z" });
    assert_eq!(created.json["spec"], expected);
    let version = created.json["metadata"]["resourceVersion"]
        .as_str()
        .unwrap();
    let renewed = lease("office", "b", version, 1);
    let path = format!("{leases}/office");
    let updated = server.raw("PUT", &path, &headers, renewed.clone()).await;
    assert_eq!(updated.code, 200, "{}", updated.text);
    assert_eq!(updated.json["spec"]["holderIdentity"], "b");
    assert_eq!(updated.json["spec"]["leaseTransitions"], 1);
    let uid = &updated.json["metadata"]["uid"];
    assert_eq!(uid, &created.json["metadata"]["uid"]);
    let stale = server.raw("PUT", &path, &headers, renewed).await;
    assert_eq!(stale.code, 409, "{}", stale.text);
}

/// Returns a certificate signing request in PEM format, encoded in Base64.
fn signing_request() -> String {
    use base64::Engine as _;
    let key = rcgen::KeyPair::generate().unwrap();
    let mut wanted = rcgen::CertificateParams::default();
    wanted
        .distinguished_name
        .push(rcgen::DnType::CommonName, "user");
    let request = wanted.serialize_request(&key).unwrap().pem().unwrap();
    base64::engine::general_purpose::STANDARD.encode(request)
}

/// Checks that the server writes the user and groups of the client into a new CertificateSigningRequest. A PUT of the
/// object does not change its conditions, but a PUT of the subresource `approval` does.
#[tokio::test]
async fn certificate_requests_record_the_requester_and_can_be_approved() {
    let server = server().await;
    let name = server.namespace().await;
    let all = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let requested = json!({ "metadata": { "name": name },
        "spec": { "request": signing_request(), "signerName": "example.com/signer",
            "usages": ["client auth"], "expirationSeconds": 86400, "username": "another-user", "groups": ["system:masters-too"] },
        "status": { "conditions": [{ "type": "Approved", "status": "True" }] } });
    let created = server
        .raw("POST", all, &[JSON], requested.to_string())
        .await;
    assert_eq!(created.code, 201, "{}", created.text);
    let spec = &created.json["spec"];
    let me: Value = server
        .raw(
            "POST",
            "/apis/authentication.k8s.io/v1/selfsubjectreviews",
            &[JSON],
            json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview" })
                .to_string(),
        )
        .await
        .json;
    let me = &me["status"]["userInfo"];
    assert_eq!(spec["username"], me["username"]);
    assert_eq!(spec["groups"], me["groups"]);
    assert_eq!(created.json["status"], json!({}));

    let mut approved = created.json.clone();
    approved["spec"]["signerName"] = json!("example.com/other");
    approved["status"] = json!({ "conditions": [{ "type": "Approved", "status": "True",
        "reason": "Test", "message": "by hand" }] });
    let path = format!("{all}/{name}");
    let plain = server
        .raw("PUT", &path, &[JSON], approved.to_string())
        .await;
    assert_eq!(plain.code, 200, "{}", plain.text);
    assert_eq!(plain.json["spec"], *spec);
    assert_eq!(plain.json["status"], json!({}));
    let response = server
        .raw(
            "PUT",
            &format!("{path}/approval"),
            &[JSON],
            approved.to_string(),
        )
        .await;
    assert_eq!(response.code, 200, "{}", response.text);
    assert_eq!(response.json["spec"], *spec);
    assert_eq!(response.json["status"]["conditions"][0]["type"], "Approved");

    let table = [("accept", "application/json;as=Table;g=meta.k8s.io;v=v1")];
    let shown = server.raw("GET", &path, &table, "").await.json;
    let columns = shown["columnDefinitions"].as_array().unwrap();
    let columns: Vec<&str> = columns
        .iter()
        .map(|c| c["name"].as_str().unwrap())
        .collect();
    let expected = [
        "Name",
        "Age",
        "SignerName",
        "Requestor",
        "RequestedDuration",
        "Condition",
    ];
    assert_eq!(columns, expected);
    let mut cells = shown["rows"][0]["cells"].clone();
    assert!(cells[1].take().is_string());
    let username = &me["username"];
    assert_eq!(
        cells,
        json!([
            name,
            null,
            "example.com/signer",
            username,
            "24h",
            "Approved"
        ])
    );
}

/// Checks that the server replaces an empty `targetPort` and an empty `apiGroup` of a role reference by default values.
/// Go clients send these fields even if they are empty, because the fields have no `omitempty`.
#[tokio::test]
async fn empty_values_from_go_clients_are_defaulted() {
    let server = server().await;
    let namespace = server.namespace().await;
    for (collection, object, place, expected) in [
        (
            format!("/api/v1/namespaces/{namespace}/services"),
            json!({"metadata": {"name": "web", "creationTimestamp": null}, "status": {"loadBalancer": {}},
                "spec": {"ports": [{"port": 80, "targetPort": 0}]}}),
            "/spec/ports/0/targetPort",
            json!(80),
        ),
        (
            format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings"),
            json!({"metadata": {"name": "web"}, "roleRef": {"apiGroup": "", "kind": "ClusterRole", "name": "view"}}),
            "/roleRef/apiGroup",
            json!("rbac.authorization.k8s.io"),
        ),
    ] {
        let created = server
            .raw("POST", &collection, &[JSON], object.to_string())
            .await;
        assert_eq!(created.code, 201, "{}", created.text);
        assert_eq!(
            created.json.pointer(place),
            Some(&expected),
            "{}",
            created.text
        );
    }
}
