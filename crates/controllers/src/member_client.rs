//! Clients for members, built from a Cluster and its Secrets.
//!
//! `spec.proxyURL` may be an HTTP, HTTPS or SOCKS5 proxy. HTTP and HTTPS proxies receive the headers of
//! `spec.proxyHeader`. SOCKS5 proxies receive no headers.

pub mod impersonation;
pub mod proxied;

use berth_apimachinery::api_error::api_error_message;
use std::time::Duration;

use berth_api::Cluster;
use berth_api::cluster::LocalSecretReference;
use berth_component_base::kube_client::transport;
use berth_component_base::list_watch::{self, AfterOutage, Budget};
use berth_component_base::user_agent::Component;
use http::header::USER_AGENT;
use http::{HeaderMap, HeaderName, HeaderValue};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use kube::api::Api;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;

/// The time limit of a write to a connection. Karmada limits a whole request to this time.
const WRITE_TIMEOUT: Duration = Duration::from_secs(32);
/// The time limit for connecting to a member.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The time after which a watch is renewed.
const WATCH: Duration = Duration::from_secs(90);
/// The time limit between two reads of a connection. It is longer than a watch, so that only broken connections exceed
/// the limit.
const READ_TIMEOUT: Duration = Duration::from_secs(110);

/// An error about the Cluster or Secret of a member. Messages of conditions contain the text of this error.
#[derive(Debug, thiserror::Error)]
pub enum MemberClientError {
    /// The Cluster has no API endpoint.
    #[error("the api endpoint of cluster {0} is empty")]
    NoEndpoint(String),
    /// The API endpoint is malformed.
    #[error("the api endpoint of cluster {cluster}, {url:?}, is not a URL: {source}")]
    Endpoint {
        /// The name of the cluster.
        cluster: String,
        /// The malformed endpoint.
        url: String,
        /// The parser's error.
        source: http::uri::InvalidUri,
    },
    /// The Cluster has no `secretRef`.
    #[error("cluster {0} does not have a secret")]
    NoSecret(String),
    /// The Cluster has no `impersonatorSecretRef`.
    #[error("the impersonatorSecretRef of cluster {0} is nil")]
    NoImpersonator(String),
    /// The Secret cannot be read.
    #[error(
        "cannot read the secret {name} of cluster {cluster}: {}",
        api_error_message(source)
    )]
    Secret {
        /// The name of the cluster.
        cluster: String,
        /// Namespace and name of the Secret.
        name: String,
        /// The error of the request.
        source: Box<kube::Error>,
    },
    /// The Secret is incomplete or malformed.
    #[error("the secret {name} of cluster {cluster} {problem}")]
    Content {
        /// The name of the cluster.
        cluster: String,
        /// Namespace and name of the Secret.
        name: String,
        /// The problem, as a verb phrase.
        problem: &'static str,
    },
    /// The proxy URL is malformed.
    #[error(
        "the proxyURL of cluster {cluster}, {url:?}, is not the http, https or socks5 URL of a proxy"
    )]
    Proxy {
        /// The name of the cluster.
        cluster: String,
        /// The malformed URL.
        url: String,
    },
    /// A proxy header is malformed.
    #[error("the proxyHeader {header:?} of cluster {cluster} is not an HTTP header")]
    ProxyHeader {
        /// The name of the cluster.
        cluster: String,
        /// The name of the header.
        header: String,
    },
    /// The client cannot be built.
    #[error(
        "cannot build a client for cluster {cluster}: {}",
        api_error_message(source)
    )]
    Build {
        /// The name of the cluster.
        cluster: String,
        /// The error of the client library.
        source: Box<kube::Error>,
    },
}

impl MemberClientError {
    /// Reports whether an outage of the control plane prevented reading the Secret, which may be unchanged.
    pub(crate) fn is_outage(&self) -> bool {
        match self {
            Self::Secret { source, .. } => match &**source {
                kube::Error::Api(status) => status.code >= 500 || status.code == 429,
                _ => true,
            },
            _ => false,
        }
    }
}

/// Returns the configuration for watches of a member. All watches with the same budget share its limits.
pub(crate) fn watch_config(budget: Budget) -> list_watch::Config {
    list_watch::Config {
        watch: WATCH,
        after_outage: AfterOutage::List,
        budget: Some(budget),
        ..list_watch::Config::default()
    }
}

/// Reads the Secret of a cluster and builds a client for the member.
///
/// # Errors
/// When the Cluster or its Secret is incomplete or malformed.
pub async fn connect(
    control_plane: &kube::Client,
    cluster: &Cluster,
) -> Result<kube::Client, MemberClientError> {
    let secret = credentials(control_plane, cluster).await?;
    connect_with(cluster, &secret)
}

