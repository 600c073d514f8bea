//! Helpers that send requests for the objects of one collection, and read the responses.

use serde_json::{Value, json};

use crate::harness::content_type::{JSON, JSON_PATCH, MERGE};
use crate::harness::server::{ApiResponse, TestServer};

/// A collection: the objects of one resource in a namespace or in the cluster.
pub(crate) struct Objects<'a> {
    server: &'a TestServer,
    path: String,
}

impl<'a> Objects<'a> {
    pub(crate) fn at(server: &'a TestServer, path: impl Into<String>) -> Self {
        let path = path.into();
        Self { server, path }
    }

    /// Returns the collection of the ConfigMaps in a namespace. No controller changes the ConfigMaps of a test.
    pub(crate) fn maps(server: &'a TestServer, namespace: &str) -> Self {
        Self::at(server, format!("/api/v1/namespaces/{namespace}/configmaps"))
    }

    pub(crate) fn deployments(server: &'a TestServer, namespace: &str) -> Self {
        Self::at(
            server,
            format!("/apis/apps/v1/namespaces/{namespace}/deployments"),
        )
    }

    /// Sends a request with a raw body. `rest` is appended to the path of the collection.
    pub(crate) async fn send(
        &self,
        method: &str,
        rest: &str,
        headers: &[(&str, &str)],
        body: impl Into<Vec<u8>>,
    ) -> ApiResponse {
        let path = format!("{}{rest}", self.path);
        self.server.raw(method, &path, headers, body).await
    }

    pub(crate) async fn get(&self, rest: &str) -> ApiResponse {
        self.send("GET", rest, &[], "").await
    }

    /// Sends a GET request that accepts only this format.
    pub(crate) async fn get_as(&self, rest: &str, accept: &str) -> ApiResponse {
        self.send("GET", rest, &[("accept", accept)], "").await
    }

    /// Creates an object, and returns the response. The test fails if the server rejects the object.
    pub(crate) async fn create(&self, object: &Value) -> Value {
        let created = self.post("", object).await;
        assert_eq!(created.code, 201, "{}", created.text);
        created.json
    }

    pub(crate) async fn post(&self, rest: &str, object: &Value) -> ApiResponse {
        self.send("POST", rest, &[JSON], object.to_string()).await
    }

    pub(crate) async fn put(&self, rest: &str, object: &Value) -> ApiResponse {
        self.send("PUT", rest, &[JSON], object.to_string()).await
    }

    pub(crate) async fn merge(&self, rest: &str, patch: &Value) -> ApiResponse {
        self.send("PATCH", rest, &[MERGE], patch.to_string()).await
    }

    pub(crate) async fn json_patch(&self, rest: &str, patch: &Value) -> ApiResponse {
        let body = patch.to_string();
        self.send("PATCH", rest, &[JSON_PATCH], body).await
    }

    /// Sends a DELETE request for an object or for the collection. The body is empty if the options are null.
    pub(crate) async fn delete(&self, rest: &str, options: &Value) -> ApiResponse {
        let body = if options.is_null() {
            String::new()
        } else {
            options.to_string()
        };
        self.send("DELETE", rest, &[JSON], body).await
    }
}

/// Returns a ConfigMap with these data and labels. A null argument omits the field.
pub(crate) fn map(name: &str, data: Value, labels: Value) -> Value {
    let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    if !data.is_null() {
        object["data"] = data;
    }
    if !labels.is_null() {
        object["metadata"]["labels"] = labels;
    }
    object
}

/// Returns a Deployment with one container.
pub(crate) fn deployment(name: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": {
        "replicas": 2, "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{
            "name": "c", "image": "i", "env": [{"name": "A", "value": "1"}],
            "ports": [{"containerPort": 80}]}]}}}})
}

/// Returns the code and the message of a response.
pub(crate) fn status_of(response: &ApiResponse) -> ResponseStatus<'_> {
    let message = response.json["message"].as_str();
    ResponseStatus(response.code, message.unwrap_or(&response.text))
}

/// The code and the message of a response. In comparisons, messages about invalid objects are equal if they name the
/// same fields and reasons.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ResponseStatus<'a>(pub(crate) u16, pub(crate) &'a str);

impl PartialEq<(u16, &str)> for ResponseStatus<'_> {
    fn eq(&self, (code, message): &(u16, &str)) -> bool {
        self.0 == *code && message_outline(self.1) == message_outline(message)
    }
}

/// Reduces a message to the parts that must be equal on all servers: the fields and reasons of its causes, or the text
/// before an error of Go's JSON decoder.
pub(crate) fn message_outline(message: &str) -> String {
    const REASONS: [&str; 8] = [
        "Invalid value",
        "Required value",
        "Forbidden",
        "Duplicate value",
        "Unsupported value",
        "Not found",
        "Too long",
        "Too many",
    ];
    if let Some((start, _)) = message.split_once("json: cannot unmarshal") {
        return start.to_owned();
    }
    let causes = message.split_once(" is invalid: ").map_or(message, |m| m.1);
    let mut found: Vec<String> = REASONS
        .iter()
        .flat_map(|reason| {
            causes
                .match_indices(&format!(": {reason}"))
                .filter_map(|(at, _)| {
                    let field = causes[..at].rsplit([' ', '\n']).next()?;
                    Some(format!("{} {reason}", field.trim_start_matches('[')))
                })
                .collect::<Vec<_>>()
        })
        .collect();
    if found.is_empty() {
        return message.to_owned();
    }
    found.sort();
    found.dedup();
    found.join(", ")
}

pub(crate) fn version(object: &Value) -> &str {
    object["metadata"]["resourceVersion"].as_str().unwrap()
}
