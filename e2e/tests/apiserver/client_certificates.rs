//! Tests of authentication with client certificates.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::Client;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, date_time_ymd,
};
use serde_json::{Value, json};

use crate::harness::content_type::JSON;
use crate::harness::server::{TestServer, client_of, raw};
use crate::harness::{server, server::ApiResponse};

/// Name of the embedded server's certificate authority.
const AUTHORITY: &str = "berth-ca";
const WHOAMI: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

fn distinguished_name(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}

fn authority() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = distinguished_name(AUTHORITY);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params
}

/// Creates a certificate authority in a folder, and returns the path of its certificate.
pub(crate) fn create_authority(folder: &Path) -> PathBuf {
    let key = KeyPair::generate().unwrap();
    let certificate = authority().self_signed(&key).unwrap();
    std::fs::create_dir_all(folder).unwrap();
    std::fs::write(folder.join("ca.key"), key.serialize_pem()).unwrap();
    let file = folder.join("ca.crt");
    std::fs::write(&file, certificate.pem()).unwrap();
    file
}

/// Returns the parameters of a client certificate for a user in these groups. The caller may set a validity period.
fn certificate_for(user: &str, groups: &[&str]) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    if !user.is_empty() {
        params.distinguished_name.push(DnType::CommonName, user);
    }
    for (place, group) in groups.iter().enumerate() {
        // `DistinguishedName` keeps one value of each `DnType`. The second group is therefore added as a custom type
        // with the object identifier of the organization name.
        let kind = match place {
            0 => DnType::OrganizationName,
            _ => DnType::CustomDnType(vec![2, 5, 4, 10]),
        };
        params.distinguished_name.push(kind, *group);
    }
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params
}

/// Signs a certificate with the authority in the folder `credentials`, and returns a client with this certificate. The
/// client also sends `token`, if present. The token `administrator` stands for the token of the administrator.
async fn client(
    server: &TestServer,
    credentials: &Path,
    params: CertificateParams,
    token: Option<&str>,
) -> Client {
    let issuer = std::fs::read_to_string(credentials.join("ca.key")).unwrap();
    let issuer = Issuer::new(authority(), KeyPair::from_pem(&issuer).unwrap());
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, &issuer).unwrap().pem();
    let mut config = server.config().await;
    let bearer = config.auth_info.token.take();
    config.auth_info.token = token.map(|token| match token {
        "administrator" => bearer.unwrap(),
        other => other.to_owned().into(),
    });
    config.auth_info.client_certificate_data = Some(STANDARD.encode(certificate));
    config.auth_info.client_key_data = Some(STANDARD.encode(key.serialize_pem()).into());
    client_of(config)
}

async fn whoami(client: &Client) -> ApiResponse {
    raw(client, "POST", WHOAMI, &[JSON], "{}").await
}

/// Returns the user name and the groups in the response to a SelfSubjectReview.
fn user_and_groups(response: &ApiResponse) -> (&Value, &Value) {
    let info = &response.json["status"]["userInfo"];
    (&info["username"], &info["groups"])
}

/// Checks that the common name of a valid client certificate is the user name, and that its organizations are the
/// groups. Without a user name, the client is anonymous.
#[tokio::test]
async fn client_certificates_name_user_and_groups() {
    let server = server().await;
    let own = server.credentials();
    let carol = client(
        &server,
        &own,
        certificate_for("carol", &["devs", "ops"]),
        None,
    )
    .await;
    let response = whoami(&carol).await;
    assert_eq!(response.code, 201, "{}", response.text);
    let groups = json!(["devs", "ops", "system:authenticated"]);
    assert_eq!(user_and_groups(&response), (&json!("carol"), &groups));
    let credential =
        &response.json["status"]["userInfo"]["extra"]["authentication.kubernetes.io/credential-id"];
    let digest = credential[0].as_str().unwrap();
    let digest = digest.strip_prefix("X509SHA256=").unwrap();
    assert!(digest.len() == 64 && digest.bytes().all(|b| b.is_ascii_hexdigit()));
    // The user is authenticated, but has no rights.
    let path = "/api/v1/namespaces/default/configmaps";
    let response = raw(&carol, "GET", path, &[], "").await;
    let message = r#"configmaps is forbidden: User "carol" cannot list resource "configmaps" in API group "" in the namespace "default""#;
    assert_eq!(
        (response.code, &response.json["message"]),
        (403, &json!(message))
    );
    let root = client(
        &server,
        &own,
        certificate_for("root", &["system:masters"]),
        None,
    )
    .await;
    assert_eq!(raw(&root, "GET", path, &[], "").await.code, 200);
    // A valid certificate takes precedence over any token.
    for token in ["administrator", "made-up"] {
        let carol = client(&server, &own, certificate_for("carol", &[]), Some(token)).await;
        let response = whoami(&carol).await;
        assert_eq!(
            user_and_groups(&response).0,
            "carol",
            "{token}: {}",
            response.text
        );
    }
    // A certificate without a user name, or for the anonymous user, does not authenticate.
    for user in ["", "system:anonymous"] {
        let anonymous = client(&server, &own, certificate_for(user, &["devs"]), None).await;
        let response = whoami(&anonymous).await;
        let message = response.json["message"].as_str().unwrap_or_default();
        assert!(
            response.code == 403 && message.contains(r#"User "system:anonymous" cannot create"#),
            "{user}: {}",
            response.text
        );
    }
}

/// Checks that a client whose certificate is expired, not yet valid, for servers only, or from an unknown authority
/// gets the response 401 instead of a failed TLS handshake.
#[tokio::test]
async fn invalid_client_certificates_are_refused_with_a_response() {
    let server = server().await;
    let own = server.credentials();
    let elsewhere = tempfile::tempdir().unwrap();
    create_authority(elsewhere.path());
    let mut expired = certificate_for("carol", &[]);
    (expired.not_before, expired.not_after) =
        (date_time_ymd(2020, 1, 1), date_time_ymd(2021, 1, 1));
    let mut not_yet_valid = certificate_for("carol", &[]);
    (not_yet_valid.not_before, not_yet_valid.not_after) =
        (date_time_ymd(2100, 1, 1), date_time_ymd(2101, 1, 1));
    let mut for_servers = certificate_for("carol", &[]);
    for_servers.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let stranger = (
        elsewhere.path(),
        certificate_for("carol", &["system:masters"]),
    );
    for (what, (authority, params)) in [
        ("stranger", stranger),
        ("expired", (&*own, expired)),
        ("not yet valid", (&*own, not_yet_valid)),
        ("for servers", (&*own, for_servers)),
    ] {
        let client = client(&server, authority, params, None).await;
        for path in ["/version", "/healthz", "/api/v1/namespaces"] {
            let response = raw(&client, "GET", path, &[], "").await;
            let expected = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "message": "Unauthorized", "reason": "Unauthorized", "code": 401});
            assert_eq!(
                (response.code, &response.json),
                (401, &expected),
                "{what} {path}"
            );
        }
    }
    // A valid token authenticates a client with an invalid certificate.
    for (token, code) in [("administrator", 201), ("made-up", 401)] {
        let params = certificate_for("carol", &[]);
        let client = client(&server, elsewhere.path(), params, Some(token)).await;
        let response = whoami(&client).await;
        assert_eq!(response.code, code, "{token}: {}", response.text);
        assert_ne!(user_and_groups(&response).0, "carol");
    }
}
