//! The access check of the dashboard: the token, the Host header, the method and the origin of a request.

use std::hint::black_box;
use std::net::{IpAddr, SocketAddr};

use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use uuid::Uuid;

/// The access check for requests. The token is a secret that `berth` prints as part of the dashboard's URL.
#[derive(Debug)]
pub(crate) struct Access {
    token: String,
    address: SocketAddr,
}

/// The result of the access check of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AccessDecision {
    /// The request has a cookie with the token.
    Granted,
    /// The URL has the token. The response sets the cookie, and redirects the browser to the same URL without the
    /// token.
    SetCookie(String),
    /// The request is refused.
    Refused(StatusCode, &'static str),
}

impl Access {
    pub(crate) fn new(address: SocketAddr) -> Self {
        let token = format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple());
        Self { token, address }
    }

    /// Returns the URL of the dashboard with the token.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/?token={}", self.address, self.token)
    }

    /// Returns the value of the `Set-Cookie` header that stores the token. A browser sends the cookies of a host to all
    /// ports of the host, so the name of the cookie contains the port.
    pub(crate) fn cookie(&self) -> String {
        format!(
            "{}={}; Path=/; HttpOnly; SameSite=Strict",
            self.cookie_name(),
            self.token
        )
    }

    /// Checks the Host header, the method, the token and the origin of a request.
    pub(crate) fn check(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> AccessDecision {
        if !self.is_own_host(headers) {
            return AccessDecision::Refused(
                StatusCode::MISDIRECTED_REQUEST,
                "unknown host: use the address that berth printed\n",
            );
        }
        if !matches!(*method, Method::GET | Method::HEAD) {
            return AccessDecision::Refused(
                StatusCode::METHOD_NOT_ALLOWED,
                "the dashboard is read-only: use GET\n",
            );
        }
        if let Some(candidate) = token_of(uri) {
            return if self.is_token(candidate) {
                AccessDecision::SetCookie(without_token(uri))
            } else {
                Self::unauthorized()
            };
        }
        let cookies = headers.get_all(header::COOKIE).iter();
        let mut cookies = cookies
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(';'));
        let name = self.cookie_name();
        let is_known = cookies.any(|cookie| {
            let pair = cookie.trim().split_once('=');
            pair.is_some_and(|(key, value)| key == name && self.is_token(value))
        });
        if !is_known {
            Self::unauthorized()
        } else if is_of_other_page(headers) {
            AccessDecision::Refused(
                StatusCode::FORBIDDEN,
                "request of another web page: open the address that berth printed in a new tab\n",
            )
        } else {
            AccessDecision::Granted
        }
    }

    const fn unauthorized() -> AccessDecision {
        AccessDecision::Refused(
            StatusCode::UNAUTHORIZED,
            "no valid token: open the URL that berth printed\n",
        )
    }

    fn cookie_name(&self) -> String {
        format!("berth-dashboard-{}", self.address.port())
    }

    /// Compares a text with the token. The duration of the comparison does not depend on the position of the first
    /// difference.
    fn is_token(&self, candidate: &str) -> bool {
        let (candidate, token) = (candidate.as_bytes(), self.token.as_bytes());
        let differences = candidate
            .iter()
            .zip(token)
            .fold(0, |all, (a, b)| all | (a ^ b));
        candidate.len() == token.len() && black_box(differences) == 0
    }

    /// Checks that the Host header names this server. Otherwise a web page of another host name that resolves to this
    /// address could read the dashboard through the user's browser.
    fn is_own_host(&self, headers: &HeaderMap) -> bool {
        let mut values = headers.get_all(header::HOST).iter();
        let (Some(value), None) = (values.next(), values.next()) else {
            return false;
        };
        let Ok(host) = value.to_str() else {
            return false;
        };
        let expected = match self.address.ip() {
            IpAddr::V6(ip) => format!("[{ip}]"),
            IpAddr::V4(ip) => ip.to_string(),
        };
        let (name, port) = host.rsplit_once(':').unwrap_or((host, "80"));
        let is_name = name == expected || (self.address.ip().is_loopback() && name == "localhost");
        is_name && port.parse() == Ok(self.address.port())
    }
}

/// Reports whether a browser sends the request for a page of another origin. For a cookie with `SameSite`, all ports of a
/// host are the same site. Programs other than browsers send no such header.
fn is_of_other_page(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all("sec-fetch-site").iter();
    values.any(|value| value != "same-origin" && value != "none")
}

