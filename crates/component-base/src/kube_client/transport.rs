//! The HTTP client of an API server: connections, proxies, TLS and credentials.
//!
//! Unlike the transport of the client library, this one verifies certificates with a [`ServerVerifier`], and sends
//! additional headers to HTTP proxies.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use berth_apimachinery::api_error::api_error_message;
use berth_https_client::ServerVerifier;
use http::header::PROXY_AUTHORIZATION;
use http::{HeaderMap, HeaderValue, Request, Response, Uri};
use http_body_util::BodyExt as _;
use hyper::body::{Body as HttpBody, Bytes, Incoming};
use hyper::rt::{Read, Write};
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::legacy::connect::{Connection, HttpConnector};
use hyper_util::rt::TokioExecutor;
use kube::client::retry::RetryPolicy;
use kube::client::{Body, ClientBuilder, ConfigExt as _, DynBody};
use percent_encoding::percent_decode_str;
use rustls::pki_types::{CertificateDer, ServerName};
use tower::retry::RetryLayer;
use tower::util::BoxService;
use tower::{BoxError, Service, ServiceBuilder, ServiceExt as _};

use super::response_limits::ResponseLimits;

/// A transport with an erased type.
pub(super) type Transport = BoxService<Request<Body>, Response<Box<DynBody>>, BoxError>;

/// Creates a builder of a client. An HTTP or HTTPS proxy receives the headers; a SOCKS5 proxy receives none.
pub(super) fn builder(
    config: &kube::Config,
    proxy_headers: HeaderMap,
) -> Result<ClientBuilder<Transport>, kube::Error> {
    let direct = direct();
    match config.proxy_url.clone() {
        None => build(config, direct),
        Some(proxy) => match proxy.scheme_str() {
            Some("socks5") => build(config, SocksV5::new(proxy, direct)),
            Some("http" | "https") => build(config, tunnel(config, proxy, proxy_headers)?),
            _ => Err(kube::Error::ProxyProtocolUnsupported {
                proxy_url: Box::new(proxy),
            }),
        },
    }
}

/// Creates a client of a server that is not trusted: its responses are limited.
///
/// # Errors
/// When certificates, tokens or the proxy of the configuration are malformed.
pub fn limited_client(
    config: &kube::Config,
    proxy_headers: HeaderMap,
) -> Result<kube::Client, kube::Error> {
    let builder = builder(config, proxy_headers)?;
    Ok(builder.with_layer(&ResponseLimits).build())
}

/// An error of [`send_once`].
#[derive(Debug, thiserror::Error)]
pub enum SendOnceError {
    /// The certificates or the proxy of the configuration are malformed.
    #[error("{}", api_error_message(.0))]
    Configuration(Box<kube::Error>),
    /// The server did not respond.
    #[error(transparent)]
    Unreachable(legacy::Error),
}

/// Sends a request over a new connection, without the credentials of the configuration. If the protocol is upgraded,
/// the response owns the connection.
///
/// # Errors
/// When certificates or the proxy of the configuration are malformed, or the server does not respond.
pub async fn send_once<B>(
    config: &kube::Config,
    proxy_headers: HeaderMap,
    request: Request<B>,
) -> Result<Response<Incoming>, SendOnceError>
where
    B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    let malformed = |error| SendOnceError::Configuration(Box::new(error));
    let direct = direct();
    let response = match config.proxy_url.clone() {
        None => pool(config, direct).map_err(malformed)?.request(request),
        Some(proxy) if proxy.scheme_str() == Some("socks5") => {
            let connector = SocksV5::new(proxy, direct);
            pool(config, connector).map_err(malformed)?.request(request)
        }
        Some(proxy) => {
            let connector = tunnel(config, proxy, proxy_headers).map_err(malformed)?;
            pool(config, connector).map_err(malformed)?.request(request)
        }
    };
    response.await.map_err(SendOnceError::Unreachable)
}

