//! Test of the subresources `approval` and `status` of certificate signing requests.

use base64::Engine;
use serde_json::{Value, json};

use crate::harness::content_type::MERGE;
use crate::harness::server;

/// Checks that a write to the status of a certificate signing request keeps the message of the approval, and sets the
/// transition time of a new condition.
#[tokio::test]
async fn status_updates_keep_the_approval_of_certificate_requests() {
    let server = server().await;
    let name = server.namespace().await;
    let pair = rcgen::KeyPair::generate().unwrap();
    let request = rcgen::CertificateParams::default()
        .serialize_request(&pair)
        .unwrap();
    let request = base64::engine::general_purpose::STANDARD.encode(request.pem().unwrap());
    let requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let spec =
        json!({"request": request, "signerName": "example.com/s", "usages": ["client auth"]});
    server
        .create(requests, json!({"metadata": {"name": name}, "spec": spec}))
        .await;
    let patch_conditions = async |part: &str, conditions: Value| {
        let change = json!({"status": {"conditions": conditions}}).to_string();
        let path = format!("{requests}/{name}/{part}");
        server.raw("PATCH", &path, &[MERGE], change).await
    };
    let condition = |kind: &str, status: &str| json!({"type": kind, "status": status});
    let approved = condition("Approved", "True");
    let failed = condition("Failed", "True");
    let mut with_message = approved.clone();
    with_message["message"] = json!("fine");
    assert_eq!(
        patch_conditions("approval", json!([with_message]))
            .await
            .code,
        200
    );
    let both = patch_conditions("status", json!([approved, failed])).await;
    let conditions = &both.json["status"]["conditions"];
    assert_eq!(conditions[0]["message"], "fine", "{}", both.text);
    assert!(
        conditions[1]["lastTransitionTime"].is_string(),
        "{}",
        both.text
    );
}
