//! A token of an account, good for as long as the account is there.
//!
//! A token that is requested is kept nowhere in the member. Servers may limit how long such a one lasts; where they do, a
//! Secret of the account is asked for, which a controller of the member fills.

use std::time::{Duration, Instant};

use berth_api::well_known::NAMESPACE_CLUSTER;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::ResourceExt as _;
use kube::api::{Api, PostParams};

use super::hand::{Hand, JoinError};
use super::named;

/// As long as a token may last.
const LONGEST: i64 = 1 << 32;
/// A token that ends before is no use to a member.
const SHORTEST: jiff::SignedDuration = jiff::SignedDuration::from_hours(24 * 365);
/// How long the Secret may take to be filled.
const FILLED_WITHIN: Duration = Duration::from_secs(30);
const STEP: Duration = Duration::from_millis(250);
/// The type of a Secret that is filled.
const TYPE: &str = "kubernetes.io/service-account-token";
/// Names the account in it.
const ACCOUNT: &str = "kubernetes.io/service-account.name";

/// A token of an account. Empty in a dry run.
pub(super) async fn of(member: &Hand<'_>, account: &str) -> Result<String, JoinError> {
    if member.only_looks() {
        return Ok(String::new());
    }
    let failed = |error| {
        let doing = format!(
            "get a token of ServiceAccount {account} in {}",
            member.place()
        );
        JoinError::new(doing, error)
    };
    let accounts: Api<ServiceAccount> = Api::namespaced(member.client.clone(), NAMESPACE_CLUSTER);
    let request = TokenRequest {
        spec: Some(TokenRequestSpec {
            expiration_seconds: Some(LONGEST),
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
        && ends.duration_since(now) >= SHORTEST
    {
        return Ok(token);
    }
    in_secret(member, account).await
}

/// The token that a controller of the member puts into a Secret.
async fn in_secret(member: &Hand<'_>, account: &str) -> Result<String, JoinError> {
    let secrets: Api<Secret> = Api::namespaced(member.client.clone(), NAMESPACE_CLUSTER);
    let mut metadata = named(account);
    metadata.namespace = Some(NAMESPACE_CLUSTER.to_owned());
    metadata.annotations = Some([(ACCOUNT.to_owned(), account.to_owned())].into());
    let secret = Secret {
        metadata,
        type_: Some(TYPE.to_owned()),
        ..Secret::default()
    };
    let mut stored = member.apply(&secrets, secret).await?;
    let end = Instant::now() + FILLED_WITHIN;
    let doing = || {
        format!(
            "get a token of ServiceAccount {account} in {}",
            member.place()
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
                "its tokens end within a year, and nobody has put one into Secret {} within {FILLED_WITHIN:?}",
                stored.name_any()
            );
            return Err(JoinError::new(doing(), kube::Error::Service(why.into())));
        }
        tokio::time::sleep(STEP).await;
        stored = secrets
            .get(account)
            .await
            .map_err(|error| JoinError::new(doing(), error))?;
    }
}

/// Removes the Secret of an account, where there is one.
pub(super) async fn forget(member: &Hand<'_>, account: &str) -> Result<(), JoinError> {
    let secrets: Api<Secret> = Api::namespaced(member.client.clone(), NAMESPACE_CLUSTER);
    member.delete(&secrets, account).await
}
