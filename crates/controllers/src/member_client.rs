//! A client for a member, made of its Cluster and the Secret that the Cluster names.
//!
//! `spec.proxyURL` may be a proxy for HTTP, HTTPS or SOCKS5. The first two are sent the headers of `spec.proxyHeader`; SOCKS5
//! has none.

pub mod on_behalf;
mod through_proxy;

use std::time::Duration;

use berth_api::Cluster;
use berth_api::cluster::LocalSecretReference;
use berth_api::component::Component;
use http::header::USER_AGENT;
use http::{HeaderMap, HeaderName, HeaderValue};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use kube::api::Api;
use kube::runtime::watcher;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;

use crate::said::said;

/// How long a request to a member may take, as in Karmada.
const PATIENCE: Duration = Duration::from_secs(32);
/// How long until a member has taken up the connection.
const CONNECT: Duration = Duration::from_secs(10);
/// How long a watch of a member lasts before it is begun again. One that hears nothing for longer has lost its
/// connection without a word.
const WATCH_SECONDS: u32 = 90;
/// How long nothing at all may come on a connection: a little longer than a watch lasts.
const SILENCE: Duration = Duration::from_secs(110);

/// Why there is no client for a member. The texts are those of a condition's message.
#[derive(Debug, thiserror::Error)]
pub enum MemberClientError {
    /// It is not said where the member is.
    #[error("the api endpoint of cluster {0} is empty")]
    NoEndpoint(String),
    /// The endpoint is no URL.
    #[error("the api endpoint of cluster {cluster}, {url:?}, is no URL: {source}")]
    Endpoint {
        /// The cluster.
        cluster: String,
        /// As written.
        url: String,
        /// What is wrong.
        source: http::uri::InvalidUri,
    },
    /// The cluster names no secret.
    #[error("cluster {0} does not have a secret")]
    NoSecret(String),
    /// The cluster names no secret for impersonation.
    #[error("the impersonatorSecretRef of cluster {0} is nil")]
    NoImpersonator(String),
    /// The secret cannot be read.
    #[error("cannot read the secret {name} of cluster {cluster}: {}", said(source))]
    Secret {
        /// The cluster.
        cluster: String,
        /// Namespace and name of the secret.
        name: String,
        /// Why not.
        source: Box<kube::Error>,
    },
    /// The secret is not what it should be.
    #[error("the secret {name} of cluster {cluster} {wrong}")]
    Content {
        /// The cluster.
        cluster: String,
        /// Namespace and name of the secret.
        name: String,
        /// What is wrong.
        wrong: &'static str,
    },
    /// The proxy is no URL of one.
    #[error(
        "the proxyURL of cluster {cluster}, {url:?}, is no http, https or socks5 URL of a proxy"
    )]
    Proxy {
        /// The cluster.
        cluster: String,
        /// As written.
        url: String,
    },
    /// What the proxy is to be told is no header.
    #[error("the proxyHeader {header:?} of cluster {cluster} is no HTTP header")]
    ProxyHeader {
        /// The cluster.
        cluster: String,
        /// Its name, as written.
        header: String,
    },
    /// The client cannot be built.
    #[error("cannot build a client for cluster {cluster}: {}", said(source))]
    Build {
        /// The cluster.
        cluster: String,
        /// Why not.
        source: Box<kube::Error>,
    },
}

/// How the objects of members are watched.
pub(crate) fn watching() -> watcher::Config {
    watcher::Config::default()
        .any_semantic()
        .timeout(WATCH_SECONDS)
}

/// Reads the secret of a cluster and makes a client for the member.
///
/// # Errors
/// When the Cluster or its Secret do not say enough.
pub async fn connect(
    control_plane: &kube::Client,
    cluster: &Cluster,
) -> Result<kube::Client, MemberClientError> {
    let name = cluster.name_any();
    let reference = cluster
        .spec
        .secret_ref
        .as_ref()
        .ok_or_else(|| MemberClientError::NoSecret(name.clone()))?;
    let secret = secret(control_plane, cluster, reference).await?;
    let config = config(cluster, &secret)?;
    let headers = proxy_headers(cluster)?;
    let tunneled = config.proxy_url.clone().filter(|url| {
        let has_headers = matches!(url.scheme_str(), Some("http" | "https"));
        has_headers && !headers.is_empty()
    });
    let client = match tunneled {
        Some(proxy) => through_proxy::client(&config, proxy, headers),
        None => kube::Client::try_from(config),
    };
    client.map_err(|source| MemberClientError::Build {
        cluster: name,
        source: Box::new(source),
    })
}

/// Reads a secret of a cluster.
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

/// What a Cluster and its Secret say about the way into the member.
///
/// # Errors
/// When they do not say enough.
pub fn config(cluster: &Cluster, secret: &Secret) -> Result<kube::Config, MemberClientError> {
    let mut config = endpoint(cluster)?;
    let agent = HeaderValue::try_from(Component::Controllers.user_agent());
    config.headers = agent.map(|agent| (USER_AGENT, agent)).into_iter().collect();
    config.auth_info.token = Some(token(cluster, secret)?.into());
    config.root_cert = authorities(cluster, secret)?;
    config.write_timeout = Some(PATIENCE);
    config.read_timeout = Some(SILENCE);
    Ok(config)
}

