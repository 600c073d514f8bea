//! A client for the debug endpoints of a running scheduler. Commands use the client to read the scheduler's
//! configuration and the scheduler's records of decisions.

use std::fmt;

use berth_api::BindingKey;
use berth_component_base::kube_client;
use berth_component_base::user_agent::Component;
use berth_scheduler::debug_api::{
    ActiveConfiguration, CONFIGURATION_PATH, DECISIONS_PATH, DecisionDetails, QUEUES_PATH,
    QueueList,
};
use http::Uri;
use kube::config::{
    AuthInfo, Cluster, Context, KubeConfigOptions, Kubeconfig, NamedAuthInfo, NamedCluster,
    NamedContext,
};
use kube::{Client, Config};
use serde::de::DeserializeOwned;

/// Name of the cluster, the user and the context in the kubeconfig that configures the client.
const NAME: &str = "scheduler";
/// Maximum number of characters of the scheduler's response in an error message.
const REFUSAL: usize = 300;

/// An error of a request to a scheduler.
#[derive(Debug, thiserror::Error)]
pub enum SchedulerEndpointError {
    /// The URL is malformed.
    #[error("--scheduler-url {url}: {reason}")]
    Url {
        /// The URL.
        url: String,
        /// The reason.
        reason: String,
    },
    /// The scheduler cannot be reached, or the client cannot be configured.
    #[error("cannot connect to the scheduler at {url}: {reason}")]
    Connect {
        /// The URL.
        url: String,
        /// The reason.
        reason: String,
    },
    /// The scheduler responds with an error status.
    #[error("the scheduler at {url} refuses {path} ({status}): {reason}{}", advice(*.status))]
    Refused {
        /// The URL.
        url: String,
        /// The path.
        path: String,
        /// The status code.
        status: u16,
        /// The reason.
        reason: String,
    },
    /// The response cannot be decoded.
    #[error("the scheduler at {url} sent an unusable response to {path}: {reason}")]
    Malformed {
        /// The URL.
        url: String,
        /// The path.
        path: String,
        /// The reason.
        reason: String,
    },
}

impl SchedulerEndpointError {
    /// Reports whether the user must correct the command line.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Url { .. })
    }
}

fn advice(status: u16) -> &'static str {
    match status {
        401 => "; pass --scheduler-token-file FILE",
        403 => "; the token's user needs a ClusterRole with get on this nonResourceURL",
        _ => "",
    }
}

/// A client for the debug endpoints of a scheduler.
#[derive(Clone)]
pub struct SchedulerEndpoint {
    url: String,
    client: Client,
}

impl fmt::Debug for SchedulerEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // `Client` implements no `Debug`.
        f.debug_struct("SchedulerEndpoint")
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

impl SchedulerEndpoint {
    /// Creates a client for the scheduler at a URL. `tls` and `credentials` have the certificate authority and the
    /// token of the scheduler.
    ///
    /// # Errors
    /// Fails if the URL is malformed, if the token would be sent in plain text, or if a file cannot be used.
    pub async fn connect(
        url: &str,
        tls: Cluster,
        credentials: AuthInfo,
    ) -> Result<Self, SchedulerEndpointError> {
        let url = url.trim_end_matches('/');
        check(url, &credentials).map_err(|reason| SchedulerEndpointError::Url {
            url: url.to_owned(),
            reason,
        })?;
        let kubeconfig = Kubeconfig {
            clusters: vec![NamedCluster {
                name: NAME.to_owned(),
                cluster: Some(Cluster {
                    server: Some(url.to_owned()),
                    ..tls
                }),
                ..NamedCluster::default()
            }],
            auth_infos: vec![NamedAuthInfo {
                name: NAME.to_owned(),
                auth_info: Some(credentials),
                ..NamedAuthInfo::default()
            }],
            contexts: vec![NamedContext {
                name: NAME.to_owned(),
                context: Some(Context {
                    cluster: NAME.to_owned(),
                    user: Some(NAME.to_owned()),
                    ..Context::default()
                }),
                ..NamedContext::default()
            }],
            current_context: Some(NAME.to_owned()),
            ..Kubeconfig::default()
        };
        let failed = |reason: String| SchedulerEndpointError::Connect {
            url: url.to_owned(),
            reason,
        };
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
        let mut config = config.map_err(|error| failed(error.to_string()))?;
        kube_client::retry_requests(&mut config);
        config.proxy_url = None;
        let client = kube_client::client(config, Component::CommandLine);
        let client = client.map_err(|error| failed(error.to_string()))?;
        Ok(Self {
            url: url.to_owned(),
            client,
        })
    }

