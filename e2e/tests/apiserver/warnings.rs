//! Warnings about accepted objects: recorded ones of each kind, and warnings about changes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ED25519, SignatureAlgorithm};
use serde_json::{Value, json};

use crate::objects::{Objects, deployment};
use crate::server;
use crate::server::ApiResponse;

/// Objects that kube-apiserver 1.36 accepts, with their paths and warnings.
const RECORDED: &str = include_str!("data/warnings.json");

/// Returns the warnings of a response, sorted.
pub(crate) fn warnings_of(response: &ApiResponse) -> Vec<String> {
    let plain = |text: &str| {
        let text = text.strip_prefix("299 - \"")?.strip_suffix('"')?;
        Some(text.replace("\\\"", "\""))
    };
    let mut all: Vec<String> = response
        .headers
        .get_all("warning")
        .iter()
        .map(|value| plain(value.to_str().unwrap()).unwrap())
        .collect();
    all.sort();
    all
}

#[tokio::test]
async fn accepted_objects_have_the_recorded_warnings() {
    let server = server().await;
    let namespace = server.namespace().await;
    let recorded: Vec<Value> = serde_json::from_str(RECORDED).unwrap();
    assert!(recorded.len() > 100);
    let mut failures = Vec::new();
    for case in &recorded {
        let path = case["path"]
            .as_str()
            .unwrap()
            .replace("NAMESPACE", &namespace);
        let response = Objects::at(&server, path)
            .post("?dryRun=All", &case["object"])
            .await;
        let mut expected: Vec<String> = case["warnings"]
            .as_array()
            .unwrap()
            .iter()
            .map(|text| text.as_str().unwrap().to_owned())
            .collect();
        expected.sort();
        let found = warnings_of(&response);
        if response.code != 201 || found != expected {
            let what = if response.code == 201 {
                ""
            } else {
                &response.text
            };
            failures.push(format!(
                "{}: {found:#?} {expected:#?} {what}",
                case["object"]
            ));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[tokio::test]
async fn changes_repeat_warnings() {
    let server = server().await;
    let namespace = server.namespace().await;
    let deployments = Objects::deployments(&server, &namespace);
    let mut web = deployment("web");
    web["spec"]["template"]["spec"]["nodeSelector"] = json!({"beta.kubernetes.io/os": "linux"});
    let old = "spec.template.spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use \"kubernetes.io/os\" instead";
    let none: [&str; 0] = [];
    assert_eq!(warnings_of(&deployments.post("", &web).await), [old]);
    let labelled = json!({"metadata": {"labels": {"a": "b"}}});
    assert_eq!(
        warnings_of(&deployments.merge("/web", &labelled).await),
        none
    );
    let scaled = json!({"spec": {"replicas": 3}});
    for rest in ["/web", "/web/scale"] {
        assert_eq!(
            warnings_of(&deployments.merge(rest, &scaled).await).len(),
            usize::from(rest == "/web")
        );
    }
    let more = json!({"spec": {"replicas": 4}});
    assert_eq!(
        warnings_of(&deployments.merge("/web/scale", &more).await),
        [old]
    );
    let status = json!({"status": {"replicas": 4}});
    assert_eq!(
        warnings_of(&deployments.merge("/web/status", &status).await),
        none
    );
    web["spec"]["replicas"] = json!(5);
    let applied = deployments.apply("web", "one&force=true", &web).await;
    assert_eq!(warnings_of(&applied), [old], "{}", applied.text);

    // Pods cause warnings on creation only, services on every write.
    let pods = Objects::at(&server, format!("/api/v1/namespaces/{namespace}/pods"));
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i",
        "env": [{"name": "A"}, {"name": "A"}]}]}});
    assert_eq!(warnings_of(&pods.post("", &pod).await).len(), 1);
    assert_eq!(warnings_of(&pods.merge("/p", &labelled).await), none);
    let services = Objects::at(&server, format!("/api/v1/namespaces/{namespace}/services"));
    let near = "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"";
    let service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}], "trafficDistribution": "PreferClose"}});
    assert_eq!(warnings_of(&services.post("", &service).await), [near]);
    assert_eq!(warnings_of(&services.merge("/s", &labelled).await), [near]);
}