/// Returns how a member is reached, without certificates and credentials.
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
    config.accept_invalid_certs = trusts_anybody(cluster);
    // Who asks decides when to ask again, not the transport.
    config.default_retry = false;
    config.connect_timeout = Some(CONNECT);
    config.reset_reader_on_write = true;
    Ok(config)
}

fn trusts_anybody(cluster: &Cluster) -> bool {
    cluster.spec.insecure_skip_tls_verification.unwrap_or(false)
}

/// Returns the token of a secret.
fn token(cluster: &Cluster, secret: &Secret) -> Result<String, MemberClientError> {
    let token = entry(secret, "token").ok_or_else(|| wrong(cluster, secret, "has no token"))?;
    String::from_utf8(token.to_vec())
        .map_err(|_| wrong(cluster, secret, "has a token that is no text"))
}

/// Returns the certificates that the member is checked against; none where it is not checked.
fn authorities(
    cluster: &Cluster,
    secret: &Secret,
) -> Result<Option<Vec<Vec<u8>>>, MemberClientError> {
    let Some(bundle) = entry(secret, "caBundle") else {
        return if trusts_anybody(cluster) {
            Ok(None)
        } else {
            Err(wrong(cluster, secret, "has no caBundle"))
        };
    };
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(bundle)
        .map(|certificate| certificate.map(|der| der.to_vec()))
        .collect();
    let certificates =
        certificates.map_err(|_| wrong(cluster, secret, "has a caBundle that is no PEM"))?;
    Ok(Some(certificates))
}

fn entry<'a>(secret: &'a Secret, key: &str) -> Option<&'a [u8]> {
    let bytes = secret.data.as_ref()?.get(key)?;
    (!bytes.0.is_empty()).then_some(bytes.0.as_slice())
}

fn wrong(cluster: &Cluster, secret: &Secret, wrong: &'static str) -> MemberClientError {
    MemberClientError::Content {
        cluster: cluster.name_any(),
        name: format!(
            "{}/{}",
            secret.namespace().unwrap_or_default(),
            secret.name_any()
        ),
        wrong,
    }
}

/// The proxy through which a member is reached, if there is one.
fn proxy(cluster: &Cluster) -> Result<Option<http::Uri>, MemberClientError> {
    let spec = &cluster.spec;
    let Some(url) = spec.proxy_url.as_ref().filter(|url| !url.is_empty()) else {
        return Ok(None);
    };
    let known = |uri: &http::Uri| matches!(uri.scheme_str(), Some("http" | "https" | "socks5"));
    let parsed = url.parse().ok().filter(known);
    let proxy = parsed.ok_or_else(|| MemberClientError::Proxy {
        cluster: cluster.name_any(),
        url: url.clone(),
    })?;
    Ok(Some(proxy))
}

/// The headers that the proxy wants; several values of one are separated by commas.
fn proxy_headers(cluster: &Cluster) -> Result<HeaderMap, MemberClientError> {
    let mut headers = HeaderMap::new();
    for (name, values) in &cluster.spec.proxy_header {
        let wrong = || MemberClientError::ProxyHeader {
            cluster: cluster.name_any(),
            header: name.clone(),
        };
        let header = HeaderName::try_from(name).map_err(|_| wrong())?;
        for value in values.split(',') {
            let mut value = HeaderValue::try_from(value).map_err(|_| wrong())?;
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
    fn the_way_in_is_what_cluster_and_secret_say() {
        let config = config(&cluster(), &secret(&[("token", "t"), ("caBundle", PEM)])).unwrap();
        assert_eq!(config.cluster_url.to_string(), "https://127.0.0.1:6444/");
        assert_eq!(config.root_cert.unwrap(), [vec![0, 0, 0]]);
        assert!(!config.accept_invalid_certs);
        assert!(config.auth_info.token.is_some());
    }

    #[test]
    fn nothing_waits_for_ever_and_a_watch_is_over_before_its_silence_is_too_long() {
        let config = config(&cluster(), &secret(&[("token", "t"), ("caBundle", PEM)])).unwrap();
        let watch = Duration::from_secs(watching().timeout.unwrap().into());
        assert!(watch + CONNECT < config.read_timeout.unwrap());
    }

    #[test]
    fn a_proxy_is_gone_through() {
        for url in ["http://p:3128", "https://p:3129", "socks5://p:1080"] {
            let mut cluster = cluster();
            cluster.spec.proxy_url = Some(url.to_owned());
            let config = config(&cluster, &secret(&[("token", "t"), ("caBundle", PEM)])).unwrap();
            assert_eq!(config.proxy_url, Some(url.parse().unwrap()));
        }
    }

    #[test]
    fn headers_for_the_proxy_may_have_several_values() {
        let told = |name: &str, values: &str| {
            let mut cluster = cluster();
            cluster.spec.proxy_header = [(name.to_owned(), values.to_owned())].into();
            proxy_headers(&cluster)
        };
        let headers = told("X-Team", "a,b").unwrap();
        let values: Vec<&HeaderValue> = headers.get_all("x-team").iter().collect();
        assert_eq!(values, ["a", "b"]);
        for (name, values) in [("no header", "a"), ("X-Team", "a\nb")] {
            let error = told(name, values).unwrap_err().to_string();
            assert!(error.contains("is no HTTP header"), "{error}");
        }
    }

    #[test]
    fn what_is_missing_is_named() {
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
                "no http, https or socks5",
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
