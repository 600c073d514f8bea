//! A client that sends additional headers to its HTTP proxy. The client library supports only proxies without
//! additional headers. In all other respects, this module builds the client as the library does.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::PROXY_AUTHORIZATION;
use http::{HeaderMap, HeaderValue, Uri};
use hyper_rustls::HttpsConnector;
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ClientBuilder, ConfigExt as _};
use percent_encoding::percent_decode_str;
use tower::{BoxError, ServiceBuilder};

/// Builds a client that connects through an HTTP or HTTPS proxy.
///
/// # Errors
/// When certificates or tokens of the configuration are malformed.
pub(super) fn client(
    config: &kube::Config,
    proxy: Uri,
    headers: HeaderMap,
) -> Result<kube::Client, kube::Error> {
    let tunnel = tunnel(config, proxy, headers)?;
    let mut connector =
        TimeoutConnector::new(config.rustls_https_connector_with_connector(tunnel)?);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    connector.set_reset_reader_on_write(config.reset_reader_on_write);
    let transport: legacy::Client<_, Body> =
        legacy::Client::builder(TokioExecutor::new()).build(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(transport);
    Ok(ClientBuilder::new(service, config.default_namespace.clone()).build())
}

/// Returns a connector through an HTTP or HTTPS proxy.
///
/// # Errors
/// When certificates of the configuration are malformed.
pub(super) fn tunnel(
    config: &kube::Config,
    proxy: Uri,
    mut headers: HeaderMap,
) -> Result<Tunnel<HttpsConnector<HttpConnector>>, kube::Error> {
    if let Some(value) = authorization(&proxy) {
        headers.insert(PROXY_AUTHORIZATION, value);
    }
    let mut to_proxy = HttpConnector::new();
    to_proxy.enforce_http(false);
    let to_proxy = config.rustls_https_connector_with_connector(to_proxy)?;
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
    use super::*;

    #[test]
    fn user_and_password_of_the_url_become_a_header() {
        let of = |url: &str| authorization(&url.parse().unwrap());
        assert_eq!(of("http://p:3128"), None);
        let value = of("http://ann:a%40b@p:3128").unwrap();
        assert_eq!(value, format!("Basic {}", STANDARD.encode("ann:a@b")));
    }
}