/// Reads the Secret with the credentials of a cluster.
///
/// # Errors
/// When the Cluster has no Secret, or the Secret cannot be read.
pub(crate) async fn credentials(
    control_plane: &kube::Client,
    cluster: &Cluster,
) -> Result<Secret, MemberClientError> {
    let reference = cluster.spec.secret_ref.as_ref();
    let reference = reference.ok_or_else(|| MemberClientError::NoSecret(cluster.name_any()))?;
    secret(control_plane, cluster, reference).await
}

/// Builds a client for a member with the credentials of its Secret.
///
/// # Errors
/// When the Cluster or its Secret is incomplete or malformed.
pub(crate) fn connect_with(
    cluster: &Cluster,
    secret: &Secret,
) -> Result<kube::Client, MemberClientError> {
    let config = config(cluster, secret)?;
    let client = transport::limited_client(&config, proxy_headers(cluster)?);
    client.map_err(|source| MemberClientError::Build {
        cluster: cluster.name_any(),
        source: Box::new(source),
    })
}

/// Reads a Secret of a cluster.
async fn secret(
    control_plane: &kube::Client,
    cluster: &Cluster,
    reference: &LocalSecretReference,
) -> Result<Secret, MemberClientError> {
    let secrets: Api<Secret> = Api::namespaced(control_plane.clone(), &reference.namespace);
    let found = secrets.get(&reference.name).await;
    found.map_err(|source| MemberClientError::Secret {
        cluster: cluster.name_any(),
        name: format!("{}/{}", reference.namespace, reference.name),
        source: Box::new(source),
    })
}

/// Returns the client configuration for a Cluster and its Secret.
///
/// # Errors
/// When the Cluster or its Secret is incomplete or malformed.
pub fn config(cluster: &Cluster, secret: &Secret) -> Result<kube::Config, MemberClientError> {
    let mut config = endpoint(cluster)?;
    let agent = HeaderValue::try_from(Component::Controllers.user_agent());
    config.headers = agent.map(|agent| (USER_AGENT, agent)).into_iter().collect();
    config.auth_info.token = Some(token(cluster, secret)?.into());
    config.root_cert = ca_certificates(cluster, secret)?;
    config.write_timeout = Some(WRITE_TIMEOUT);
    config.read_timeout = Some(READ_TIMEOUT);
    Ok(config)
}

/// Returns the client configuration for a Cluster without certificates and credentials.
fn endpoint(cluster: &Cluster) -> Result<kube::Config, MemberClientError> {
    let name = cluster.name_any();
    let spec = &cluster.spec;
    let proxy = proxy(cluster)?;
    let url = spec.api_endpoint.clone().unwrap_or_default();
    if url.is_empty() {
        return Err(MemberClientError::NoEndpoint(name));
    }
    let parsed = url.parse().map_err(|source| MemberClientError::Endpoint {
        cluster: name.clone(),
        url: url.clone(),
        source,
    })?;
    let mut config = kube::Config::new(parsed);
    config.proxy_url = proxy;
    config.accept_invalid_certs = skips_verification(cluster);
    // The callers retry failed requests.
    config.default_retry = false;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.reset_reader_on_write = true;
    Ok(config)
}

fn skips_verification(cluster: &Cluster) -> bool {
    cluster.spec.insecure_skip_tls_verification.unwrap_or(false)
}

/// Returns the token of a Secret.
fn token(cluster: &Cluster, secret: &Secret) -> Result<String, MemberClientError> {
    let token =
        entry(secret, "token").ok_or_else(|| content_error(cluster, secret, "has no token"))?;
    String::from_utf8(token.to_vec())
        .map_err(|_| content_error(cluster, secret, "has a token that is not text"))
}

/// Returns the CA certificates that verify the member. Returns `None` if the Secret has no `caBundle` and the Cluster
/// skips the verification.
fn ca_certificates(
    cluster: &Cluster,
    secret: &Secret,
) -> Result<Option<Vec<Vec<u8>>>, MemberClientError> {
    let Some(bundle) = entry(secret, "caBundle") else {
        return if skips_verification(cluster) {
            Ok(None)
        } else {
            Err(content_error(cluster, secret, "has no caBundle"))
        };
    };
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(bundle)
        .map(|certificate| certificate.map(|der| der.to_vec()))
        .collect();
    let certificates = certificates
        .map_err(|_| content_error(cluster, secret, "has a caBundle that is not PEM"))?;
    Ok(Some(certificates))
}

fn entry<'a>(secret: &'a Secret, key: &str) -> Option<&'a [u8]> {
    let bytes = secret.data.as_ref()?.get(key)?;
    (!bytes.0.is_empty()).then_some(bytes.0.as_slice())
}

fn content_error(cluster: &Cluster, secret: &Secret, problem: &'static str) -> MemberClientError {
    MemberClientError::Content {
        cluster: cluster.name_any(),
        name: format!(
            "{}/{}",
            secret.namespace().unwrap_or_default(),
            secret.name_any()
        ),
        problem,
    }
}

