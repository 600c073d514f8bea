//! Tests of the dashboard of `berth up` with plain HTTP requests. The module `dashboard_views` tests in a browser.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use berth_test_requirements::needs;

use crate::program::{Up, root, until};

/// Address and token of a dashboard, which the banner of `berth up` contains.
pub(crate) struct Page {
    address: String,
    token: String,
}

impl Page {
    pub(crate) fn of(up: &Up) -> Self {
        let log = up.log();
        let (_, url) = log.split_once("http://").expect("the banner has the URL");
        let url = url.lines().next().unwrap();
        let (address, token) = url.split_once("/?token=").unwrap();
        Self {
            address: address.to_owned(),
            token: token.to_owned(),
        }
    }

    /// Returns the URL of a page, with the token.
    pub(crate) fn url(&self, path: &str) -> String {
        let separator = if path.contains('?') { '&' } else { '?' };
        format!(
            "http://{}{path}{separator}token={}",
            self.address, self.token
        )
    }

    /// Sends a request, and returns the response as text, including its headers.
    fn send(&self, method: &str, path: &str, host: &str, cookie: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        response
    }

    /// Sends a GET request with the token, and returns the response as text, including its headers.
    pub(crate) fn get(&self, path: &str) -> String {
        let (_, port) = self.address.split_once(':').unwrap();
        let cookie = format!("berth-dashboard-{port}={}", self.token);
        self.send("GET", path, &self.address, &cookie)
    }
}

#[test]
fn the_token_becomes_a_cookie_and_requests_without_the_cookie_are_refused() {
    let up = Up::start(&["--members=0"]);
    let page = Page::of(&up);
    let entered = page.send("GET", &format!("/?token={}", page.token), &page.address, "");
    for expected in [
        "303 See Other",
        "location: /\r\n",
        "HttpOnly; SameSite=Strict",
        "content-security-policy: default-src 'none'",
        "referrer-policy: no-referrer",
    ] {
        assert!(entered.contains(expected), "{expected}: {entered}");
    }
    assert!(page.get("/").starts_with("HTTP/1.1 200"));
    let address = &page.address;
    for (method, path, host, status) in [
        ("GET", "/", address.as_str(), "401"),
        ("GET", "/bindings", address, "401"),
        ("GET", "/updates", address, "401"),
        ("GET", "/?token=wrong", address, "401"),
        ("POST", "/", address, "405"),
        ("GET", "/", "evil.example", "421"),
    ] {
        let response = page.send(method, path, host, "");
        let expected = format!("HTTP/1.1 {status}");
        assert!(
            response.starts_with(&expected),
            "{method} {path} {host}: {response}"
        );
    }
}

#[needs(kubectl)]
#[test]
fn every_view_shows_the_placed_workload() {
    let up = Up::start(&[]);
    let page = Page::of(&up);
    let nginx = root().join("examples/nginx.yaml");
    up.kubectl(&["apply", "-f", nginx.to_str().unwrap()]);
    let until_page_contains = |path: &str, expected: &[&str]| {
        until(path, || {
            let text = page.get(path);
            let missing = expected.iter().find(|part| !text.contains(**part));
            missing.map_or(Ok(()), |part| Err(format!("{part} is not in {text}")))
        });
    };
    until_page_contains("/", &["member1", "member3", "Ready", "GiB free of"]);
    let name = "default/nginx-deployment";
    until_page_contains(
        "/bindings",
        &[name, "Scheduled", "Applied", "nginx-propagation"],
    );
    until_page_contains("/bindings?cluster=member3", &["<b>0</b> of 1 bindings"]);
    until_page_contains("/bindings?q=NGINX&state=scheduled", &[name]);
    until_page_contains("/live", &[name, "Placed"]);
    let path = format!("/bindings/{name}");
    until_page_contains(&path, &["Clusters by stage", "ClusterAffinity"]);
    until_page_contains(
        &format!("{path}/changes"),
        &["member3", "Smallest changes by cluster"],
    );
    let objects = [
        "Manifest has been successfully applied",
        "ScheduleBindingSucceed",
    ];
    until_page_contains(&format!("{path}/objects"), &objects);
    assert!(
        page.get("/bindings/default/none")
            .starts_with("HTTP/1.1 404")
    );
}