/// Returns a connector that opens TCP connections.
fn direct() -> HttpConnector {
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector
}

fn build<C>(config: &kube::Config, connector: C) -> Result<ClientBuilder<Transport>, kube::Error>
where
    C: Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: Connection + Read + Write + Send + Unpin + 'static,
    C::Future: Send + 'static,
    C::Error: Into<BoxError> + Send + Sync + std::error::Error + 'static,
{
    let http = pool::<_, Body>(config, connector)?;
    let retries = config.default_retry;
    let retries = retries.then(|| RetryLayer::new(RetryPolicy::server_retry()));
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(retries)
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(http)
        .map_response(|response: Response<_>| {
            response.map(|body| Box::new(body.map_err(BoxError::from)) as Box<DynBody>)
        });
    let namespace = config.default_namespace.clone();
    Ok(ClientBuilder::new(BoxService::new(service), namespace))
}

/// Returns a client with a pool of connections, TLS and the time limits of the configuration.
fn pool<C, B>(
    config: &kube::Config,
    connector: C,
) -> Result<legacy::Client<TimeoutConnector<HttpsConnector<C>>, B>, kube::Error>
where
    C: Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: Connection + Read + Write + Send + Unpin + 'static,
    C::Future: Send + 'static,
    C::Error: Into<BoxError> + Send + Sync + std::error::Error + 'static,
    B: HttpBody + Send,
    B::Data: Send,
{
    let mut connector = TimeoutConnector::new(https_connector(config, connector)?);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    connector.set_reset_reader_on_write(config.reset_reader_on_write);
    Ok(legacy::Client::builder(TokioExecutor::new()).build(connector))
}