/// Returns the URL of the member's proxy, or `None` if the member has no proxy.
fn proxy(cluster: &Cluster) -> Result<Option<http::Uri>, MemberClientError> {
    let spec = &cluster.spec;
    let Some(url) = spec.proxy_url.as_ref().filter(|url| !url.is_empty()) else {
        return Ok(None);
    };
    let is_supported =
        |uri: &http::Uri| matches!(uri.scheme_str(), Some("http" | "https" | "socks5"));
    let parsed = url.parse().ok().filter(is_supported);
    let proxy = parsed.ok_or_else(|| MemberClientError::Proxy {
        cluster: cluster.name_any(),
        url: url.clone(),
    })?;
    Ok(Some(proxy))
}

/// Returns the headers for the proxy. Commas separate several values of one header.
fn proxy_headers(cluster: &Cluster) -> Result<HeaderMap, MemberClientError> {
    let mut headers = HeaderMap::new();
    for (name, values) in &cluster.spec.proxy_header {
        let malformed = || MemberClientError::ProxyHeader {
            cluster: cluster.name_any(),
            header: name.clone(),
        };
        let header = HeaderName::try_from(name).map_err(|_| malformed())?;
        for value in values.split(',') {
            let mut value = HeaderValue::try_from(value).map_err(|_| malformed())?;
            value.set_sensitive(true);
            headers.append(header.clone(), value);
        }
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use berth_api::cluster::ClusterSpec;
    use k8s_openapi::ByteString;

    use super::*;

    const PEM: &str = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";

    fn cluster() -> Cluster {
        Cluster::new(
            "m1",
            ClusterSpec {
                api_endpoint: Some("https://127.0.0.1:6444".to_owned()),
                secret_ref: Some(LocalSecretReference {
                    namespace: "karmada-cluster".to_owned(),
                    name: "m1".to_owned(),
                }),
                ..ClusterSpec::default()
            },
        )
    }

    fn secret(entries: &[(&str, &str)]) -> Secret {
        let data = entries
            .iter()
            .map(|(key, value)| ((*key).to_owned(), ByteString(value.as_bytes().to_vec())));
        Secret {
            data: Some(data.collect()),
            ..Secret::default()
        }
    }

    #[test]
    fn the_config_combines_cluster_and_secret() {
        let config = config(&cluster(), &secret(&[("token", "t"), ("caBundle", PEM)])).unwrap();
        assert_eq!(config.cluster_url.to_string(), "https://127.0.0.1:6444/");
        assert_eq!(config.root_cert.unwrap(), [vec![0, 0, 0]]);
        assert!(!config.accept_invalid_certs);
        assert!(config.auth_info.token.is_some());
    }

    #[test]
    fn a_watch_ends_before_the_read_timeout() {
        let config = config(&cluster(), &secret(&[("token", "t"), ("caBundle", PEM)])).unwrap();
        assert!(WATCH + CONNECT_TIMEOUT < config.read_timeout.unwrap());
    }

    #[test]
    fn the_proxy_url_is_part_of_the_config() {
        for url in ["http://p:3128", "https://p:3129", "socks5://p:1080"] {
            let mut cluster = cluster();
            cluster.spec.proxy_url = Some(url.to_owned());
            let config = config(&cluster, &secret(&[("token", "t"), ("caBundle", PEM)])).unwrap();
            assert_eq!(config.proxy_url, Some(url.parse().unwrap()));
        }
    }

    #[test]
    fn proxy_headers_may_have_several_values() {
        let headers = |name: &str, values: &str| {
            let mut cluster = cluster();
            cluster.spec.proxy_header = [(name.to_owned(), values.to_owned())].into();
            proxy_headers(&cluster)
        };
        let team = headers("X-Team", "a,b").unwrap();
        let values: Vec<&HeaderValue> = team.get_all("x-team").iter().collect();
        assert_eq!(values, ["a", "b"]);
        for (name, values) in [("no header", "a"), ("X-Team", "a\nb")] {
            let error = headers(name, values).unwrap_err().to_string();
            assert!(error.contains("is not an HTTP header"), "{error}");
        }
    }

    #[test]
    fn errors_name_the_missing_part() {
        let change = |edit: &dyn Fn(&mut ClusterSpec)| {
            let mut cluster = cluster();
            edit(&mut cluster.spec);
            cluster
        };
        let whole = secret(&[("token", "t"), ("caBundle", PEM)]);
        let cases = [
            (
                change(&|s| s.api_endpoint = None),
                whole.clone(),
                "endpoint",
            ),
            (
                change(&|s| s.proxy_url = Some("ftp://p".to_owned())),
                whole,
                "http, https or socks5",
            ),
            (cluster(), secret(&[("caBundle", PEM)]), "no token"),
            (cluster(), secret(&[("token", "t")]), "no caBundle"),
        ];
        for (cluster, secret, expected) in cases {
            let error = config(&cluster, &secret).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        let trusting = change(&|s| s.insecure_skip_tls_verification = Some(true));
        assert!(config(&trusting, &secret(&[("token", "t")])).is_ok());
    }
}