#[tokio::test]
async fn an_autoscaler_without_policies_is_refused() {
    let server = server().await;
    let namespace = server.namespace().await;
    let path = format!("/apis/autoscaling/v2/namespaces/{namespace}/horizontalpodautoscalers");
    let autoscalers = Objects::at(&server, path);
    let with = |policies: Value| {
        json!({"metadata": {"name": "a"}, "spec": {"maxReplicas": 2, "behavior": {"scaleDown": {"policies": policies}},
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}}})
    };
    let refused = autoscalers.post("", &with(json!([]))).await;
    let causes = ["spec.behavior.scaleDown.policies FieldValueRequired".to_owned()];
    assert_eq!((refused.code, refused.causes()), (422, causes.into()));
    let created = autoscalers.post("", &with(Value::Null)).await;
    let policies = &created.json["spec"]["behavior"]["scaleDown"]["policies"];
    assert_eq!(
        policies.as_array().map(Vec::len),
        Some(1),
        "{}",
        created.text
    );
}

/// Returns a key and a certificate for it.
fn pair(kind: &'static SignatureAlgorithm) -> (String, String) {
    let key = KeyPair::generate_for(kind).unwrap();
    let certificate = rcgen::CertificateParams::default().self_signed(&key);
    (key.serialize_pem(), certificate.unwrap().pem())
}

#[tokio::test]
async fn mismatched_keys_and_certificates_in_secrets_cause_warnings() {
    let server = server().await;
    let namespace = server.namespace().await;
    let secrets = Objects::at(&server, format!("/api/v1/namespaces/{namespace}/secrets"));
    let post = async |certificate: &str, key: &str| {
        let data =
            json!({"tls.crt": STANDARD.encode(certificate), "tls.key": STANDARD.encode(key)});
        let secret = json!({"metadata": {"name": "s"}, "type": "kubernetes.io/tls", "data": data});
        warnings_of(&secrets.post("?dryRun=All", &secret).await)
    };
    let (key, certificate) = pair(&PKCS_ECDSA_P256_SHA256);
    let (other_key, _) = pair(&PKCS_ECDSA_P256_SHA256);
    let (edwards_key, edwards_certificate) = pair(&PKCS_ED25519);
    let block = |label: &str| format!("-----BEGIN {label}-----\nAAAA\n-----END {label}-----\n");
    let (strange, empty_key) = (block("THING"), block("PRIVATE KEY"));
    let mismatch = "tls: private key does not match public key";
    for (certificate, key, warning) in [
        (&*certificate, &*key, ""),
        (&*edwards_certificate, &*edwards_key, ""),
        (
            &*(strange.clone() + &certificate),
            &*(certificate.clone() + &key),
            "",
        ),
        (&*certificate, &*other_key, mismatch),
        (
            &*certificate,
            &*edwards_key,
            "tls: private key type does not match public key type",
        ),
        (
            &*key,
            &*certificate,
            "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may have been switched",
        ),
        (
            &*certificate,
            &*certificate,
            "tls: found a certificate rather than a key in the PEM for the private key",
        ),
        (
            &*strange,
            &*key,
            "tls: failed to find \"CERTIFICATE\" PEM block in certificate input after skipping PEM blocks of the following types: [THING]",
        ),
        (
            &*certificate,
            &*strange,
            "tls: failed to find PEM block with type ending in \"PRIVATE KEY\" in key input after skipping PEM blocks of the following types: [THING]",
        ),
        (
            &*certificate,
            "nothing",
            "tls: failed to find any PEM data in key input",
        ),
        (&*block("CERTIFICATE"), &*key, "x509: malformed certificate"),
    ] {
        let found = post(certificate, key).await;
        let expected: Vec<&str> = (!warning.is_empty())
            .then_some(warning)
            .into_iter()
            .collect();
        assert_eq!(found, expected, "{certificate}{key}");
    }
    // The rest of the message comes from Go's parser.
    let found = post(&certificate, &empty_key).await;
    assert!(
        found[0].starts_with("tls: failed to parse private key"),
        "{found:?}"
    );
}
