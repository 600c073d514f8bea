//! Tests of the dashboard of `berth up` with plain HTTP requests. The module `dashboard_views` tests in a browser.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Child;

use berth_test_requirements::needs;

use crate::documented::commands;
use crate::program::{Up, berth, root, until};

/// Address and token of a dashboard, which the banner of `berth up` contains.
pub(crate) struct Page {
    address: String,
    token: String,
}

impl Page {
    pub(crate) fn of(up: &Up) -> Self {
        let log = up.log();
        let at = log.find("http://").expect("the banner has the URL");
        Self::at(log[at..].lines().next().unwrap())
    }

    /// Returns the page at a URL with a token.
    fn at(url: &str) -> Self {
        let url = url.trim_start_matches("http://");
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
    let fleet = ["member1", "member3", "Ready", "GiB free of", "3 of 3 ready"];
    until_page_contains("/fleet", &fleet);
    until_page_contains(
        "/",
        &["The fleet is well", "1 workload: 1 well", "1 placed"],
    );
    let name = "default/nginx-deployment";
    until_page_contains("/bindings", &[name, ">well<", ">2/2<", "nginx-propagation"]);
    until_page_contains("/bindings?cluster=member3", &["<b>0</b> of 1 workloads"]);
    until_page_contains("/bindings?q=NGINX&health=well", &[name]);
    until_page_contains("/bindings?health=problems", &["<b>0</b> of 1 workloads"]);
    until_page_contains("/live", &[name, "Placed"]);
    let path = format!("/bindings/{name}");
    // The scheduler of `berth up` has recorded its decision.
    let decision = [
        "2 of 2 replicas are ready in 2 clusters",
        "2 clusters, all well",
        "by the scheduler default-scheduler",
        "from its record",
        "Clusters by stage",
        "ClusterAffinity",
    ];
    until_page_contains(&path, &decision);
    until_page_contains(
        "/clusters/member1",
        &[
            "Conditions",
            "ClusterReady",
            name,
            "What would leave if it went?",
        ],
    );
    let policy = "default/nginx-propagation";
    until_page_contains("/policies", &[policy, "1 well"]);
    until_page_contains(
        &format!("/policies/{policy}"),
        &["Deployment (1)", "/clusters/member1", name],
    );
    until_page_contains(
        &format!("{path}/changes"),
        &["member3", "Smallest changes by cluster"],
    );
    let objects = [
        "Manifest has been successfully applied",
        "ScheduleBindingSucceed",
    ];
    until_page_contains(&format!("{path}/objects"), &objects);
    for path in [
        "/bindings/default/none",
        "/clusters/none",
        "/policies/default/none",
        "/none",
    ] {
        assert!(page.get(path).starts_with("HTTP/1.1 404"), "{path}");
    }
}

/// A Deployment whose policy selects no cluster.
const UNPLACEABLE: &str = "apiVersion: apps/v1
kind: Deployment
metadata: {name: lonely}
spec:
  selector: {matchLabels: {app: lonely}}
  template:
    metadata: {labels: {app: lonely}}
    spec: {containers: [{name: c, image: nginx}]}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: lonely}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: lonely}]
  placement: {clusterAffinity: {clusterNames: [nowhere]}}
";

#[needs(kubectl)]
#[test]
fn a_workload_that_cannot_be_placed_needs_attention() {
    let up = Up::start(&["--members=1"]);
    let page = Page::of(&up);
    let manifest = up.home.path().join("lonely.yaml");
    std::fs::write(&manifest, UNPLACEABLE).unwrap();
    up.kubectl(&["apply", "-f", manifest.to_str().unwrap()]);
    for (path, expected) in [
        (
            "/",
            &[
                "1 workload needs attention",
                "default/lonely",
                "berth explain deployment/lonely",
            ][..],
        ),
        (
            "/bindings?health=stuck&reason=Unschedulable",
            &["default/lonely", ">stuck<"],
        ),
        (
            "/bindings/default/lonely-deployment",
            &[
                "verdict stuck",
                "<b>scheduling</b>",
                "Next: ",
                "Clusters by stage",
            ],
        ),
        ("/policies", &["1 stuck"]),
    ] {
        until(path, || {
            let text = page.get(path);
            let missing = expected.iter().find(|part| !text.contains(**part));
            missing.map_or(Ok(()), |part| Err(format!("{part} is not in {text}")))
        });
    }
}

/// Starts a command `berth dashboard` in the home folder of `berth up`, and returns its page.
fn dashboard_of(up: &Up, arguments: &[&str]) -> (Running, Page) {
    let log = up.home.path().join("dashboard.log");
    let output = std::fs::File::create(&log).unwrap();
    let mut command = berth(up.home.path(), arguments);
    let child = command.stdout(output).spawn().unwrap();
    let page = until("the dashboard", || {
        let text = std::fs::read_to_string(&log).unwrap();
        let url = text
            .lines()
            .find_map(|line| line.strip_prefix("dashboard: "));
        url.map(Page::at).ok_or(text)
    });
    (Running(child), page)
}

#[needs(kubectl)]
#[test]
fn the_commands_in_the_page_on_the_dashboard_serve_it() {
    let up = Up::start(&["--members=2", "--without=dashboard"]);
    let nginx = root().join("examples/nginx.yaml");
    up.kubectl(&["apply", "-f", nginx.to_str().unwrap()]);
    let record = std::fs::read_to_string(up.home.path().join(".berth/kubeconfig.up")).unwrap();
    let record: serde_json::Value = serde_json::from_str(&record).unwrap();
    let (kubeconfig, scheduler) = (up.kubeconfig(), record["scheduler"].as_str().unwrap());
    let commands = commands("dashboard.md");
    assert_eq!(commands.len(), 2, "{commands:?}");
    for command in commands {
        let command = command
            .replace("~/.kube/karmada.config", kubeconfig.to_str().unwrap())
            .replace("http://127.0.0.1:8080", scheduler);
        let words: Vec<&str> = command.split(' ').skip(1).collect();
        let (_dashboard, page) = dashboard_of(&up, &words);
        let path = "/bindings/default/nginx-deployment";
        until(path, || {
            let text = page.get(path);
            if text.contains("from its record") {
                Ok(())
            } else {
                Err(text)
            }
        });
    }
}

/// A process that is killed when it is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[needs(kubectl)]
#[test]
fn a_page_without_its_control_plane_tells_the_cause_and_the_age_of_the_data() {
    let mut up = Up::start(&["--members=1", "--without=dashboard"]);
    let (_dashboard, page) = dashboard_of(&up, &["dashboard"]);
    let until_page_contains = |path: &str, expected: &[&str]| {
        until(path, || {
            let text = page.get(path);
            let missing = expected.iter().find(|part| !text.contains(**part));
            missing.map_or_else(
                || Ok(text.clone()),
                |part| Err(format!("{part} is not in {text}")),
            )
        })
    };
    // The indicator is empty: the page's script writes "live".
    let works = ["member1", "1 of 1 ready", "role=\"status\"></span>"];
    until_page_contains("/fleet", &works);
    up.kubectl(&[
        "delete",
        "crd",
        "clusterresourcebindings.work.karmada.io",
        "--wait=false",
    ]);
    let missing = [
        "data-source=\"partial\"",
        "cluster-scoped workloads outdated",
        "the control plane does not serve ClusterResourceBindings",
        "install the CustomResourceDefinitions",
    ];
    until_page_contains("/fleet", &missing);
    let _ = up.child.kill();
    let unreachable = ["data-source=\"lost\"", "outdated: data from", "member1"];
    until_page_contains("/fleet", &unreachable);
}