/// Returns a connector with TLS.
fn https_connector<C>(
    config: &kube::Config,
    connector: C,
) -> Result<HttpsConnector<C>, kube::Error> {
    let unusable = kube::Error::Service;
    let mut tls = config.rustls_client_config()?;
    // The library reloads the certificates of a file, and verifies with the reloaded ones.
    let verifies = !config.accept_invalid_certs && config.root_cert_file.is_none();
    if let Some(roots) = config.root_cert.as_ref().filter(|_| verifies) {
        let roots = roots.iter().cloned().map(CertificateDer::from).collect();
        let provider = Arc::clone(tls.crypto_provider());
        let server =
            ServerVerifier::new(provider, roots).map_err(|error| unusable(error.into()))?;
        tls.dangerous().set_certificate_verifier(Arc::new(server));
    }
    let mut builder = HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_or_http();
    if let Some(name) = config.tls_server_name.clone() {
        let name = ServerName::try_from(name).map_err(|error| unusable(error.into()))?;
        builder = builder.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    Ok(builder.enable_http1().wrap_connector(connector))
}

/// Returns a connector through an HTTP or HTTPS proxy.
fn tunnel(
    config: &kube::Config,
    proxy: Uri,
    mut headers: HeaderMap,
) -> Result<Tunnel<HttpsConnector<HttpConnector>>, kube::Error> {
    if let Some(value) = authorization(&proxy) {
        headers.insert(PROXY_AUTHORIZATION, value);
    }
    let to_proxy = https_connector(config, direct())?;
    Ok(Tunnel::new(proxy, to_proxy).with_headers(headers))
}

/// Returns the `Proxy-Authorization` header for the user and password in the URL of a proxy. This header replaces a
/// configured header of the same name.
fn authorization(proxy: &Uri) -> Option<HeaderValue> {
    let (user, _) = proxy.authority()?.as_str().rsplit_once('@')?;
    let user: Vec<u8> = percent_decode_str(user).collect();
    let mut value = HeaderValue::try_from(format!("Basic {}", STANDARD.encode(user))).ok()?;
    value.set_sensitive(true);
    Some(value)
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
    use rustls::ServerConfig;
    use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;

    use super::*;
    use crate::kube_client::certificate_problem::CertificateProblem;

    /// Starts an HTTPS server with a certificate. Returns its address.
    async fn serve(certificate: CertificateDer<'static>, key: &KeyPair) -> String {
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let Ok(mut stream) = acceptor.accept(stream).await else {
                        return;
                    };
                    let mut request = [0; 4096];
                    let _ = stream.read(&mut request).await;
                    let response = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
                    let _ = stream.write_all(response).await;
                });
            }
        });
        format!("https://{address}")
    }

    /// Sends a request with these trusted certificates.
    async fn get(url: &str, trusted: &CertificateDer<'static>) -> Result<String, kube::Error> {
        let mut config = kube::Config::new(url.parse().unwrap());
        config.root_cert = Some(vec![trusted.to_vec()]);
        config.default_retry = false;
        let client = limited_client(&config, HeaderMap::new()).unwrap();
        client
            .request_text(Request::get("/readyz").body(Vec::new()).unwrap())
            .await
    }

    fn params(names: &[&str]) -> CertificateParams {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        CertificateParams::new(names).unwrap()
    }

    fn authority() -> (CertificateParams, KeyPair) {
        let mut params = params(&["127.0.0.1"]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        (params, KeyPair::generate().unwrap())
    }

    #[tokio::test]
    async fn a_trusted_certificate_of_an_authority_is_accepted_from_a_server() {
        let (params, key) = authority();
        let own = params.self_signed(&key).unwrap().der().clone();
        let url = serve(own.clone(), &key).await;
        assert_eq!(get(&url, &own).await.unwrap(), "ok");
    }

    #[tokio::test]
    async fn each_problem_of_a_certificate_is_recognized() {
        let (authority_params, authority_key) = authority();
        let trusted = authority_params.self_signed(&authority_key).unwrap();
        let trusted = trusted.der().clone();
        let issuer = Issuer::new(authority_params, authority_key);
        let problem = async |params: CertificateParams| {
            let key = KeyPair::generate().unwrap();
            let certificate = params.signed_by(&key, &issuer).unwrap().der().clone();
            let url = serve(certificate, &key).await;
            get(&url, &trusted)
                .await
                .map_err(|error| CertificateProblem::of(&error))
        };
        assert_eq!(problem(params(&["127.0.0.1"])).await.unwrap(), "ok");
        let mut expired = params(&["127.0.0.1"]);
        expired.not_after = rcgen::date_time_ymd(2020, 1, 1);
        assert_eq!(
            problem(expired).await,
            Err(Some(CertificateProblem::Expired))
        );
        let wrong_name = problem(params(&["other.example"])).await.unwrap_err();
        assert!(
            matches!(&wrong_name, Some(CertificateProblem::Refused(why)) if why.contains("host")),
            "{wrong_name:?}"
        );

        let (params, key) = authority();
        let foreign = params.self_signed(&key).unwrap().der().clone();
        let url = serve(foreign, &key).await;
        let error = get(&url, &trusted).await.unwrap_err();
        let unknown = CertificateProblem::of(&error);
        assert!(
            matches!(&unknown, Some(CertificateProblem::Refused(why)) if why.contains("authority")),
            "{unknown:?}"
        );

        let closed = TcpListener::bind("127.0.0.1:0")
            .await
            .unwrap()
            .local_addr()
            .unwrap();
        let error = get(&format!("https://{closed}"), &trusted)
            .await
            .unwrap_err();
        assert_eq!(CertificateProblem::of(&error), None);
        let cause = berth_apimachinery::api_error::root_cause(&error);
        assert!(cause.contains("refused"), "{cause}");
    }

    #[test]
    fn user_and_password_of_the_url_become_a_header() {
        let of = |url: &str| authorization(&url.parse().unwrap());
        assert_eq!(of("http://p:3128"), None);
        let value = of("http://ann:a%40b@p:3128").unwrap();
        assert_eq!(value, format!("Basic {}", STANDARD.encode("ann:a@b")));
    }
}