    /// Returns the URL of the scheduler.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Reads the last decision about a binding. Returns `None` if the scheduler has no record of a decision.
    ///
    /// # Errors
    /// Fails if the scheduler does not respond, or responds with an error.
    pub(crate) async fn decision(
        &self,
        key: &BindingKey,
    ) -> Result<Option<DecisionDetails>, SchedulerEndpointError> {
        let path = format!("{DECISIONS_PATH}?binding={key}");
        match self.get(&path).await {
            Err(SchedulerEndpointError::Refused { status: 404, .. }) => Ok(None),
            other => other.map(Some),
        }
    }

    /// Reads the queues of the scheduler, and the position of a binding. Returns `None` if the scheduler does not serve
    /// its queues.
    ///
    /// # Errors
    /// Fails if the scheduler does not respond, or responds with an error.
    pub async fn queues(
        &self,
        key: Option<&BindingKey>,
    ) -> Result<Option<QueueList>, SchedulerEndpointError> {
        let path = match key {
            Some(key) => format!("{QUEUES_PATH}?binding={key}"),
            None => QUEUES_PATH.to_owned(),
        };
        match self.get(&path).await {
            Err(SchedulerEndpointError::Refused { status: 404, .. }) => Ok(None),
            other => other.map(Some),
        }
    }

    /// Reads the configuration of the scheduler.
    ///
    /// # Errors
    /// Fails if the scheduler does not respond, or responds with an error.
    pub async fn configuration(&self) -> Result<ActiveConfiguration, SchedulerEndpointError> {
        self.get(CONFIGURATION_PATH).await
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, SchedulerEndpointError> {
        let connect = |reason: String| SchedulerEndpointError::Connect {
            url: self.url.clone(),
            reason,
        };
        let request = http::Request::get(path).body(kube::client::Body::empty());
        let request = request.map_err(|error| connect(error.to_string()))?;
        let response = self.client.send(request).await;
        let response = response.map_err(|error| connect(causes(&error)))?;
        let status = response.status();
        let body = response.into_body().collect_bytes().await;
        let body = body.map_err(|error| connect(error.to_string()))?;
        if !status.is_success() {
            let reason: String = String::from_utf8_lossy(&body)
                .trim()
                .chars()
                .take(REFUSAL)
                .collect();
            return Err(SchedulerEndpointError::Refused {
                url: self.url.clone(),
                path: path.to_owned(),
                status: status.as_u16(),
                reason,
            });
        }
        serde_json::from_slice(&body).map_err(|error| SchedulerEndpointError::Malformed {
            url: self.url.clone(),
            path: path.to_owned(),
            reason: error.to_string(),
        })
    }
}

/// Checks the form of a URL, and that a token is sent only over TLS or to this machine.
fn check(url: &str, credentials: &AuthInfo) -> Result<(), String> {
    let parsed: Uri = url.parse().map_err(|error| format!("{error}"))?;
    let host = parsed.host().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']');
    let is_local = host == "localhost"
        || address
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback());
    let scheme = parsed.scheme_str().unwrap_or_default();
    if host.is_empty() || !["http", "https"].contains(&scheme) {
        return Err("must have the form http://HOST:PORT or https://HOST:PORT".to_owned());
    }
    if scheme == "http" && credentials.token_file.is_some() && !is_local {
        return Err("a token is sent over https only".to_owned());
    }
    Ok(())
}

/// Returns the message of an error, followed by the messages of its causes. The last cause contains the reason of a
/// failed connection.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_sent_only_over_tls_or_to_this_machine() {
        let with_token = AuthInfo {
            token_file: Some("token".to_owned()),
            ..AuthInfo::default()
        };
        for (url, plain, secret) in [
            ("https://scheduler.example:8080", true, true),
            ("http://127.0.0.1:8080", true, true),
            ("http://[::1]:8080", true, true),
            ("http://localhost:8080", true, true),
            ("http://scheduler.example:8080", true, false),
            ("scheduler.example:8080", false, false),
            ("ftp://scheduler.example", false, false),
        ] {
            assert_eq!(check(url, &AuthInfo::default()).is_ok(), plain, "{url}");
            assert_eq!(check(url, &with_token).is_ok(), secret, "{url}");
        }
    }
}
