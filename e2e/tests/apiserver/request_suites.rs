//! Runs the suites in the folder `requests`: cases of requests and expected responses, as text.
//!
//! A suite is a sequence of lines. A line that starts with a space continues the line before it, and `#` starts a
//! comment.
//!
//! | Line | Meaning |
//! |---|---|
//! | `### NAME` | a case: a rule, and the requests that show it. Steps before the first case start every case. |
//! | `GET PATH`, `POST PATH BODY` | a request. `MERGE`, `STRATEGIC`, `JSON-PATCH` and `APPLY` are PATCH requests of the media type; `[embedded]` or `[kube-apiserver]` in front limits the request to one server. |
//! | `accept: VALUE` | a header of the request before it; after an expectation, an expected header of the response |
//! | `404 MESSAGE` | the expected code and message. `…` stands for any text; without it, [`message_outline`]s are compared. |
//! | `200 {…}` | the expected code, and the expected parts of the body, see [`expectation`] |
//! | `200 = {…}` | the expected code and the whole body |
//! | `until 200 …` | repeats the request until all its expectations are met |
//! | `not {…}` | parts that the body must not have |
//! | `names a b` | the names of the listed items |
//! | `causes FIELD REASON; …` | all causes of an error, by their reason |
//! | `errors` and lines `FIELD: MESSAGE` | all causes of an error, by their message |
//! | `warnings` and lines | all headers `Warning` |
//! | `save NAME` | keeps the body of the response as a variable |
//! | `let NAME VALUE` | sets a variable |
//! | `install DEFINITION` | creates a kind, waits until it is served, and sets `things` (its path), `group` and `crd` |
//! | `for A \| B` and rows | repeats the steps up to the next empty line for each row |
//! | `for A in b c` | repeats the steps up to the next empty line for each word |
//!
//! Bodies and values are YAML, mostly in flow style. A body that is a string is sent as it is. `A & B` is `A` with the
//! merge patch `B`; keys that start with `/` are JSON pointers. `<name>` and `<name/pointer>` refer to variables: `ns`
//! is a namespace of the case, `id` a unique text, `definition` a definition with a unique group.
//!
//! A request without an expectation must succeed.

mod expectation;
mod suite;
mod template;

use futures::StreamExt as _;
use serde_json::Value;

use crate::harness::definitions::Kind;
use crate::harness::server;
use crate::harness::server::{ApiResponse, TestServer};
use suite::{Case, Request, Step, Suite};
use template::Variables;

/// Number of cases that run at the same time.
const CONCURRENT: usize = 4;

/// Runs all cases of a suite, and returns their failures. A failure starts with the name of the case and the line.
async fn failures(server: &TestServer, text: &str) -> Vec<String> {
    let suite = Suite::parse(text);
    let runs = suite.cases.iter().map(async |case| {
        let mut variables = Variables::default();
        if text.contains("<ns>") {
            variables.set("ns", server.namespace().await.into());
        }
        let mut run = Run {
            server,
            case,
            variables,
            failures: Vec::new(),
        };
        run.steps(&suite.start).await;
        run.steps(&case.steps).await;
        run.failures
    });
    let runs = futures::stream::iter(runs).buffered(CONCURRENT);
    runs.collect::<Vec<_>>().await.concat()
}

async fn check(text: &str) {
    let server = server().await.without_retries().await;
    let failures = failures(&server, text).await;
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// One run of a case.
struct Run<'a> {
    server: &'a TestServer,
    case: &'a Case,
    variables: Variables,
    failures: Vec<String>,
}