fn pairs(uri: &Uri) -> impl Iterator<Item = &str> {
    uri.query().unwrap_or_default().split('&')
}

fn token_of(uri: &Uri) -> Option<&str> {
    pairs(uri).find_map(|pair| pair.strip_prefix("token="))
}

/// Returns the path and the query of a URL without the token.
fn without_token(uri: &Uri) -> String {
    let query: Vec<&str> = pairs(uri)
        .filter(|pair| !pair.is_empty() && !pair.starts_with("token="))
        .collect();
    // A browser treats a path that starts with two slashes as the URL of another host.
    let path = format!("/{}", uri.path().trim_start_matches(['/', '\\']));
    if query.is_empty() {
        path
    } else {
        format!("{path}?{}", query.join("&"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access() -> Access {
        Access {
            token: "secret".to_owned(),
            address: ([127, 0, 0, 1], 8080).into(),
        }
    }

    fn check(method: &Method, uri: &str, host: &str, cookie: &str) -> AccessDecision {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().unwrap());
        headers.insert(header::COOKIE, cookie.parse().unwrap());
        access().check(method, &uri.parse().unwrap(), &headers)
    }

    #[test]
    fn requests_need_the_token_the_host_and_a_reading_method() {
        let good = "a=b; berth-dashboard-8080=secret";
        for (method, uri, host, cookie, expected) in [
            ("GET", "/", "127.0.0.1:8080", good, 200),
            ("HEAD", "/", "127.0.0.1:8080", good, 200),
            ("GET", "/", "localhost:8080", good, 200),
            ("GET", "/", "localhost:8081", good, 421),
            ("GET", "/", "localhost", good, 421),
            ("GET", "/", "evil.example:8080", good, 421),
            ("GET", "/?token=secret", "evil.example:8080", good, 421),
            ("POST", "/", "127.0.0.1:8080", good, 405),
            ("GET", "/", "127.0.0.1:8080", "", 401),
            (
                "GET",
                "/",
                "127.0.0.1:8080",
                "berth-dashboard-8080=secre",
                401,
            ),
            (
                "GET",
                "/",
                "127.0.0.1:8080",
                "berth-dashboard-8080=secret2",
                401,
            ),
            (
                "GET",
                "/",
                "127.0.0.1:8080",
                "berth-dashboard-8081=secret",
                401,
            ),
            ("GET", "/?token=wrong", "127.0.0.1:8080", good, 401),
            ("GET", "/?token=", "127.0.0.1:8080", "", 401),
        ] {
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            let status = match check(&method, uri, host, cookie) {
                AccessDecision::Granted => 200,
                AccessDecision::SetCookie(_) => 303,
                AccessDecision::Refused(status, _) => status.as_u16(),
            };
            assert_eq!(status, expected, "{method} {uri} {host} {cookie}");
        }
    }

    #[test]
    fn pages_of_other_origins_are_refused() {
        for (site, expected) in [
            (None, true),
            (Some("same-origin"), true),
            (Some("none"), true),
            // A page on another port of the host.
            (Some("same-site"), false),
            (Some("cross-site"), false),
            (Some(""), false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, "localhost:8080".parse().unwrap());
            let cookie = "berth-dashboard-8080=secret";
            headers.insert(header::COOKIE, cookie.parse().unwrap());
            if let Some(site) = site {
                headers.insert("Sec-Fetch-Site", site.parse().unwrap());
            }
            let uri = "/bindings/shop/web/members".parse().unwrap();
            let decision = access().check(&Method::GET, &uri, &headers);
            assert_eq!(decision == AccessDecision::Granted, expected, "{site:?}");
            if !expected {
                let refused = matches!(decision, AccessDecision::Refused(StatusCode::FORBIDDEN, _));
                assert!(refused, "{site:?}: {decision:?}");
            }
        }
    }

    #[test]
    fn the_redirect_url_has_no_token() {
        for (uri, expected) in [
            ("/?token=secret", "/"),
            ("/bindings?q=a&token=secret&page=2", "/bindings?q=a&page=2"),
            ("//evil.example/?token=secret", "/evil.example/"),
        ] {
            let expected = AccessDecision::SetCookie(expected.to_owned());
            assert_eq!(check(&Method::GET, uri, "localhost:8080", ""), expected);
        }
    }

    #[test]
    fn tokens_are_long_and_different() {
        let address = ([127, 0, 0, 1], 8080).into();
        let (one, two) = (Access::new(address), Access::new(address));
        assert_eq!(one.token.len(), 64);
        assert_ne!(one.token, two.token);
    }
}
