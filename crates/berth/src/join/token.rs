//! Long-lived tokens of ServiceAccounts in a member.
//!
//! A TokenRequest is preferred, because the member does not store its token. Some members limit the lifetime of these
//! tokens. For such a member, a Secret is created for the account, and a controller of the member adds a token to the
//! Secret.

use std::time::{Duration, Instant};

use berth_api::well_known::NAMESPACE_CLUSTER;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::ResourceExt as _;
use kube::api::{Api, PostParams};

use super::applier::{Applier, JoinError};
use super::system_metadata;

/// Maximum lifetime that a TokenRequest accepts, in seconds.
const MAX_LIFETIME: i64 = 1 << 32;
/// Minimum lifetime of a token for the control plane.
const MIN_LIFETIME: jiff::SignedDuration = jiff::SignedDuration::from_hours(24 * 365);
/// Maximum time until the member adds the token to the Secret.
const FILL_TIMEOUT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// Type of a Secret to which Kubernetes adds a token.
const TYPE: &str = "kubernetes.io/service-account-token";
/// Annotation with the name of the account.
const ACCOUNT: &str = "kubernetes.io/service-account.name";

/// Issues a token for an account. The token is empty in a dry run.
pub(super) async fn issue(member: &Applier<'_>, account: &str) -> Result<String, JoinError> {
    if member.is_dry_run() {
        return Ok(String::new());
    }
    let failed = |error| {
        let doing = format!(
            "get a token of ServiceAccount {account} in {}",
            member.server_name()
        );
        JoinError::new(doing, error)
    };
    let accounts: Api<ServiceAccount> = Api::namespaced(member.client.clone(), NAMESPACE_CLUSTER);
    let request = TokenRequest {
        spec: Some(TokenRequestSpec {
            expiration_seconds: Some(MAX_LIFETIME),
            ..TokenRequestSpec::default()
        }),
        ..TokenRequest::default()
    };
    let parameters = PostParams::default();
    let issued = accounts.create_token_request(account, &parameters, &request);
    let issued = issued.await.map_err(failed)?.status.unwrap_or_default();
    let now = jiff::Timestamp::now();
    let ends = issued.expiration_timestamp.map_or(now, |time| time.0);
    if let Some(token) = issued.token
        && ends.duration_since(now) >= MIN_LIFETIME
    {
        return Ok(token);
    }
    issue_in_secret(member, account).await
}

/// Creates a Secret for the account, waits for its token, and returns the token.
async fn issue_in_secret(member: &Applier<'_>, account: &str) -> Result<String, JoinError> {
    let secrets: Api<Secret> = Api::namespaced(member.client.clone(), NAMESPACE_CLUSTER);
    let mut metadata = system_metadata(account);
    metadata.namespace = Some(NAMESPACE_CLUSTER.to_owned());
    metadata.annotations = Some([(ACCOUNT.to_owned(), account.to_owned())].into());
    let secret = Secret {
        metadata,
        type_: Some(TYPE.to_owned()),
        ..Secret::default()
    };
    let mut stored = member.apply(&secrets, secret).await?;
    let end = Instant::now() + FILL_TIMEOUT;
    let doing = || {
        format!(
            "get a token of ServiceAccount {account} in {}",
            member.server_name()
        )
    };
    loop {
        let data = stored.data.take().unwrap_or_default();
        if let Some(token) = data
            .get("token")
            .and_then(|token| std::str::from_utf8(&token.0).ok())
        {
            return Ok(token.to_owned());
        }
        if Instant::now() >= end {
            let why = format!(
                "the member limits tokens to less than a year, and added no token to Secret {} within {FILL_TIMEOUT:?}",
                stored.name_any()
            );
            return Err(JoinError::new(doing(), kube::Error::Service(why.into())));
        }
        tokio::time::sleep(POLL_INTERVAL).await;
        stored = secrets
            .get(account)
            .await
            .map_err(|error| JoinError::new(doing(), error))?;
    }
}

/// Deletes the token Secret of an account, if it exists.
pub(super) async fn delete_secret(member: &Applier<'_>, account: &str) -> Result<(), JoinError> {
    let secrets: Api<Secret> = Api::namespaced(member.client.clone(), NAMESPACE_CLUSTER);
    member.delete(&secrets, account).await
}