impl Run<'_> {
    async fn steps(&mut self, steps: &[Step]) {
        for step in steps {
            match step {
                Step::Let { name, value } => {
                    let value = self.variables.literal(value);
                    self.variables.set(name, value);
                }
                Step::Install { definition } => {
                    let definition = self.variables.body(definition);
                    let kind = Kind::install(self.server, &definition).await;
                    self.variables.set("things", kind.path("v1").into());
                    self.variables.set("group", kind.group.into());
                    self.variables.set("crd", kind.name.into());
                }
                Step::For { names, rows, steps } => {
                    for row in rows {
                        for (name, cell) in names.iter().zip(row) {
                            let value = self.variables.literal(cell);
                            self.variables.set(name, value);
                        }
                        Box::pin(self.steps(steps)).await;
                    }
                }
                Step::ForIn { name, words, steps } => {
                    for word in self.variables.text(words).split_whitespace() {
                        let value = self.variables.literal(word);
                        self.variables.set(name, value);
                        Box::pin(self.steps(steps)).await;
                    }
                }
                Step::Request(request) => self.request(request).await,
            }
        }
    }

    async fn request(&mut self, request: &Request) {
        let this = if self.server.is_kube_apiserver() {
            "kube-apiserver"
        } else {
            "embedded"
        };
        if request.only.as_ref().is_some_and(|only| only != this) {
            return;
        }
        let response = if request.is_repeated {
            berth_e2e::eventually(&self.case.name, async || {
                let response = self.send(request).await;
                match self.problems(request, &response).as_slice() {
                    [] => Ok(response),
                    [(line, problem), ..] => Err(format!("line {line}: {problem}")),
                }
            })
            .await
        } else {
            self.send(request).await
        };
        for (line, problem) in self.problems(request, &response) {
            let name = &self.case.name;
            self.failures
                .push(format!("{name}, line {line}: {problem}"));
        }
        if let Some(name) = &request.saved {
            self.variables.set(name, response.json);
        }
    }

    async fn send(&self, request: &Request) -> ApiResponse {
        let path = self.variables.text(&request.path);
        let body = match request.body.as_deref() {
            None => String::new(),
            Some(body) => match self.variables.body(body) {
                Value::String(text) => text,
                value => value.to_string(),
            },
        };
        let headers: Vec<(&str, String)> = request
            .headers
            .iter()
            .map(|(name, value)| (name.as_str(), self.variables.text(value)))
            .filter(|(_, value)| value != "<absent>")
            .collect();
        let headers: Vec<(&str, &str)> = headers.iter().map(|(n, v)| (*n, v.as_str())).collect();
        self.server
            .raw(&request.method, &path, &headers, body)
            .await
    }

    /// Returns the unmet expectations with their lines.
    fn problems(&self, request: &Request, response: &ApiResponse) -> Vec<(usize, String)> {
        if !request.expects_code && !(200..300).contains(&response.code) {
            let problem = format!(
                "expected success, found {} {}",
                response.code, response.text
            );
            return vec![(request.line, problem)];
        }
        let expectations = request.expectations.iter();
        expectations
            .flat_map(|(line, keyword, text)| {
                let problems = expectation::problems(keyword, text, &self.variables, response);
                problems.into_iter().map(|problem| (*line, problem))
            })
            .collect()
    }
}

/// Defines a test for each suite.
macro_rules! suites {
    ($($name:ident),* $(,)?) => {
        const SUITES: &[(&str, &str)] = &[
            $((stringify!($name), include_str!(concat!("requests/", stringify!($name), ".http"))),)*
        ];
        $(
            #[tokio::test]
            async fn $name() {
                check(include_str!(concat!("requests/", stringify!($name), ".http"))).await;
            }
        )*
    };
}

suites! {
    apply_empty_values,
    builtin_normalization,
    builtin_validation,
    custom_resources,
    definitions,
    deletion,
    field_selectors,
    kind_mismatch,
    list_options,
    listing,
    missing_objects,
    name_references,
    patching,
    paths,
    pod_eviction,
    priority_classes,
    quotas,
    removed_fields,
    request_bodies,
    server_side_apply,
    services,
    status_validation,
    subresources,
    validation_regressions,
    writing,
}

/// Checks that the folder contains exactly the suites that have a test, and that the names of the cases in a suite
/// differ.
#[test]
fn every_suite_has_a_test() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/apiserver/requests");
    let mut files: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    let mut expected: Vec<String> = SUITES
        .iter()
        .map(|(name, _)| format!("{name}.http"))
        .collect();
    expected.sort();
    assert_eq!(files, expected);
    for (suite, text) in SUITES {
        let cases = Suite::parse(text).cases;
        let names: std::collections::BTreeSet<&str> =
            cases.iter().map(|case| case.name.as_str()).collect();
        assert_eq!(names.len(), cases.len(), "{suite}");
        let is_tested = |steps: &[Step]| steps.iter().any(Step::expects_anything);
        for case in &cases {
            assert!(
                is_tested(&case.steps),
                "{suite}: {} expects nothing",
                case.name
            );
        }
    }
}

/// Checks that each kind of expectation reports a wrong value, with the name of the case and the line.
#[tokio::test]
async fn unmet_expectations_are_reported() {
    let server = server().await.without_retries().await;
    let suite = include_str!("request_suites/unmet.http");
    let found = failures(&server, suite).await;
    let expected: Vec<String> = suite
        .lines()
        .enumerate()
        .filter(|(_, line)| {
            let is_expectation = !line.is_empty() && !line.starts_with(['#', 'G', 'P', 'l', ' ']);
            is_expectation || line.ends_with("/none")
        })
        .map(|(index, _)| format!("line {}", index + 1))
        .collect();
    assert!(expected.len() > 15, "{expected:?}");
    let mut lines: Vec<&str> = found
        .iter()
        .filter_map(|failure| failure.split([',', ':']).nth(1))
        .map(str::trim)
        .collect();
    lines.dedup();
    assert_eq!(lines, expected, "{}", found.join("\n"));
    let name = "every expectation of this case is wrong, ";
    assert!(
        found.iter().all(|failure| failure.starts_with(name)),
        "{found:?}"
    );
}
